"""Operands of several types, for a target that takes one: found by check, repaired by optimize and convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.records import Diagnostic, Effect
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import load_target
from tests.evaluator import evaluate
from tests.graphs.golden import read
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("untried")

GOLDENS = sorted((Path(__file__).parents[2] / "passes" / "golden").glob("*/*.onnxtxt"))
RULES = PromotionRules(promote_unsafe=True)
HEAD = '<ir_version: 10, opset_import: ["": 23]> g '


def errors(found: list[Diagnostic]) -> set[tuple[str, str]]:
    """Return the errors about the target, not those of a model that is wrong for every runtime."""
    about = ("target-", "opset-too-new", "ir-version-too-new")
    wrong = (each for each in found if each.severity is castsmith.Severity.ERROR)
    return {(each.code, each.message) for each in wrong if each.code.startswith(about)}


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("(float16[4] x) => (float16[4] y) <float e = {2}> { y = Pow (x, e) }", Effect.AS_DEFINED),
        ("(float16[4] x) => (float16[4] y) <float e = {0.1}> { y = Pow (x, e) }", Effect.IN_WIDER_TYPE),
        ("(float[4] x) => (float[4] y) <int64 e = {3}> { y = Pow (x, e) }", Effect.AS_DEFINED),
        ("(int32[4] x) => (int32[4] y) <float e = {2}> { y = Pow (x, e) }", Effect.AS_DEFINED),
        ("(float16[2,4] x, bfloat16[4] s) => (bfloat16[2,4] y) { y = RMSNormalization (x, s) }", Effect.IN_WIDER_TYPE),
        ("(float16[1,1,2,2] x, float[1,2,2,2] s) => (float16[1,1,2,2] y) { y = GridSample (x, s) }",
         Effect.IN_WIDER_TYPE),
        ("(float16[1,2,3,4] q, float16[1,2,3,4] k, float[1,2,3,4] v, bool[3,3] m) => (float16[1,2,3,4] y,"
         " float16[?] pk, float[?] pv) { y, pk, pv = Attention (q, k, v, m) }", Effect.IN_WIDER_TYPE),
        ("(float[2,4] x, float16 s) => (int8[2,4] y) <int8 z = {0}> { y = QuantizeLinear (x, s, z) }",
         Effect.BIT_EXACT),
        ("(int32[4] x, float s) => (int8[4] y) <int8 z = {0}> { y = QuantizeLinear (x, s, z) }", Effect.BIT_EXACT),
        ("(float[4] x, float16 s) => (int8[4] y) <int8 z = {0}> { y = QuantizeLinear <precision = 1> (x, s, z) }",
         Effect.BIT_EXACT),
    ],
)  # fmt: skip
def test_operands_of_several_types_are_cast_to_one(text: str, effect: Effect) -> None:
    model = onnx.parser.parse_model(HEAD + text.replace("[?]", "[A,B,C,D]"))
    subjects = [each.subject for each in castsmith.check(model, target="tensorrt-11") if each.code != "target-unknown"]
    assert subjects == ["one-type"]
    result = castsmith.optimize(model, target="tensorrt-11")
    assert result.diagnostics == []
    assert [each.effect for each in result.rewrites if each.rule == "unify-operands"] == [effect]
    assert errors(castsmith.check(result.model, target="tensorrt-11")) == set()
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    assert [value.dtype for value in result.model.graph.outputs] == [
        onnx_ir.DataType(value.type.tensor_type.elem_type) for value in model.graph.output
    ]


@pytest.mark.parametrize("precision", ["", "<precision = 1>"])
def test_quantization_divides_in_the_same_type_as_before(precision: str) -> None:
    text = f"(float[200] x, float16 s) => (int8[200] y) <int8 z = {{0}}> {{ y = QuantizeLinear {precision} (x, s, z) }}"
    before = onnx_ir.from_onnx_text(HEAD + text)
    after = castsmith.optimize(before, target="tensorrt-11").model
    feeds = {"x": np.linspace(-13, 13, 200, dtype=np.float32), "s": np.array(0.0999, np.float16)}
    (old,), (new,) = evaluate(before, feeds), evaluate(after, feeds)
    assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "(float[4] x, int64[4] e) => (float[4] y) { y = Pow (x, e) }",
        "(int32[4] x) => (int32[4] y) <float e = {-1}> { y = Pow (x, e) }",
        "(float[4] x) => (float[4] y) <int64 e = {16777217}> { y = Pow (x, e) }",
    ],
)
def test_what_no_type_holds_is_refused(text: str) -> None:
    result = castsmith.optimize(onnx.parser.parse_model(HEAD + text), target="tensorrt-11")
    assert [each.rule for each in result.refusals] == ["unify-operands"]
    assert [(each.code, each.subject) for each in result.diagnostics] == [("target-lacks-form", "one-type")]


def test_a_conversion_leaves_operands_of_one_type() -> None:
    text = """(float[2,4] x, float[4] s) => (float[2,4] y)
        { n = RMSNormalization (x, s) e = Cast <to = 10> (s) y = Pow (n, e) }"""
    model = onnx.parser.parse_model(HEAD + text)
    result = castsmith.convert(model, to="float16", target="tensorrt-11")
    assert errors(castsmith.check(result.model, target="tensorrt-11")) == set()


def test_goldens_keep_the_rules_of_tensorrt_11() -> None:
    """Optimized or converted, each model breaks no rule but those that the diagnostics name."""
    for path in sampled("golden cases for TensorRT 11", GOLDENS, 24, cover=lambda path: [path.parent.name]):
        model = read(path).model()
        for change in (_optimized, _converted):
            try:
                result = change(model)
            except castsmith.OptionError as error:
                if "nothing in it is of" not in str(error):
                    raise
                continue
            left = errors(castsmith.check(result.model, target="tensorrt-11", promotion=RULES))
            assert left <= {(each.code, each.message) for each in result.diagnostics}, (path.stem, change)


def _optimized(model: onnx_ir.Model) -> castsmith.Result:
    return castsmith.optimize(model, target="tensorrt-11", promotion=RULES)


def _converted(model: onnx_ir.Model) -> castsmith.Result:
    repaired = castsmith.optimize(model, promotion=RULES)
    return castsmith.convert(repaired.model, to="float16", target="tensorrt-11")


def test_sources_of_tensorrt_11() -> None:
    target = load_target("tensorrt-11")
    assert target.one_type
    assert all("operator reference of TensorRT" in source for source in target.one_type.values())
    text = "(int64[4] x, int64 a) => (int64[4] y) { y = CumSum (x, a) }"
    assert castsmith.check(onnx.parser.parse_model(HEAD + text), target="tensorrt-11") == []
