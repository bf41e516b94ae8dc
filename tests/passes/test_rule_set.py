"""The rules among those of onnxscript: as a set, alone, and beside its optimizer on models that PyTorch exported."""

from __future__ import annotations

from pathlib import Path

import onnx_ir
import onnxscript.optimizer
import onnxscript.rewriter
import pytest

from castsmith.onnxscript import rules
from castsmith.passes import FoldConstants, FoldShapes, PlaceCasts, Sequential, SimplifyCasts
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for

EXPORTS = sorted((Path(__file__).parent / "promote" / "exports").glob("*.onnx"))
CHAIN = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x) => (float16[4] y) { a = Cast <to = 1> (x) b = Cast <to = 11> (a) y = Cast <to = 10> (b) }"""
ROUNDING = """<ir_version: 10, opset_import: ["": 21]>
g (double[4] x) => (float16[4] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }"""
SAME = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x) => (float16[4] y) { a = Cast <to = 10> (x) y = Neg (a) }"""
MOVED = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4, 2] x) => (float16[2, 4] y) { a = Cast <to = 1> (x) b = Transpose (a) y = Cast <to = 10> (b) }"""


def casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type == "Cast" for node in model.graph)


@pytest.mark.parametrize(("text", "left"), [(CHAIN, 0), (ROUNDING, 2), (SAME, 0), (MOVED, 0)])
def test_as_a_set(text: str, left: int) -> None:
    model = onnxscript.rewriter.rewrite(onnx_ir.from_onnx_text(text), rules)
    assert casts(model) == left
    assert rules.apply_to_model(model) == 0


@pytest.mark.parametrize(("text", "left"), [(CHAIN, 0), (ROUNDING, 2), (SAME, 0), (MOVED, 2)])
def test_each_rule_among_others(text: str, left: int) -> None:
    mixed = onnxscript.rewriter.RewriteRuleSet([*rules])
    model = onnx_ir.from_onnx_text(text)
    while mixed.apply_to_model(model):
        pass
    assert casts(model) == left


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_beside_the_optimizer_of_a_torch_export(path: Path) -> None:
    before = onnx_ir.load(path)
    after = before.clone()
    onnxscript.optimizer.optimize(after)
    least = casts(after)
    Sequential(FoldShapes(), FoldConstants(), SimplifyCasts(), PlaceCasts())(after)
    onnxscript.optimizer.optimize(after)
    onnxscript.rewriter.rewrite(after, rules)
    assert casts(after) <= least


def test_the_bits_stay() -> None:
    for text in (CHAIN, ROUNDING, SAME, MOVED):
        before = onnx_ir.from_onnx_text(text)
        after = onnxscript.rewriter.rewrite(onnx_ir.from_onnx_text(text), rules)
        feeds = inputs_for(before, 0)
        for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
            assert old.tobytes() == new.tobytes()


SATURATE = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x) => (float8e4m3fn[4] y) { a = Cast <to = 1> (x) y = Cast <to = 17, saturate = 0> (a) }"""
UNTYPED = """<ir_version: 10, opset_import: ["": 21]>
g (x) => (y) { a = Cast <to = 1> (x) b = Cast <to = 11> (a) c = Cast <to = 11> (b) y = Neg (c) }"""


def test_each_rule_keeps_settings_and_needs_types(capsys: pytest.CaptureFixture[str]) -> None:
    mixed = onnxscript.rewriter.RewriteRuleSet([*rules])
    model = onnx_ir.from_onnx_text(SATURATE)
    assert mixed.apply_to_model(model) == 1
    (cast,) = model.graph
    assert (cast.attributes["to"].value, cast.attributes["saturate"].value) == (17, 0)
    untyped = onnx_ir.from_onnx_text(UNTYPED)
    for node in untyped.graph:
        node.outputs[0].type = None
    assert mixed.apply_to_model(untyped) == 0
    assert rules.apply_to_model(onnx_ir.from_onnx_text(CHAIN)) == 2
    assert capsys.readouterr().out == ""
    assert rules.apply_to_model(onnx_ir.from_onnx_text(MOVED), verbose=1) == 1
    (told,) = capsys.readouterr().out.splitlines()
    assert told.startswith("place-casts: g: a (Cast): casts: 0 instead of 2, bytes moved: 32 instead of 160;")


def test_a_tracer_matches_and_changes_nothing() -> None:
    model = onnx_ir.from_onnx_text(CHAIN)
    rules.apply_to_model(model, tracer=onnxscript.rewriter.MatchingTracer())
    assert casts(model) == 3
