"""What bounds say of a type: which values it does not hold, where that begins, and what to do."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.errors import OpsetError
from castsmith.numerics.critical import every_value
from castsmith.numerics.errors import OptionError
from castsmith.verification.bounds import Bound, Bounds, Excess, How, _both, exceeding  # pyright: ignore[reportPrivateUsage]

TYPES = (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.FLOAT8E5M2)
"""Types with infinities, to which what is beyond the largest number is rounded."""


def bounds_of(*found: Bound, chain: bool = False) -> Bounds:
    """Return bounds of values a, b, ...; in a chain each is computed from the one before it."""
    names = "abcdef"[: len(found)]
    sources = {name: tuple(names[at - 1]) if chain and at else () for at, name in enumerate(names)}
    return Bounds(dict(zip(names, found, strict=True)), {name: f"{name} (Op)" for name in names}, sources)


def of(magnitude: float, how: How = "proven") -> Bound:
    return Bound(-magnitude, 0.0, how, DataType.FLOAT)


def kinds(found: list[Excess]) -> list[str]:
    return [each.kind for each in found]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_value_overflows_where_its_cast_gives_infinity(dtype: DataType) -> None:
    before, top = np.unique(finite(dtype))[-2:].tolist()
    for part in (0.0, 0.49, 0.5, 0.51, 0.99, 1.0):
        number = top + part * (top - before)
        lost = bool(np.isinf(castsmith.cast(np.array(number), dtype, saturate=False).astype(np.float64)))
        found = exceeding(bounds_of(of(number), chain=True), dtype)
        assert kinds(found) == ["overflow"] * lost, (number, lost)


def finite(dtype: DataType) -> np.ndarray:
    """Return the finite numbers of a type; of float the two largest."""
    if dtype == DataType.FLOAT:
        top = np.finfo(np.float32).max
        return np.array([np.nextafter(top, np.float32(0)), top], np.float64)
    with np.errstate(invalid="ignore"):  # a NaN of the type
        every = every_value(dtype).astype(np.float64)
    return every[np.isfinite(every)]


@pytest.mark.parametrize("magnitude", [65520.0, 65521.0, 131039.0, 131040.0, 131041.0, 1e9])
def test_what_is_proposed_is_enough_and_no_more(magnitude: float) -> None:
    _, overflow = exceeding(bounds_of(of(magnitude), of(magnitude), chain=True), "float16")
    (factor,) = map(float, re.findall(r"by (\S+)$", overflow.proposal))
    assert exceeding(bounds_of(of(magnitude / factor)), "float16") == []
    assert kinds(exceeding(bounds_of(of(2 * magnitude / factor)), "float16")) == ["overflow"]


def test_a_value_vanishes_below_half_the_least_number() -> None:
    for magnitude, found in ((0.0, []), (2.0**-26, ["vanish"]), (2.0**-25, []), (2.0**-24, [])):
        excess = exceeding(bounds_of(of(magnitude)), "float16")
        assert kinds(excess) == found
        assert all(each.proposal == "keep a (Op) in float" for each in excess)


def test_the_first_of_a_chain_is_the_cause_of_its_kind() -> None:
    known = [of(1.0), of(1e6), of(1e7), of(math.inf, "measured"), of(1e8)]
    found = exceeding(bounds_of(*known, chain=True), "float16")
    assert [(each.value, each.kind, each.first, each.cause) for each in found] == [
        ("b", "overflow", True, "b"),
        ("c", "overflow", False, "b"),
        ("d", "infinite", True, "d"),
        ("e", "overflow", True, "e"),
    ]
    assert found[2].proposal == "d (Op) is infinite in float already: change the model or the inputs"


def test_what_is_nan_or_unknown_is_not_held() -> None:
    nan, unknown = Bound(0, 1, "measured", None, may_be_nan=True), Bound(-math.inf, math.inf, "unknown")
    asked = Bound(-math.inf, math.inf, "unknown", depends_on=("x", "z", "w"))
    found = exceeding(bounds_of(nan, unknown, asked), "float16")
    assert kinds(found) == ["nan", "unknown", "unknown"]
    assert [each.proposal for each in found] == [
        "a (Op) is NaN in its own type already: change the model or the inputs",
        "give inputs to measure it on",
        "declare the range of x, z",
    ]


def test_a_summary_counts_the_values_by_how_they_are_known() -> None:
    one, two = bounds_of(of(1.0)), bounds_of(of(1.0), of(2.0, "measured"))
    assert one.summary() == "1 value: 1 proven, 0 measured, 0 unknown"
    assert repr(two) == "<Bounds: 2 values: 1 proven, 1 measured, 0 unknown>"
    page = two._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert page.count("<tr>") == 3
    assert page.index(">b<") < page.index(">a<")  # the largest first
    assert two["a"].margin is None
    assert Bound(-4, 2, "proven", measured=(-1, 2)).margin == 2
    assert Bound(-4, 2, "proven", measured=(0, 0)).margin == math.inf


HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'


def bounded(text: str, **options: Any) -> Bounds:
    return castsmith.bounds(onnx.parser.parse_model(HEAD + text), **options)


_PLAIN = "g (float[2] x, float[2] z, int64[2] n) => (float[2] y) { a = Neg (x) b = Add (a, z) y = Tanh (b) }"


def test_bounds_of_declared_ranges() -> None:
    found = bounded(_PLAIN, ranges={"x": (-1.0, 3.0), "z": (0.0, 0.5)})
    assert list(found) == ["x", "z", "a", "b", "y"]  # no integers
    assert {name: found.makers[name] for name in found} == {
        **{name: name for name in ("x", "z")},
        "a": "a (Neg)",
        "b": "b (Add)",
        "y": "y (Tanh)",
    }
    assert found.sources == {"x": (), "z": (), "a": ("x",), "b": ("a", "z"), "y": ("b",)}
    assert [(bound.low, bound.high, bound.how) for bound in (found["x"], found["a"], found["b"])] == [
        (-1.0, 3.0, "proven"),
        (-3.0, 1.0, "proven"),
        (-3.0, 1.5, "proven"),
    ]
    assert found["y"].magnitude <= 1.0
    assert {bound.dtype for bound in found.values()} == {DataType.FLOAT}
    assert [bound.depends_on for bound in found.values()] == [()] * 5
    assert found.settling == []


def test_inputs_without_a_range_are_named_with_what_depends_on_them() -> None:
    found = bounded(_PLAIN, ranges={"x": (-1.0, 3.0)})
    assert [(name, bound.how, bound.depends_on) for name, bound in found.items()] == [
        ("x", "proven", ()),
        ("z", "unknown", ("z",)),
        ("a", "proven", ()),
        ("b", "unknown", ("z",)),
        ("y", "proven", ("z",)),
    ]
    assert found.settling == [("z", 2)]
    both = bounded(_PLAIN)
    assert both["b"].depends_on == ("x", "z")
    assert both.settling == [("x", 3), ("z", 2)]
    later = bounded("g (float[2] x, float[2] z) => (float[2] y) { a = Neg (z) b = Abs (a) y = Add (x, b) }")
    assert later.settling == [("z", 4), ("x", 2)]  # those on which the most depend are first
    page = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "2 unknown values depend on the range of z" in page
    assert page.index("<td>x</td>") < page.index("<td>z</td>")  # the unknown are last


def test_ranges_of_what_is_no_input_are_refused() -> None:
    for name, text in (("w", "unknown input 'w' in ranges; the inputs are x, z, n."), ("a", "unknown input 'a'")):
        with pytest.raises(OptionError, match=f"^{re.escape(text)}"):
            bounded(_PLAIN, ranges={name: (0.0, 1.0)})
    with pytest.raises(OptionError, match="the inputs are none"):
        bounded("g () => (float y) { y = Constant <value_float = 1.0> () }", ranges={"x": (0.0, 1.0)})
    with pytest.raises(OptionError, match="x"):
        bounded(_PLAIN, ranges={"x": (1.0, 0.0)})


def test_measured_bounds_are_those_of_all_sets() -> None:
    sets = [
        {"x": np.array(numbers, np.float32), "z": np.zeros(2, np.float32), "n": np.zeros(2, np.int64)}
        for numbers in ([1, 2], [-5, 0.5])
    ]
    found = bounded(_PLAIN, inputs=sets)
    assert [(name, bound.measured, bound.how) for name, bound in found.items()][:4] == [
        ("x", (-5.0, 2.0), "measured"),
        ("z", (0.0, 0.0), "measured"),
        ("a", (-2.0, 5.0), "measured"),
        ("b", (-2.0, 5.0), "measured"),
    ]
    assert (found["a"].low, found["a"].high, found["a"].assumes, found["a"].least_magnitude) == (-2.0, 5.0, (), 0.0)
    assert (found["y"].how, found["y"].measured) == ("proven", (pytest.approx(-0.9640276), pytest.approx(0.9999092)))
    assert bounded(_PLAIN, inputs=sets, ranges={"x": (-9.0, 9.0), "z": (1, 2)})["b"].margin == 11 / 5


def test_measured_nan_and_infinities() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Sqrt (x) }"
    for numbers, measured, nan in (([4, -1], (2.0, 2.0), True), ([-1, -4], None, True), ([4, 9], (2.0, 3.0), False)):
        bound = bounded(text, inputs={"x": np.array(numbers, np.float32)})["y"]
        assert (bound.how, bound.measured, bound.may_be_nan) == ("measured", measured, nan)
    bound = bounded(text, inputs={"x": np.array([np.inf, 1], np.float32)})["y"]
    assert (bound.low, bound.high) == (1.0, math.inf)
    empty = "g (float[N] x) => (float[N] y) { y = Sqrt (x) }"
    assert bounded(empty, inputs={"x": np.zeros(0, np.float32)})["y"].how == "unknown"


_CALLED = """g (float[2] x, float[2] z) => (float[2] y, float[2] w) {{ y = l.f (x) w = l.f (z) }}
    <domain: "l", opset_import: ["" : 23]> f (p) => (q) {{ r = Neg (p) q = {} (r) }}"""


def test_a_value_of_a_function_has_one_bound_for_all_calls() -> None:
    text = HEAD.replace("]>", ', "l" : 1]>') + _CALLED.format("Identity")
    ranges = {"x": (-1.0, 2.0), "z": (0.0, 5.0)}
    found = castsmith.bounds(onnx.parser.parse_model(text), ranges=ranges)
    assert {name: (bound.low, bound.high) for name, bound in found.items()} == {
        "x": (-1.0, 2.0),
        "z": (0.0, 5.0),
        "y": (-2.0, 1.0),
        "w": (-5.0, 0.0),
        "l::f/p": (-1.0, 5.0),
        "l::f/r": (-5.0, 1.0),
        "l::f/q": (-5.0, 1.0),
    }
    assert found.sources["y"] == ("x", "l::f/q")
    assert found.sources["l::f/q"] == ("l::f/r",)
    assert found.makers["l::f/r"] == "l::f/r (Neg)"


def test_values_of_one_name_have_the_wider_bound() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] a) {{ a = {} (x) }},
        else_branch = e () => (float[2] a) {{ a = {} (x) }}> }}"""
    found = bounded(text.format("Neg", "Abs"), ranges={"x": (-1.0, 2.0)})
    assert (found["a"].low, found["a"].high, found["a"].how) == (-2.0, 2.0, "proven")
    for pair in (("Sqrt", "Abs"), ("Abs", "Sqrt")):  # of which one may be NaN
        bound = bounded(text.format(*pair), ranges={"x": (-1.0, 4.0)})["a"]
        assert (bound.low, bound.high, bound.may_be_nan) == (0.0, 4.0, True)
        unknown = bounded(text.format(*pair))["a"]
        assert (unknown.how, unknown.depends_on) == ("unknown", ("x",))


