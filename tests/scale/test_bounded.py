"""Small files that ask for much end in bounded time and memory: with the work done, or in one plain sentence.

`python -m tests.scale.hostile FOLDER`, then `python -m tests.scale.bounded optimize,lower,check,diff,verify,batch
FOLDER/*` runs every command on every file: the tests leave out those that take longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from castsmith.verification.evaluate.engines import EngineError, Prepared
from tests.sampling import QUICK, sampled
from tests.scale.hostile import files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")

HOSTILE = dict(files())
LONG_TO_VERIFY = (
    *("calls-12-float16", "calls-12-float8", "calls-40-float16", "calls-40-float8", "calls-signatures", "calls-typed"),
    *("casts", "doubled-as-shape", "doubled-input", "doubled-symbol", "doubled", "fan-in", "fan-out", "gathered"),
    *("ifs-chained", "loop", "loops", "moves", "resize", "tile-float8", "thousandfold"),
)
"""Files that verify works on for more than a second."""
LONGEST = "thousandfold.onnxtxt"
LONG = {
    *("moves.onnxtxt", "ifs-chained.onnxtxt", "casts.onnxtxt", "chain-of-5000-calls.onnxtxt", "fan-out.onnxtxt"),
    *("calls-signatures.onnxtxt", "calls-typed.onnxtxt", "ring-of-3000.onnxtxt"),
}
"""Files that a command works on for a second and more."""
NAMES = [
    *sampled("hostile files", sorted(set(HOSTILE) - LONG - {LONGEST}), 6 if QUICK else 12),
    *([] if QUICK else [*sampled("long hostile files", sorted(LONG), 1), LONGEST]),
]


def test_commands_end_in_bounds(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(HOSTILE[name])
    ended = list(_run("optimize,lower,check,diff", list(tmp_path.iterdir())))
    assert len(ended) == 4 * len(list(tmp_path.iterdir()))


def test_verify_ends_in_bounds(tmp_path: Path) -> None:
    left_out = {f"{name}.onnxtxt" for name in LONG_TO_VERIFY}
    names = sampled("hostile files to verify", sorted(HOSTILE.keys() - left_out), 4)
    files = [tmp_path / name for name in names]
    for file in files:
        file.write_bytes(HOSTILE[file.name])
    assert len(list(_run("verify", files))) == len(files)


def test_a_batch_ends_in_bounds_and_names_the_file_that_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.onnxtxt" for name in ("doubled", "ifs-20000", "calls-signatures")]
    for file in files:
        file.write_bytes(HOSTILE[file.name])
    ended = list(_run("batch", files))
    assert [each["code"] for each in ended] == [0, 2, 2]
    for file, each in zip(files[1:], ended[1:], strict=True):
        assert each["said"].startswith(f"castsmith: {file}: "), each


def test_an_engine_takes_bounded_memory() -> None:
    """A node that makes 8 GiB of zeros fails before the memory is taken."""
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"])]
    shape = helper.make_tensor("s", TensorProto.INT64, [1], [1 << 31])
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(EngineError):
        Prepared("onnxruntime", model.SerializeToString()).run({})


def _run(commands: str, files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The outcome of each command on each file, one of the allowed outcomes."""
    command = [sys.executable, "-m", "tests.scale.bounded", commands, *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for ended in map(json.loads, lines):
        assert ended["code"] in (0, 1, 2, 3), ended
        assert not any(word in ended["said"] for word in ("internal error", "Traceback", "not enough memory")), ended
        if ended["code"] == 2:
            assert ended["said"].startswith("castsmith: "), ended
            assert ended["said"].count("\n") == 1, ended
        yield ended
