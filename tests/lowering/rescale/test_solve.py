"""The least exponents that move all values into range."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx.parser
import onnx_ir
from onnx import numpy_helper

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.lowering.faults import reference_of
from castsmith.lowering.rescale.run import Rescale, RescaleResult
from castsmith.lowering.rescale.solve import (
    Bound,
    _System,  # pyright: ignore[reportPrivateUsage]
)
from castsmith.numerics.promotion.rules import PromotionRules
from tests.lowering.test_conversion_healing import case_of
from tests.sampling import check_all


def test_the_least_power_is_taken_with_the_margin() -> None:
    case = case_of("L2 normalization, whose")
    model = onnx_ir.from_proto(case.shipped())
    result = Rescale(reference_of(model, case.inputs()))(model)
    assert isinstance(result, RescaleResult)
    (power,) = set(result.factors.values())
    reference = reference_of(onnx_ir.from_proto(case.shipped()), case.inputs())
    greatest = reference.measured()["n"].magnitude
    assert (greatest / 2**power) ** 2 * 2 <= 65520 < (greatest / 2 ** (power - 1)) ** 2 * 2


def test_a_scale_that_is_not_found_is_told() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[1] y)'
        " { a = ReduceProd (x) b = Log (a) y = Neg (b) }"
    )
    result = castsmith.convert(model, to="float16", inputs={"x": np.full(4, 20, np.float16)}, rescale=True)
    assert [finding.code for finding in result.diagnostics] == ["not-rescaled", "infinite-error"]
    healed = castsmith.convert(model, to="float16", inputs={"x": np.full(4, 20, np.float16)})
    assert healed.error is not None
    assert healed.error.worst < 1e-3


AROUND: list[tuple[str, str, str, str]] = [
    # a body, the subject, all that is wrong, the values around it, with an @ for an output of the graph
    ("a = Neg (x) y = Abs (a)", "a", "a", "x y @y"),
    ("a = Neg (x) y = Abs (a)", "y", "y", "a"),
    ("a = Neg (x) y = Abs (a)", "y", "", "a y @y"),
    ("a = Neg (x) y = Abs (a)", "x", "x", ""),
    ("a = Neg (x) b = Abs (a) y = Add (b, x)", "a", "a b", "x y @y"),
    ("a = Neg (x) b = Abs (a) y = Add (b, a)", "a", "a", "x b y @y"),  # of two users, one reads the other
    ("a = Clip (x, , z) y = Abs (a)", "a", "a", "x z y @y"),  # an operand that is left out
    ("a = Gather (x, i) y = Abs (a)", "a", "a", "x y @y"),  # integers are not scaled
    ("a = Shape (x) y = Expand (z, a)", "a", "a", "x z y @y"),
    ("c = Constant <value = float16 {2}> () a = Mul (x, c) y = Abs (a)", "a", "a", "x y @y"),
]


def _check_around(body: str, subject: str, wrong: str, expected: str) -> None:
    model = onnx_ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x, float16 z, int64[4] i) => (float16[4] y)'
        f" {{ {body} }}"
    )
    values = {
        value.name: value for value in (*model.graph.inputs, *(out for node in model.graph for out in node.outputs))
    }
    system = _System(model, infer_element_types(model, PromotionRules()), frozenset())
    places = system.candidates(values[subject], {values[name] for name in wrong.split()})[-1]
    names = [
        place.name if isinstance(place, onnx_ir.Value) else f"@{model.graph.outputs[place[1]].name}" for place in places
    ]
    assert sorted(names, key=str) == sorted(expected.split())


def test_adapters_are_tried_at_all_scaled_values_around_what_is_wrong() -> None:
    check_all(_check_around, AROUND)


OPTIONAL: list[tuple[float, float, bool, bool]] = [
    # the least and the greatest exponent, whether the model is right without the bound: may it be given up?
    (-math.inf, math.inf, False, True),
    (-1, 0, False, True),
    (0, 1, False, True),
    (1, 2, False, False),
    (-2, -1, False, False),
    (1, 2, True, True),
]


def require_optional(low: float, high: float, soft: bool, expected: bool) -> None:
    assert Bound(onnx_ir.Value(name="x"), low, high, soft=soft).is_optional is expected


def test_bounds_that_leave_a_value_as_it_is_are_optional() -> None:
    check_all(require_optional, OPTIONAL)


SQUARES = (
    '<ir_version: 8, opset_import: ["": 17]> g (T[4] x) => (T[4] y) { a = Add (x, c) b = Mul (a, a) y = Mul (b, d)'
)
IN_FLOAT = " e = Cast <to = 1> (y) f = Neg (e) g = Neg (f) h = Neg (g) i = Neg (h)"


def _check_unmeasured(dtype: str, more: str, with_reference: bool, added: float, scaled: list[str]) -> None:
    model = onnx.parser.parse_model(SQUARES.replace("T", dtype) + more + " }")
    for name, number in (("c", added), ("d", 2**-10)):
        array = np.array(number, np.float16 if dtype == "float16" else np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    made = onnx_ir.from_proto(model)
    result = Rescale(reference_of(made) if with_reference else None)(made)
    assert isinstance(result, RescaleResult)
    assert (result.modified, sorted(result.factors)) == (bool(scaled), scaled)


def test_a_model_in_float16_is_measured_where_nothing_is_given() -> None:
    check_all(
        _check_unmeasured,
        [
            ("float16", "", True, 1000, ["b_scaled"]),
            ("float16", "", False, 1000, ["b_scaled"]),
            ("float16", IN_FLOAT, True, 1000, ["b_scaled"]),
            ("float16", IN_FLOAT, False, 1000, []),  # most of it is in float
            ("float", "", False, 1000, []),
            ("float", "", True, 1e5, []),  # a constant beyond float16, in a model that computes right
        ],
    )