def test_sources_and_makers() -> None:
    """Of a call, the output of the function at the same place; what is left out is no source."""
    text = (
        HEAD.replace("]>", ', "l" : 1]>')
        + """g (float[2] x, float[2] z) => (float[2] y, float[2] w, float[2] v) {
        [call] y, w = l.f (x, z) v = Clip (x, , top) top = Constant <value_float = 2.0> () }
        <domain: "l", opset_import: ["" : 23]> f (p, q) => (r, s) { r = Neg (p) s = Abs (q) }"""
    )
    found = castsmith.bounds(onnx.parser.parse_model(text))
    assert found.sources["y"] == ("x", "z", "l::f/r")
    assert found.sources["w"] == ("x", "z", "l::f/s")
    assert found.sources["v"] == ("x", "top")
    assert found.makers["y"] == found.makers["w"] == "call (f)"
    assert found.makers["v"] == "v (Clip)"
    page = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert page.count("<td>float</td>") == len(found)


def test_operands_of_two_types_are_promoted_as_the_rules_say() -> None:
    text = "g (int64[2] n, float[2] x) => (y) { y = Add (n, x) }"
    unsafe, numpy = castsmith.PromotionRules(promote_unsafe=True), castsmith.PromotionRules.preset("numpy")
    rows = ((None, None), (unsafe, DataType.FLOAT), (numpy, DataType.DOUBLE), ("torch", DataType.FLOAT))
    for promotion, expected in rows:
        bound = bounded(text, ranges={"n": (0, 4), "x": (-1, 1)}, promotion=promotion).get("y")
        assert (None if bound is None else bound.dtype) == expected


