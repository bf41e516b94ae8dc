"""What bounds say of a type: which values it does not hold, where that begins, and what to do."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.numerics.critical import every_value
from castsmith.verification.bounds import Bound, Bounds, Excess, How, exceeding

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
