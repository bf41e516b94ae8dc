"""Ranges of integers are sound: whatever goes in, every element is an integer of the range that is claimed for it."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Range, Ranges
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import NUMERIC_TYPES, Kind, element_type
from tests.evaluator import evaluate
from tests.graphs.inputs import array_of

_HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
_CONSTANTS = "<int64 lo = {-3}, int64 hi = {7}, int64[1] m = {10}, int64[1] n = {-10}, int64[2] s = {2, 20}> "

_INT64 = Range(-(2**63), 2**63 - 1)

MODELS = {
    "Clip": ("a = Clip (x, lo, hi)", Range(-3, 7)),
    "Clip, bounds the wrong way round": ("a = Clip (x, hi, lo)", Range(-3, -3)),
    "Clip below": ("a = Clip (x, lo)", Range(-3, 2**63 - 1)),
    "Mod": ("a = Mod (x, m)", Range(0, 9)),
    "Mod by a negative divisor": ("a = Mod (x, n)", _INT64),
    "Mod as fmod": ("a = Mod <fmod = 1> (x, m)", _INT64),
    "BitwiseAnd": ("a = BitwiseAnd (m, x)", Range(0, 10)),
    "BitwiseAnd with a negative number": ("a = BitwiseAnd (x, n)", _INT64),
    "Shape": ("a = Shape (x)", Range(0, 20)),
    "Size": ("a = Size (x)", Range(0, 20)),
    "ArgMax": ("a = ArgMax (x)", Range(0, 20)),
    "NonZero": ("a = NonZero (x)", Range(0, 20)),
    "comparison as a number": ("b = Less (x, m) a = Cast <to = 1> (b)", Range(0, 1)),
    "number as a bool": ("b = Cast <to = 9> (x) a = Cast <to = 7> (b)", Range(0, 1)),
    "through types that hold it": ("b = Mod (x, m) c = Cast <to = 10> (b) a = Cast <to = 3> (c)", Range(0, 9)),
    "moved": ("b = Mod (x, m) c = Clip (x, lo, hi) a = Concat <axis = 0> (b, c)", Range(-3, 9)),
    "chosen": ("b = Mod (x, m) c = Less (x, m) a = Where (c, b, lo)", Range(-3, 9)),
    "expanded": ("b = Mod (x, m) a = Expand (b, s)", Range(0, 9)),
    "unknown": ("a = Neg (x)", _INT64),
    "greatest": ("b = Mod (x, m) a = Max (b, lo)", Range(0, 9)),
    "least": ("b = Mod (x, m) c = Cast <to = 1> (b) d = Cast <to = 1> (lo) a = Min (c, d)", Range(-3, -3)),
    "a float of an integer": ("b = Cast <to = 3> (x) a = Cast <to = 1> (b)", Range(-128, 127)),
    "a float": ("b = Cast <to = 1> (x) a = Neg (b)", None),
    "beside an unknown one": ("b = Mod (x, m) a = Concat <axis = 0> (b, x)", _INT64),
}


@pytest.mark.parametrize("name", MODELS)
def test_range_is_what_comes_out(name: str) -> None:
    text, expected = MODELS[name]
    model = onnx_ir.from_onnx_text(f"{_HEAD}g (int64[20] x) => (int64[K] a) {_CONSTANTS}{{ {text} }}")
    (output,) = model.graph.outputs
    output.type = None
    inference = infer_element_types(model, PromotionRules())
    assert Ranges(inference).get(output) == expected
    for seed in range(5 if expected is not None else 0):
        assert expected is not None
        (found,) = evaluate(model, {"x": array_of(DataType.INT64, (20,), np.random.default_rng(seed))})
        assert all(expected.low <= int(element) <= expected.high for element in found.ravel())


LIMITS: list[tuple[str, Range | None]] = [
    ("a = ReduceMax (d)", Range(0, 9)),
    ("a = ReduceMin (d)", Range(0, 9)),
    ("a = ReduceMax (e)", Range(0, 9)),
    ("b = Mod (p, m) a = ReduceMax (b)", _INT64),  # which may be empty, as may the next: that gives an end of the type
    ("b = Mod (p, m) a = ReduceMin (b)", _INT64),
    ("a = ReduceSum (d)", Range(0, 90)),
    ("b = Mod (p, m) a = ReduceSum (b)", _INT64),
    ("a = ReduceSum (d, zero)", Range(0, 18)),
    ("a = ReduceSum (d, minus)", Range(0, 45)),
    ("a = ReduceSum (d, two)", _INT64),
    ("a = ReduceSum (d, i)", _INT64),
    ("b = Cast <to = 1> (d) a = ReduceSum (b)", None),
    ("n = Cast <to = 3> (d) a = ReduceSum (n)", Range(0, 90)),
    ("n = Cast <to = 3> (d) b = Add (n, n) r = Identity (b) a = ReduceSum (r)", Range(-128, 127)),
    ("a = CumSum (d, zero0)", Range(0, 18)),
    ("a = Add (d, d)", Range(0, 18)),
    ("a = Sub (d, d)", Range(-9, 9)),
    ("a = Mul (d, minus)", Range(-9, 0)),
    ("b = Sub (d, m) a = Mul (b, b)", Range(1, 100)),
    ("a = Div (d, m)", Range(0, 9)),
    ("b = Sub (zero, d) a = Div (b, m)", Range(-9, 0)),
    ("a = Div (d, d)", _INT64),  # by what may be 0
    ("b = Add (d, one) a = Div (b, b)", Range(0, 10)),
    ("b = Sub (zero, d) c = Sub (b, one) a = Div (c, m)", Range(-10, 0)),
    ("b = Sub (d, one) a = Abs (b)", Range(0, 8)),
    ("b = Add (d, one) a = Abs (b)", Range(1, 10)),
    ("b = Sub (d, m) a = Abs (b)", Range(1, 10)),
    ("b = Sub (d, m) a = Neg (b)", Range(1, 10)),
    ("b = Add (d, huge) a = Add (b, b)", _INT64),
    ("b = Cast <to = 3> (d) c = Mul (b, b) a = Mul (c, c)", Range(-128, 127)),
    ("b = Cast <to = 2> (d) a = Sub (b, b)", Range(0, 255)),
    ("a = Range (lo, hi, step)", Range(-3, 7)),
    ("b = Cast <to = 9> (d) a = And (b, b)", Range(0, 1)),
    ("a = local.Add (d, d)", None),
    ("b = Cast <to = 1> (d) a = Add (b, b)", None),
    ("a = Trilu (d)", Range(0, 9)),
    ("b = Add (d, one) a = Trilu (b)", Range(0, 10)),
    ("b = Sub (zero, d) c = Sub (b, one) a = Trilu (c)", Range(-10, 0)),
    ("a = Trilu (i)", _INT64),
    ("s = Shape (p) a = ConstantOfShape (s)", Range(0, 0)),
    ("s = Shape (p) a = ConstantOfShape <value = int64[1] {5}> (s)", Range(5, 5)),
    ("s = Shape (p) a = ConstantOfShape <value = float[1] {0.5}> (s)", None),
    ("a = BitwiseAnd (d, m)", Range(0, 9)),
    ("a = BitwiseAnd (d, minus)", Range(0, 9)),
    ("a = Max (d, i)", Range(0, 2**63 - 1)),
    ("a = Min (d, m)", Range(0, 9)),
    ("b = Cast <to = 3> (i) a = Cast <to = 1> (b)", Range(-128, 127)),
    ("b = Cast <to = 6> (i) a = Cast <to = 1> (b)", None),
    ("a = Cast <to = 8> (d)", None),
    ("b = Cast <to = 10> (d) a = CastLike (b, i)", Range(0, 9)),
    ("b = Cast <to = 1> (p) a = Cast <to = 9> (b)", Range(0, 1)),
    ("b = Cast <to = 1> (d) a = Clip (b, half)", None),
    ("b = Cast <to = 3> (d) a = Clip (b)", Range(0, 9)),
    ("a = Clip (d, , one)", Range(0, 1)),
    ("a = Clip (d, one, )", Range(1, 9)),
    ("a = Clip (d, q)", Range(0, 2**63 - 1)),
    ("a = Clip (d, , q)", Range(-(2**63), 9)),
    ("a = Mod (d, d)", _INT64),
    ("b = Add (d, one) a = Mod (i, b)", Range(0, 9)),
    ("b = Cast <to = 1> (d) c = Cast <to = 1> (m) a = Mod <fmod = 1> (b, c)", None),
    ("a = Size (d)", Range(0, 10)),
    ("a = Size (p)", Range(0, 2**63 - 1)),
    ("a = Shape (p)", Range(0, 2**63 - 1)),
    ("a = Size (l)", Range(0, 2**63 - 1)),
    ("b = Size (q) a = Identity (b)", Range(0, 1)),
    ("a = Shape (q)", Range(0, 1)),
    ("a = ArgMax (p)", Range(0, 2**63 - 1)),
    ("a = Where (t, d, i)", _INT64),
    ("a = Reshape (d, i)", Range(0, 9)),
    ("a = Identity (big)", _INT64),
    ("b = Mod (q, ten0) c = Add (b, twenty0) a = Range (b, c, step)", Range(0, 29)),
    ("b = Mod (q, ten0) c = Add (b, twenty0) a = Range (c, b, minus0)", Range(0, 29)),
    ("a = ReduceMax (d, one)", Range(0, 9)),
    ("g = local.op (x) a = Size (g)", Range(0, 5)),
    ("g = local.op (x) a = Shape (g)", Range(0, 5)),
    ("h = local.op (x) a = Size (h)", Range(0, 2**63 - 1)),
    ("h = local.op (x) a = Shape (h)", Range(0, 2**63 - 1)),
    ("n = Cast <to = 3> (d) a = CastLike (i, n)", Range(-128, 127)),
    ("a = Trilu (d, zero0)", Range(0, 9)),
    ("o = Add (d, one) a = ReduceSum (o)", Range(0, 100)),
    ("o = Sub (d, m) a = ReduceSum (o)", Range(-100, 0)),
    ("a = ReduceSum (d, minus2)", Range(0, 18)),
    ("a = ReduceSum (d, minus3)", _INT64),
    ("b = Cast <to = 1> (d) c = Neg (b) a = Concat <axis = 0> (b, c)", None),
    ("b = Constant <value = int64[0] {}> () a = Identity (b)", _INT64),
]
"""Limits of each rule: `d` is of integers from 0 to 9, `p` of any, and of unknown size, `i` of any, `q` a scalar."""


def test_each_condition_decides_a_range() -> None:
    numbers = {"zero": 0, "one": 1, "two": 2, "minus": -1, "m": 10, "huge": 2**62, "minus2": -2, "minus3": -3}
    scalars = {"zero0": 0, "lo": -3, "hi": 7, "step": 2, "ten0": 10, "twenty0": 20, "minus0": -1}
    constants = [f"int64[1] {name} = {{{number}}}" for name, number in numbers.items()]
    constants += [f"int64 {name} = {{{number}}}" for name, number in scalars.items()]
    constants += ["float half = {0.5}", "int64[2,5] d", "int64[2,5] e", "int8[2,5] n", "int8[2,5] r", "int64[2,5] o"]
    constants += ["int64[1,5] g", "int64[0,5] h"]
    head = _HEAD.replace("21]", '21, "local": 1]')
    inputs = "int64[2,5] x, int64[N,3] p, int64[20] i, int64 q, bool t"
    for text, expected in LIMITS:
        nodes = f"d = Mod (x, m) e = Identity (d) l = local.op (x) big = Identity (i) {text}"
        model = onnx_ir.from_onnx_text(f"{head}g ({inputs}) => (int64[K] a) <{', '.join(constants)}> {{ {nodes} }}")
        (output,) = model.graph.outputs
        output.type = None
        inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
        assert Ranges(inference).get(output) == expected, text


@pytest.mark.parametrize("dtype", NUMERIC_TYPES)
def test_a_type_that_fits_holds_every_integer(dtype: DataType) -> None:
    """The largest range that fits comes back from the type as it went in; one more at either end does not fit."""
    row = element_type(dtype)
    fitting = [n for n in range(-4200, 4200) if Range(n, n).fits(dtype)]
    if fitting:
        integers = np.array(fitting, np.int64)
        np.testing.assert_array_equal(cast(cast(integers, dtype), DataType.INT64), integers)
    assert not Range(0, int(row.max) + 1).fits(dtype)
    if row.kind is not Kind.FLOATING:
        assert Range(int(row.min), int(row.max)).fits(dtype)
        assert not Range(int(row.min) - 1, 0).fits(dtype)
    else:
        largest = int(min(2**row.precision, row.max))
        assert Range(-largest, largest).fits(dtype) is row.signed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float[2] w = {1, -0.0}", None),
        ("float[2] w = {1, 0.5}", None),
        ("float[2] w = {3, -4}", Range(-4, 3)),
        ("uint64[1] w = {18446744073709551615}", Range(2**64 - 1, 2**64 - 1)),
    ],
)
def test_constants(text: str, expected: Range | None) -> None:
    model = onnx_ir.from_onnx_text(f"{_HEAD}g () => (float[K] a) <{text}> {{ a = Identity (w) }}")
    inference = infer_element_types(model, PromotionRules())
    assert Ranges(inference).get(model.graph.outputs[0]) == expected


@pytest.mark.parametrize(
    ("attributes", "expected"), [("", Range(0, 90)), ("<axes = [0]>", Range(0, 18)), ("<axes = [-1]>", Range(0, 45))]
)
def test_a_sum_along_the_axes_of_an_attribute(attributes: str, expected: Range) -> None:
    text = f"d = Mod (x, m) a = ReduceSum {attributes} (d)"
    values = "<int64[1] m = {10}, int64[2,5] d>"
    model = onnx_ir.from_onnx_text(f"{_HEAD.replace('21', '12')}g (int64[2,5] x) => (int64[K] a) {values} {{ {text} }}")
    assert Ranges(infer_element_types(model, PromotionRules())).get(model.graph.outputs[0]) == expected
