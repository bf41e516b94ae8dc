"""A pass from elsewhere that keeps no records gets them by comparison."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassBase, PassResult

import castsmith
from castsmith.ir.records import NodeItem
from castsmith.passes import PassManager, Sequential, SimplifyCasts


class ReluToSigmoid(InPlacePass):
    """Change the operator, and say that it did or not."""

    def __init__(self, *, told: bool = True) -> None:
        super().__init__()
        self.told = told

    def call(self, model: onnx_ir.Model) -> PassResult:
        relus = [node for node in model.graph.all_nodes() if node.op_type == "Relu"]
        for node in relus:
            node.op_type = "Sigmoid"
        return PassResult(model, bool(relus) and self.told)


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


MIXED = """<ir_version: 10, opset_import: ["" : 21]> g (float16[2] x) => (float[2] y) {
    a = Cast <to = 1> (x)
    b = Cast <to = 1> (a)
    y = Relu (b)
}"""


class Abroad(InPlacePass):
    """A pass that changes a model, runs passes of Castsmith, and changes it again."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        for node in model.graph:
            node.op_type = {"Relu": "Sigmoid"}.get(node.op_type, node.op_type)
        SimplifyCasts()(model)
        for node in model.graph:
            node.op_type = {"Sigmoid": "Tanh"}.get(node.op_type, node.op_type)
        return PassResult(model, False)


Managers = Callable[[PassBase, PassBase], PassBase]
MANAGERS: dict[str, Managers] = {
    "ours": Sequential,
    "theirs": onnx_ir.passes.Sequential,
    "our PassManager": lambda a, b: PassManager([a, b], steps=3),
    "their PassManager": lambda a, b: onnx_ir.passes.PassManager([a, b], steps=3),
    "nested": lambda a, b: Sequential(onnx_ir.passes.PassManager([Sequential(a), b]), onnx_ir.passes.Sequential(a)),
    "a copy": lambda a, b: Sequential(onnx_ir.passes.functionalize(onnx_ir.passes.Sequential(a, b))),
}


def told(result: castsmith.Result | castsmith.RewriteResult) -> list[tuple[str, str, str]]:
    records = result.records if isinstance(result, castsmith.RewriteResult) else result
    return [
        (rewrite.rule, rewrite.before.partition("  #")[0], rewrite.after.partition("  #")[0])
        for rewrite in records.rewrites
    ]


SIMPLIFIED = ("remove-identity-cast", "b = Cast <to = float> (a)", "")


@pytest.mark.parametrize("name", MANAGERS)
@pytest.mark.parametrize("first", [True, False])
def test_what_a_foreign_pass_changes_among_passes_of_castsmith_has_a_record(name: str, first: bool) -> None:
    passes = ReluToSigmoid(told=False), SimplifyCasts()
    manager = MANAGERS[name](*(passes if first else reversed(passes)))
    operand = "b" if first else "a"
    changed = ("unrecorded-change", f"y = Relu ({operand})", f"y = Sigmoid ({operand})")
    expected = [changed, SIMPLIFIED] if first else [SIMPLIFIED, changed]
    assert told(castsmith.optimize(onnx_ir.from_onnx_text(MIXED), passes=[manager])) == expected
    if isinstance(manager, Sequential | PassManager):
        result = manager(onnx_ir.from_onnx_text(MIXED))
        assert isinstance(result, castsmith.RewriteResult)
        assert result.modified
        assert told(result) == expected


def test_what_changes_around_passes_of_castsmith_that_a_foreign_pass_runs_has_a_record() -> None:
    expected = [
        ("unrecorded-change", "y = Relu (b)", "y = Sigmoid (b)"),
        SIMPLIFIED,
        ("unrecorded-change", "y = Sigmoid (a)", "y = Tanh (a)"),
    ]
    result = castsmith.optimize(onnx_ir.from_onnx_text(MIXED), passes=[Abroad()])
    assert told(result) == expected
    assert told(Sequential(Abroad())(onnx_ir.from_onnx_text(MIXED))) == expected
    assert {rewrite.pass_name for rewrite in result.rewrites} == {"Abroad", "simplify-casts"}


def test_passes_of_castsmith_alone_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(onnx_ir.Model, "clone")
    assert told(Sequential(SimplifyCasts())(onnx_ir.from_onnx_text(MIXED))) == [SIMPLIFIED]
