"""A node that a file has twice under one name is read once; nodes that differ under one name are refused."""

from __future__ import annotations

import onnx
import onnx_ir
import pytest

import castsmith

_TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[2] x, bool c) => (float16[2] y, float16[2] z) {
  a = Cast <to = 10> (x)
  y = Neg (a)
  z = If (c) <then_branch = t () => (float16[2] p) { d = Cast <to = 10> (x) p = Abs (d) },
              else_branch = e () => (float16[2] q) { q = Neg (a) }>
}"""


def _with(again: onnx.NodeProto, nodes: object, place: int) -> None:
    nodes.insert(place, again)  # pyright: ignore[reportAttributeAccessIssue]


def test_repeated_casts_are_merged() -> None:
    model = onnx.parser.parse_model(_TEXT)
    cast = onnx.NodeProto()
    cast.CopyFrom(model.graph.node[0])
    cast.name = "another"
    _with(cast, model.graph.node, 1)
    inner = model.graph.node[3].attribute[0].g.node
    again = onnx.NodeProto()
    again.CopyFrom(inner[0])
    _with(again, inner, 1)
    result = castsmith.optimize(model)
    assert sum(node.op_type == "Cast" for node in result.model.graph) == 1
    assert [each.rule for each in result.rewrites[:2]] == ["merge-duplicate-casts"] * 2
    onnx.checker.check_model(onnx_ir.to_proto(result.model))
    assert len(model.graph.node) == 4  # the model that was given is as it was


@pytest.mark.parametrize("change", ["to", "input"])
def test_others_of_one_name_are_refused(change: str) -> None:
    model = onnx.parser.parse_model(_TEXT)
    cast = onnx.NodeProto()
    cast.CopyFrom(model.graph.node[0])
    if change == "to":
        cast.attribute[0].i = 1
    else:
        cast.input[0] = "y"
    _with(cast, model.graph.node, 2)
    with pytest.raises(castsmith.ModelError):
        castsmith.optimize(model)
