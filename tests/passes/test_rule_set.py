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
FAR = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4, 2] x) => (float16[8] y) <int64[1] flat = {8}> {
    a = Cast <to = 1> (x) b = Transpose <perm = [1, 0]> (a) c = Reshape (b, flat) y = Cast <to = 10> (c) }"""
USED = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4, 2] x) => (float16[2, 4] y, float[2, 4] b) {
    a = Cast <to = 1> (x) b = Transpose (a) y = Cast <to = 10> (b) }"""
SORTED = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x) => (float16[4] y) { a = Cast <to = 1> (x) b = Sign (a) y = Cast <to = 10> (b) }"""
NOWHERE = """<ir_version: 10, opset_import: ["": 21]>
g (uint16[1, 4, 2, 2] x) => (uint16[1, 1, 4, 4] y) {
    a = Cast <to = 6> (x) b = DepthToSpace <blocksize = 2> (a) y = Cast <to = 4> (b) }"""
ELSEWHERE = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4, 2] x) => (float16[2, 4] y, float[4, 2] a) {
    a = Cast <to = 1> (x) b = Transpose (a) y = Cast <to = 10> (b) }"""
WITHIN = """<ir_version: 10, opset_import: ["": 21]>
g (bool c, float16[4] x) => (float16[4] y) { y = If (c) <
    then_branch = t () => (float16[4] p) { a = Cast <to = 1> (x) b = Identity (a) p = Cast <to = 10> (b) },
    else_branch = e () => (float16[4] q) { q = Neg (x) }> }"""


def casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type == "Cast" for node in model.graph.all_nodes())


CASES = {CHAIN: 0, ROUNDING: 2, SAME: 0, MOVED: 0, FAR: 0, USED: 2, SORTED: 2, NOWHERE: 2, ELSEWHERE: 1, WITHIN: 0}


@pytest.mark.parametrize(("text", "left"), CASES.items(), ids=range(len(CASES)))
def test_the_set_and_its_rules_among_others_do_the_same(text: str, left: int) -> None:
    together = onnxscript.rewriter.rewrite(onnx_ir.from_onnx_text(text), rules)
    among = onnxscript.rewriter.rewrite(onnx_ir.from_onnx_text(text), [*rules])
    assert onnx_ir.to_onnx_text(together) == onnx_ir.to_onnx_text(among)
    assert casts(together) == left
    assert rules.apply_to_model(together) == 0
    feeds, before = inputs_for(together, 0), onnx_ir.from_onnx_text(text)
    for old, new in zip(evaluate(before, feeds), evaluate(together, feeds), strict=True):
        assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_the_set_and_its_rules_do_the_same_to_an_export(path: Path) -> None:
    texts = [onnx_ir.to_onnx_text(onnxscript.rewriter.rewrite(onnx_ir.load(path), each)) for each in (rules, [*rules])]
    assert texts[0] == texts[1]


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
    assert "CancelAcrossMoves" in capsys.readouterr().out


def test_a_tracer_matches_and_changes_nothing() -> None:
    model = onnx_ir.from_onnx_text(CHAIN)
    rules.apply_to_model(model, tracer=onnxscript.rewriter.MatchingTracer())
    assert casts(model) == 3
