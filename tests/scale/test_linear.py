"""Twice the nodes are about twice the work of each command: calls are counted, as times say little on a busy machine.

`python -m tests.soak.growth` measures the times, of graphs of any size.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import castsmith
from benchmarks.growing import SHAPES
from castsmith.cli.main import main
from tests.sampling import sampled
from tests.scale.bounded import COMMANDS

SIZES = (30, 60, 120)
OUTSIDE = ("batch", "verify")
"""Commands whose work is done in other processes."""


def calls(words: list[str]) -> int:
    """Return the number of functions and methods that the command calls, and generators it resumes."""
    count = 0

    def profile(_frame: object, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        assert main(words) in (0, 1)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("shape", "command"),
    sampled("shapes of growing graphs", product(SHAPES, sorted(COMMANDS.keys() - OUTSIDE)), 12),
)
def test_work_grows_with_the_nodes(
    shape: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = list[int]()
    for nodes in (SIZES[-1], *SIZES):  # the first imports, and fills what is kept between calls
        path = tmp_path / f"{nodes}.onnx"
        onnx.save(SHAPES[shape](nodes), path)
        words = {"IN": str(path), "OUT": str(tmp_path / "out.onnx")}
        counts.append(calls([words.get(word, word) for word in COMMANDS[command]]))
        capsys.readouterr()
    _, few, more, many = counts
    assert many - more < 2.3 * (more - few)


def test_a_long_row_of_casts_that_all_count_is_left_alone() -> None:
    nodes = [
        helper.make_node("Cast", [f"v{i}"], [f"v{i + 1}"], to=(TensorProto.FLOAT16, TensorProto.BFLOAT16)[i % 2])
        for i in range(2000)
    ]
    nodes.append(helper.make_node("Transpose", ["v2000"], ["y"], perm=[0]))
    ports = [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [4])]
    results = [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [4])]
    graph = helper.make_graph(nodes, "g", ports, results)
    result = castsmith.optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert not result.rewrites
    assert result.refusals[-1].reason == "chain of more than 64 casts; skipped"
