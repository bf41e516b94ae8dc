"""prove: what the passes do is proven, and nothing that is changed is."""

from __future__ import annotations

import itertools
import os

import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.verification.prove.proof import Held, prove
from tests.sampling import shortened
from tests.verification.prove.mutants import mutants, rewrites

pytestmark = pytest.mark.usefixtures("engines_here")

HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
MUTANTS = int(os.environ.get("CASTSMITH_MUTANTS", shortened("mutants of rewrites", 16, 5)))

UNLIKE = {
    "two chains that agree where either agrees with a direct cast": (
        """g (double[N] x) => (float8e4m3fn[N] y) {
            a = Cast <to = 1> (x) b = Cast <to = 19> (a) y = Cast <to = 17, saturate = 0> (b) }""",
        """g (double[N] x) => (float8e4m3fn[N] y) {
            a = Cast <to = 16> (x) b = Cast <to = 19> (a) y = Cast <to = 17, saturate = 0> (b) }""",
    ),
    "a third operand": (
        "g (int8[N] x) => (int8[N] y) { k = Constant <value = int8 {3}> () n = Neg (x) y = Max (x, k, n) }",
        "g (int8[N] x) => (int8[N] y) { k = Constant <value = int8 {3}> () y = Max (x, k) }",
    ),
    "a size of what is no input": (
        "g (float[N] x) => (int64[K] y) { a = NonZero (x) y = Shape <start = 1> (a) }",
        "g (float[N] x) => (int64[K] y) <int64[0] y0 = {}> { y = Identity (y0) }",
    ),
    "a rounding somewhere else": (
        "g (float[N] x) => (float16[N] y) { s = Sqrt (x) y = Cast <to = 10> (s) }",
        "g (float[N] x) => (float16[N] y) { c = Cast <to = 10> (x) y = Sqrt (c) }",
    ),
}


_QUANTIZED = "g (float[N] x) => (uint8[N] y) <float s = {{0.5}}, uint8 z = {{7}}> {{ {} }}"
_WRITTEN, _MADE = map(_QUANTIZED.format, (
    """d = Div (x, s) r = Round (d) n = IsNaN (r) o = Constant <value = float {0}> () w = Where (n, o, r)
    f = Cast <to = 1> (z) a = Add (w, f) h = Constant <value = float {255}> () m = Min (a, h) l = Max (m, o)
    y = Cast <to = 2> (l)""",
    "y = QuantizeLinear (x, s, z)",
))  # fmt: skip


def test_what_a_quantizer_leaves_undefined_the_second_model_may_define() -> None:
    """And not the other way: NaN becomes the zero point where it is written out, and anything of a quantizer."""
    assert set(proven(_MADE, _WRITTEN)) == {"y"}
    assert proven(_WRITTEN, _MADE) == {}


def proven(a: str, b: str, *, nan_bits: bool = False) -> dict[str, str]:
    models = [as_model(onnx.parser.parse_model(HEAD + text)) for text in (a, b)]
    rules = castsmith.PromotionRules(promote_unsafe=True)
    return prove(*models, rules=rules, nan_bits=nan_bits).proven


@pytest.mark.parametrize("name", UNLIKE)
def test_models_that_differ_are_not_proven(name: str) -> None:
    assert proven(*UNLIKE[name]) == {}


@pytest.mark.parametrize("target", ["onnxruntime-android", "onnxruntime-cpu"])
@pytest.mark.parametrize("source", ["float", "float16"])
@pytest.mark.parametrize("to", [17, 18, 19, 20])
def test_a_lowered_cast_is_proven(source: str, to: int, target: str) -> None:
    number = {"float": 1, "float16": 10}[source]
    text = f"g ({source}[N, 3] x) => ({source}[N, 3] y) {{ q = Cast <to = {to}> (x) y = Cast <to = {number}> (q) }}"
    model = onnx.parser.parse_model(HEAD.replace("23", "25") + text)  # before, infinities to fnuz are not defined
    assert set(prove(as_model(model), castsmith.optimize(model, target=target).model).proven) == {"y"}


