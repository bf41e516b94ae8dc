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
from castsmith.numerics.types import NUMERIC_TYPES, element_type
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


@pytest.mark.parametrize("dtype", NUMERIC_TYPES)
def test_a_type_that_fits_holds_every_integer(dtype: DataType) -> None:
    """The largest range that fits comes back from the type as it went in; one more at either end does not fit."""
    row = element_type(dtype)
    fitting = [n for n in range(-4200, 4200) if Range(n, n).fits(dtype)]
    if fitting:
        integers = np.array(fitting, np.int64)
        np.testing.assert_array_equal(cast(cast(integers, dtype), DataType.INT64), integers)
    assert not Range(0, int(row.max) + 1).fits(dtype)


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
