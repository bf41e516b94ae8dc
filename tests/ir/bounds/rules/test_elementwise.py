"""Operators element by element: their bounds against their results on a grid of each interval."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from castsmith.ir.bounds.interval import Interval
from castsmith.ir.bounds.step import UnknownRangeError
from tests.ir.bounds.rules.grids import Array, Reference, box, ruled, step_of

_INTERVALS = (
    (-np.inf, np.inf), (0, np.inf), (-np.inf, 0), (-np.inf, -1.5), (0.5, np.inf), (-2, 3), (0, 0), (0, 2), (-0.75, 0),
    (0.25, 0.75), (-3, -0.5), (1.5, 6), (2, 2), (-0.5, -0.5), (-1, 1),
)  # fmt: skip
_UNARY: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Exp", {}, ""),
    ("Tanh", {}, ""),
    ("Sigmoid", {}, ""),
    ("Erf", {}, ""),
    ("Softplus", {}, ""),
    ("Softsign", {}, "l5"),
    ("Atan", {}, ""),
    ("Sinh", {}, ""),
    ("Asinh", {}, ""),
    ("Relu", {}, ""),
    ("LeakyRelu", {}, ""),
    ("Elu", {}, ""),
    ("Selu", {}, ""),
    ("Celu", {}, ""),
    ("ThresholdedRelu", {}, "i2 l2"),
    ("Shrink", {}, "l3 u5"),
    ("HardSigmoid", {}, ""),
    ("HardSwish", {}, "i2 l3"),
    ("Gelu", {}, "i1 il1 l2"),
    ("Mish", {}, "i1 il1 l4"),
    ("Acos", {}, "i5"),
    ("Asin", {}, "i5"),
    ("Acosh", {}, "i2"),
    ("Atanh", {}, "i3"),
    ("Cosh", {}, ""),
    ("Log", {}, "i3"),
    ("Sqrt", {}, "i2"),
    ("Reciprocal", {}, ""),
    ("Abs", {}, ""),
    ("Neg", {}, ""),
    ("Ceil", {}, ""),
    ("Floor", {}, ""),
    ("Round", {}, ""),
    ("Sign", {}, ""),
    ("Sin", {}, "l8"),
    ("Cos", {}, "l10"),
    ("Identity", {}, ""),
    ("LeakyRelu", {"alpha": -0.5}, "l3"),
    ("LeakyRelu", {"alpha": 1.5}, ""),
    ("LeakyRelu", {"alpha": 0.0}, "i2"),
    ("Elu", {"alpha": 0.5}, ""),
    ("Elu", {"alpha": -1.0}, "u15"),
    ("Elu", {"alpha": 0.0}, "u15"),
    ("Selu", {"alpha": 1.5, "gamma": 1.25}, ""),
    ("Selu", {"gamma": -1.0}, "u15"),
    ("Celu", {"alpha": 2.0}, ""),
    ("ThresholdedRelu", {"alpha": -0.5}, "il2 l5"),
    ("ThresholdedRelu", {"alpha": 0.5}, "i2"),
    ("Shrink", {"lambd": 0.75, "bias": 0.5}, "l10 u5"),
    ("Shrink", {"bias": -0.25}, "l6 u5"),
    ("HardSigmoid", {"alpha": -0.5, "beta": 0.75}, ""),
    ("Gelu", {"approximate": "tanh"}, "i1 il1 l2"),
    ("Swish", {"alpha": 0.5}, "i2 l5"),
    ("Swish", {"alpha": 2.0}, "i1 il1 l2"),
    ("Swish", {}, "i1 il1 l4"),
    ("Swish", {"alpha": -1.0}, "u15"),
)  # fmt: skip
"""Operator, attributes, and what is imprecise in how many of the intervals: see `verdict`; u: nothing is known."""

_BINARY: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Add", {}, ""),
    ("Sub", {}, ""),
    ("Mul", {}, "i6"),
    ("Div", {}, "i1 il5"),
    ("Mod", {"fmod": 1}, "i3 il48 l42"),
    ("Pow", {}, "i5 il13 iln5 l12 ln10 n9"),
    ("Max", {}, "i14"),
    ("Min", {}, "i14"),
    ("Mean", {}, "n44"),
    ("Sum", {}, "n44"),
    ("PRelu", {}, "i13 l2 ln2 n2"),
)  # fmt: skip
"""The same for pairs of intervals."""
_LEFT_OUT = ((-np.inf, 0), (0.5, np.inf), (0.25, 0.75), (-0.5, -0.5), (-1, 1))
_PAIRED = tuple(each for each in _INTERVALS if each not in _LEFT_OUT)
_POWERS = {3: "", 1: "", 0.5: "i2 il3 l3", 2.5: "i2 il3 l3", -0.5: "i3 il1 l5", -1: "i1 iln3 n5", -2: "i1 iln3 ln5"}
"""Exponents, and what is imprecise of their powers."""


def points(low: float, high: float, count: int) -> Array:
    """Points of an interval: the ends, infinite ones too, 1 and -1, and 0 of either sign."""
    ends = np.clip([low, high], -30, 30)
    inside = [each for each in (0.0, -0.0, 1.0, -1.0, low, high) if low <= each <= high]
    return np.concatenate([np.linspace(ends[0], ends[1], count), inside, [ends[0]] * (6 - len(inside))])


def of_ends(ends: tuple[float, float]) -> Interval:
    return box([ends[0]], [ends[1]], infinite=bool(np.isinf(ends).any()))


def verdict(found: Interval, results: Array) -> str:
    """Return the faults of bounds of results, as letters.

    B: a result is outside; l: an end is not reached; I: a result is infinite and the bounds exclude it; i: they allow
    it and every result is finite; N, n: the same of NaN.
    """
    numbers, wrong = results[~np.isnan(results)], set[str]()
    if numbers.size:
        for end, true, outside in (
            (found.least, float(numbers.min()), numbers.min() < found.least),
            (found.greatest, float(numbers.max()), numbers.max() > found.greatest),
        ):
            loose = abs(end - true) > 2e-3 * (1 + abs(true)) if np.isfinite(end) else end != true
            wrong |= set("B" * bool(outside) + "l" * bool(loose and not outside))
    for fact, seen, letter in (
        (found.infinite, np.isinf(results).any(), "i"),
        (found.nan, np.isnan(results).any(), "n"),
    ):
        wrong |= {letter.upper()} if seen and not fact else {letter} if fact and not seen else set[str]()
    return "".join(sorted(wrong))


def verdicts(
    op_type: str, given: dict[str, Any], operands: Sequence[tuple[tuple[float, float], ...]], results: Array
) -> str:
    counts = Counter[str]()
    for ends, each in zip(operands, results, strict=True):
        try:
            found = ruled(step_of(op_type, [of_ends(pair) for pair in ends], given))[0]
        except UnknownRangeError:
            counts["u"] += 1
            continue
        counts[verdict(found, each)] += 1
    return " ".join(f"{text}{count}" for text, count in sorted(counts.items()) if text)


@pytest.mark.parametrize(("op_type", "given", "expected"), _UNARY, ids=lambda each: str(each))
def test_functions_of_one_operand(op_type: str, given: dict[str, Any], expected: str) -> None:
    grid = np.array([points(*each, 401) for each in _INTERVALS])
    results = Reference(step_of(op_type, [box(0, 0)], given))(grid)[0]
    assert verdicts(op_type, given, [(each,) for each in _INTERVALS], results) == expected


@pytest.mark.parametrize(("op_type", "given", "expected"), _BINARY, ids=lambda each: str(each))
def test_functions_of_two_operands(op_type: str, given: dict[str, Any], expected: str) -> None:
    pairs = list(itertools.product(_PAIRED, repeat=2))
    one, other = (np.array([points(*pair[index], 23) for pair in pairs]) for index in (0, 1))
    arrays = np.broadcast_arrays(one[:, :, None], other[:, None, :])
    results = Reference(step_of(op_type, [box(0, 0)] * 2, given))(*arrays)[0]
    assert verdicts(op_type, given, pairs, results) == expected


@pytest.mark.parametrize("exponent", _POWERS)
def test_powers(exponent: float) -> None:
    pairs = [(each, (exponent, exponent)) for each in _INTERVALS]
    grid = np.array([points(*each, 401) for each in _INTERVALS])
    with np.errstate(all="ignore"):
        results = np.power(grid, np.full_like(grid, exponent))  # newer NumPy takes a single 0.5 for a square root
    assert verdicts("Pow", {}, pairs, results) == _POWERS[exponent]
