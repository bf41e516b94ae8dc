"""Kill a process that saves, at random moments, and look at what it left: the old model or the new, always whole.

python -m tests.scale.killed 200
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.superseded import locations

_WEIGHTS, _ELEMENTS = 12, 1 << 15
_WAYS: tuple[dict[str, object], ...] = ({}, {"external_data": "m.onnx.data"}, {"shard_bytes": 1 << 18})


def filled_model(number: int) -> onnx_ir.Model:
    """A model whose weights all hold `number`, and which says so in its doc string."""
    values: list[onnx_ir.Value] = []
    for index in range(_WEIGHTS):
        tensor = onnx_ir.tensor(np.full(_ELEMENTS, number, np.float32), name=f"w{index}")
        value = onnx_ir.Value(name=f"w{index}", type=onnx_ir.TensorType(DataType.FLOAT), const_value=tensor)
        value.shape = onnx_ir.Shape([_ELEMENTS])
        values.append(value)
    node = onnx_ir.node("Sum", values)
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = "y", DataType.FLOAT, values[0].shape
    graph = onnx_ir.Graph([], node.outputs, nodes=[node], initializers=values, opset_imports={"": 21}, name="g")
    return onnx_ir.Model(graph, ir_version=10, doc_string=str(number))


def save_for_ever(path: Path, way: dict[str, object]) -> None:
    """Save one model after another over each other until the process is killed."""
    number = 1
    while True:
        castsmith.save(filled_model(number), path, **way)  # type: ignore[arg-type]
        number += 1


def require_whole(path: Path) -> None:
    """Raise AssertionError unless the model at `path` is one that was saved, to the last byte."""
    model = castsmith.load(path)
    number = float(model.doc_string or "nan")
    for value in model.graph.initializers.values():
        assert value.const_value is not None
        np.testing.assert_array_equal(value.const_value.numpy(), np.full(_ELEMENTS, number, np.float32))


def require_nothing_left(path: Path) -> None:
    """Raise AssertionError unless there are only the model and the data files that it names."""
    names = locations(onnx.load(path, load_external_data=False))
    assert {file.name for file in path.parent.iterdir()} == {path.name, *names}


def kill_savers(count: int, folder: Path, seed: int = 0) -> int:
    """Kill `count` savers, each on top of what the last has left; returns how many left debris behind."""
    chance, path, context, littered = random.Random(seed), folder / "m.onnx", multiprocessing.get_context("fork"), 0
    for index in range(count):
        castsmith.save(filled_model(0), path, external_data="m.onnx.data")
        require_nothing_left(path)
        saver = context.Process(target=save_for_ever, args=(path, _WAYS[index % len(_WAYS)]))
        saver.start()
        time.sleep(chance.uniform(0.0, 0.08))
        assert saver.pid is not None
        os.kill(saver.pid, signal.SIGKILL)
        saver.join()
        require_whole(path)
        littered += any(file.suffix == ".saving" for file in folder.iterdir())
    castsmith.save(filled_model(0), path)
    require_nothing_left(path)
    return littered


if __name__ == "__main__":
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        print(f"{kills} savers killed, {kill_savers(kills, Path(name))} left debris, every model was whole")
