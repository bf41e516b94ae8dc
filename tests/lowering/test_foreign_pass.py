"""A pass from elsewhere that keeps no records gets them by comparison."""

from __future__ import annotations

import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassResult

import castsmith
from castsmith.ir.records import NodeItem


class ReluToSigmoid(InPlacePass):
    """Change the operator, and say that it did or not."""

    def __init__(self, *, told: bool = True) -> None:
        super().__init__()
        self.told = told

    def call(self, model: onnx_ir.Model) -> PassResult:
        found = [node for node in model.graph.all_nodes() if node.op_type == "Relu"]
        for node in found:
            node.op_type = "Sigmoid"
        return PassResult(model, bool(found) and self.told)


@pytest.mark.parametrize("told", [True, False])
def test_what_a_foreign_pass_changes_has_a_record(told: bool) -> None:
    model = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }"""
    )
    (record,) = castsmith.optimize(model, passes=[ReluToSigmoid(told=told)]).rewrites
    assert (record.pass_name, record.effect) == ("ReluToSigmoid", castsmith.Effect.UNKNOWN)
    assert (record.before, record.after) == (
        "y = Relu (x)  # (float[2]) -> float[2]",
        "y = Sigmoid (x)  # (float[2]) -> float[2]",
    )
    (left,), (right,) = record.removed, record.made
    assert isinstance(left, NodeItem)
    assert isinstance(right, NodeItem)
    assert (left.op_type, right.op_type) == ("Relu", "Sigmoid")


def test_a_foreign_pass_that_changes_nothing_has_no_record() -> None:
    model = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Abs (x) }"""
    )
    assert castsmith.optimize(model, passes=[ReluToSigmoid()]).rewrites == []