@pytest.mark.parametrize("saturate", [0, 1])
def test_codes_are_proven_to_be_those_of_the_values(saturate: int) -> None:
    text = f"g (float[N] x) => (float8e4m3fn[N] y) {{ y = Cast <to = 17, saturate = {saturate}> (x) }}"
    model = onnx.parser.parse_model(HEAD + text)
    lowered = castsmith.optimize(model, target="onnxruntime-android", interface="stored").model
    held = {"y": Held(DataType.FLOAT8E4M3FN, DataType.UINT8, by_code=True)}
    assert set(prove(as_model(model), lowered, held=held).proven) == {"y"}
    other = onnx.parser.parse_model(HEAD + text.replace(f"saturate = {saturate}", f"saturate = {1 - saturate}"))
    assert prove(as_model(other), lowered, held=held).proven == {}
    verdict = castsmith.verify(model, lowered, accept=["y"])
    assert verdict.equal, verdict.summary()
    assert verdict.proven


def test_of_a_function_to_text_nothing_is_known() -> None:
    """Runtimes write numbers in different ways, and texts have no bits to compare."""
    text = "g (bool[3] x) => (string[3] y) {{ a = Not (x) y = Cast <to = 8> ({0}) }}"
    assert proven(text.format("x"), text.format("x"))
    assert not proven(text.format("x"), text.format("a"))


def test_operands_shared_many_times_over_take_no_time() -> None:
    """Each Where has one operand twice: without memory the work doubles with each."""
    chain = " ".join(f"t{index + 1} = Where (c, t{index}, t{index})" for index in range(200))
    text = f"g (float[2] x, bool[2] c) => (float16[2] y) {{ t0 = Neg (x) {chain} y = Cast <to = 10> (t200) }}"
    assert set(proven(text, text.replace("y = Cast", "unused = Abs (x) y = Cast"))) == {"y"}
    assert proven(text, text.replace("(t200)", "(x)")) == {}


def test_a_loop_that_promotes_its_state_is_proven() -> None:
    text = """g (float[2] x, int64 n) => (float[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x)
        <body = step (int64 i, bool c, float[2] a) => (bool d, float[2] b) {
            d = Identity (c) k = Constant <value = float16 {15360}> () b = Mul (a, k) }> }"""
    written = text.replace("b = Mul (a, k)", "w = Cast <to = 1> (k) b = Mul (a, w)")
    assert set(proven(text, written)) == {"y"}
    assert proven(text, written.replace("(a, w)", "(w, w)")) == {}


@pytest.mark.parametrize("operator", ["Exp", "Shape", "f.Cast"])
def test_an_operator_of_no_stated_opset_is_the_same_as_itself(operator: str) -> None:
    """Of f.Cast nothing is known; the standard operators are those of the newest opset."""
    head = '<ir_version: 10, opset_import: ["f" : 1]>\n'
    one, other = (f"{head} g (float[2] x) => (float[2] y) {{ y = {op} (x) }}" for op in (operator, "Neg"))
    a, b, c = (as_model(onnx.parser.parse_model(text)) for text in (one, one, other))
    assert prove(a, b).proven
    assert not prove(a, c).proven


def test_no_mutant_is_proven() -> None:
    """Each is a rewrite with one thing changed, which execution finds in an element of the output."""
    for seed, model, mutant, what in itertools.islice(mutants(), MUTANTS):
        assert prove(as_model(model), as_model(mutant)).proven == {}, (seed, what)


def test_most_rewrites_are_proven() -> None:
    proofs = [prove(*map(as_model, pair)).proven for pair in itertools.islice(rewrites(), 32)]
    assert sum(map(bool, proofs)) > 0.8 * len(proofs)
