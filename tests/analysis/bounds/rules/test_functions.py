"""Operators element by element: what their rules say, against their results on a grid of each interval."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from castsmith.analysis.bounds.interval import Interval, UnknownRangeError, possible
from castsmith.ir.ops.attributes import MisfitError
from tests.analysis.bounds.rules.grids import Array, Reference, box, ruled, step_of
from tests.sampling import check_all

_MOST = 30.0
"""The greatest finite number of an interval that reaches to infinity."""
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
    ("Relu", {}, ""),
    ("LeakyRelu", {}, ""),
    ("Elu", {}, ""),
    ("Selu", {}, ""),
    ("HardSigmoid", {}, ""),
    ("HardSwish", {}, "l3"),
    ("Gelu", {}, "l3"),
    ("Log", {}, "l5"),
    ("Sqrt", {}, ""),
    ("Reciprocal", {}, "l7"),
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
    ("LeakyRelu", {"alpha": 0.0}, ""),
    ("Elu", {"alpha": 0.5}, ""),
    ("Elu", {"alpha": -1.0}, "u15"),
    ("Elu", {"alpha": 0.0}, "u15"),
    ("Selu", {"alpha": 1.5, "gamma": 1.25}, ""),
    ("Selu", {"gamma": -1.0}, "u15"),
    ("HardSigmoid", {"alpha": -0.5, "beta": 0.75}, ""),
    ("Gelu", {"approximate": "tanh"}, "l3"),
    ("Swish", {"alpha": 0.5}, "l5"),
    ("Swish", {"alpha": 2.0}, "l3"),
    ("Swish", {}, "l5"),
    ("Swish", {"alpha": -1.0}, "u15"),
)  # fmt: skip
"""Operator, attributes, and what is imprecise in how many of the intervals: see `verdict`; u: nothing is known."""
_BINARY: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Add", {}, ""),
    ("Sub", {}, ""),
    ("Mul", {}, ""),
    ("Div", {}, "l45"),
    ("Mod", {"fmod": 1}, "l44"),
    ("Pow", {}, "i3 il25 iln20 in1 l15 ln8 n1"),
    ("Max", {}, ""),
    ("Min", {}, ""),
    ("Mean", {}, ""),
    ("Sum", {}, ""),
    ("PRelu", {}, "i20 iln3 in4 l1 n3"),
)  # fmt: skip
"""The same for pairs of intervals."""
_LEFT_OUT = ((-np.inf, 0), (0.5, np.inf), (0.25, 0.75), (-0.5, -0.5), (-1, 1))
_PAIRED = tuple(each for each in _INTERVALS if each not in _LEFT_OUT)
_POWERS: tuple[tuple[float, str], ...] = (
    (3, ""), (1, ""), (0.5, "i3 il5"), (2.5, "i3 il5"), (-0.5, "i4 il7"), (-1, "l7"), (-2, "i1 il7"), (2, ""),
    (0, "i5"),
)  # fmt: skip
"""Exponents, and what is imprecise of their powers."""


def points(low: float, high: float, count: int) -> Array:
    """Points of an interval: the ends, infinite ones too, 1 and -1, and 0 of either sign."""
    ends = np.clip([low, high], -_MOST, _MOST)
    inside = [each for each in (0.0, -0.0, 1.0, -1.0, low, high) if low <= each <= high]
    return np.concatenate([np.linspace(ends[0], ends[1], count), inside, [ends[0]] * (6 - len(inside))])


def of_ends(ends: tuple[float, float]) -> Interval:
    special = possible(plus=ends[1] == np.inf, minus=ends[0] == -np.inf)
    return box([max(ends[0], -_MOST)], [min(ends[1], _MOST)], special=special)


def verdict(found: Interval, results: Array) -> str:
    """Return the faults of what is said of results, as letters.

    B: a number is outside; l: an end is not reached; I: an infinity, i: one that no result is; N, n: the same of NaN.
    """
    numbers, wrong = results[np.isfinite(results)], set[str]()
    if numbers.size:
        low, high = float(numbers.min()), float(numbers.max())
        if low < found.least or high > found.greatest:
            wrong.add("B")
        if low - found.least > 2e-3 * (1 + abs(low)) or found.greatest - high > 2e-3 * (1 + abs(high)):
            wrong.add("l")
    for may, seen, letter in (
        (found.plus.any(), np.isposinf(results).any(), "i"),
        (found.minus.any(), np.isneginf(results).any(), "i"),
        (found.nan.any(), np.isnan(results).any(), "n"),
    ):
        wrong |= {letter.upper()} if seen and not may else {letter} if may and not seen else set[str]()
    return "".join(sorted(wrong))


def verdicts(
    op_type: str, given: dict[str, Any], operands: Sequence[tuple[tuple[float, float], ...]], results: Array
) -> str:
    counts = Counter[str]()
    for ends, each in zip(operands, results, strict=True):
        try:
            found = ruled(step_of(op_type, [of_ends(pair) for pair in ends], given))[0]
        except (UnknownRangeError, MisfitError):
            counts["u"] += 1
            continue
        counts[verdict(found, each)] += 1
    return " ".join(f"{text}{count}" for text, count in sorted(counts.items()) if text)


def of_one(op_type: str, given: dict[str, Any], expected: str) -> None:
    grid = np.array([points(*each, 401) for each in _INTERVALS])
    results = Reference(step_of(op_type, [box(0, 0)], given))(grid)[0]
    assert verdicts(op_type, given, [(each,) for each in _INTERVALS], results) == expected


def of_two(op_type: str, given: dict[str, Any], expected: str) -> None:
    pairs = list(itertools.product(_PAIRED, repeat=2))
    one, other = (np.array([points(*pair[index], 23) for pair in pairs]) for index in (0, 1))
    arrays = np.broadcast_arrays(one[:, :, None], other[:, None, :])
    results = Reference(step_of(op_type, [box(0, 0)] * 2, given))(*arrays)[0]
    assert verdicts(op_type, given, pairs, results) == expected


def power_of(exponent: float, expected: str) -> None:
    pairs = [(each, (exponent, exponent)) for each in _INTERVALS]
    grid = np.array([points(*each, 401) for each in _INTERVALS])
    with np.errstate(all="ignore"):
        results = np.power(grid, np.full_like(grid, exponent))  # newer NumPy takes a single 0.5 for a square root
    assert verdicts("Pow", {}, pairs, results) == expected


def test_functions_of_one_operand() -> None:
    check_all(of_one, _UNARY)


def test_functions_of_two_operands() -> None:
    check_all(of_two, _BINARY)


def test_powers() -> None:
    check_all(power_of, _POWERS)
