"""Four times the nodes are about four times the work: calls are counted, as times say little on a busy machine."""

from __future__ import annotations

import sys

import onnx
import pytest
from onnx import TensorProto, helper

import castsmith
from benchmarks.linear import SHAPES

NODES = 100


def calls(proto: onnx.ModelProto) -> int:
    """Return the number of functions and methods that optimize calls, and generators it resumes."""
    count = 0

    def profile(_frame: object, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1

    rules = castsmith.PromotionRules(promote_unsafe=True)
    sys.setprofile(profile)
    try:
        castsmith.optimize(proto, promotion=rules)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_the_nodes(shape: str) -> None:
    _, few, many = (calls(SHAPES[shape](count)) for count in (16, NODES, 4 * NODES))  # the first imports
    assert many < 4.4 * few


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