def test_an_opset_that_is_not_known_is_refused() -> None:
    with pytest.raises(OpsetError):
        castsmith.bounds(onnx.parser.parse_model(HEAD.replace("23", "99") + _PLAIN))


def test_a_declared_range_holds_whatever_is_measured_and_an_assumed_one_does_not() -> None:
    sets = {"x": np.array([5, 1], np.float32), "z": np.zeros(2, np.float32), "n": np.zeros(2, np.int64)}
    bound = bounded(_PLAIN, inputs=sets, ranges={"x": (-1, 3), "z": (0, 1)})["a"]
    assert (bound.how, bound.low, bound.high, bound.measured) == ("proven", -3.0, 1.0, (-5.0, -1.0))
    masked = "g (int64[2] mask) => (float[2] y) { y = Cast <to = 1> (mask) }"
    assumed = ("mask is 0 or 1, as its name says",)
    for numbers, how, ends, assumes in (
        (None, "proven", (0.0, 1.0), assumed),
        ([0, 1], "proven", (0.0, 1.0), assumed),
        ([0, 2], "measured", (0.0, 2.0), ()),
        ([-1, 1], "measured", (-1.0, 1.0), ()),
    ):
        inputs = None if numbers is None else {"mask": np.array(numbers, np.int64)}
        bound = bounded(masked, inputs=inputs)["y"]
        assert (bound.how, (bound.low, bound.high), bound.assumes) == (how, ends, assumes), numbers


def test_only_floating_point_types_hold_numbers() -> None:
    with pytest.raises(OptionError, match=r"^expected a floating-point type, got int8\.$"):
        exceeding(bounds_of(of(1.0)), "int8")


def test_two_bounds_of_one_name() -> None:
    """Are known as well as the worse, and depend on and assume what either does."""
    a = Bound(-1, 2, "proven", DataType.FLOAT, ("p",), ("x",), (0, 1), least_magnitude=0.5)
    b = Bound(-3, 1, "measured", DataType.FLOAT, ("q",), ("z", "x"), (0, 1), may_be_nan=True)
    c = Bound(0, 9, "unknown", DataType.FLOAT, (), ("w",))
    both = Bound(-3, 2, "measured", DataType.FLOAT, ("p", "q"), ("x", "z"), None, may_be_nan=True)
    assert _both(a, b) == _both(b, a) == both
    assert _both(b, c).how == _both(c, b).how == _both(c, a).how == "unknown"
    assert _both(a, c).may_be_nan is False
