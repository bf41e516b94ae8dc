"""Small files that ask for much end in bounded time and memory: with the work done, or in one plain sentence.

`python -m tests.scale.hostile FOLDER`, then `python -m tests.scale.bounded optimize,lower,check,diff,verify,batch
FOLDER/*` runs every command on every file: the tests leave out those that take longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
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


TO_VERIFY = sampled(
    "hostile files to verify", sorted(HOSTILE.keys() - {f"{name}.onnxtxt" for name in LONG_TO_VERIFY}), 4
)
IN_BATCHES = [f"{name}.onnxtxt" for name in ("doubled", "ifs-20000", "calls-signatures")]
RUNS = {"optimize,lower,check,diff": NAMES, "verify": TO_VERIFY, "batch": IN_BATCHES}
"""The files of each run of commands."""


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each command of each run ended in; all run in one process, which imports all that they need once."""
    words = list[str]()
    for commands, names in RUNS.items():
        folder = tmp_path_factory.mktemp("hostile")
        for name in names:
            (folder / name).write_bytes(HOSTILE[name])
        words += ["--", commands, *(str(folder / name) for name in names)]
    command = [sys.executable, "-m", "tests.scale.bounded", *words[1:]]
    lines = iter(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    counts = {commands: len(commands.split(",")) * len(names) for commands, names in RUNS.items()}
    return {commands: [json.loads(next(lines)) for _ in range(count)] for commands, count in counts.items()}


@pytest.mark.parametrize("commands", RUNS)
def test_commands_end_in_bounds(endings: dict[str, list[dict[str, Any]]], commands: str) -> None:
    for ended in endings[commands]:
        assert ended["code"] in (0, 1, 2, 3), ended
        assert not any(word in ended["said"] for word in ("internal error", "Traceback", "not enough memory")), ended
        if ended["code"] == 2:
            assert ended["said"].startswith("castsmith: "), ended
            assert ended["said"].count("\n") == 1, ended


def test_a_batch_names_the_file_that_is_refused(endings: dict[str, list[dict[str, Any]]]) -> None:
    assert [each["code"] for each in endings["batch"]] == [0, 2, 2]
    for name, each in zip(IN_BATCHES[1:], endings["batch"][1:], strict=True):
        assert each["said"].partition(": ")[2].partition(": ")[0].endswith(name), each


def test_an_engine_takes_bounded_memory() -> None:
    """A node that makes 8 GiB of zeros fails before the memory is taken."""
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"])]
    shape = helper.make_tensor("s", TensorProto.INT64, [1], [1 << 31])
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(EngineError):
        Prepared("onnxruntime", model.SerializeToString()).run({})
