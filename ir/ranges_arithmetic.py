"""What the arithmetic of integers makes of intervals, as if integers had no end: the caller sees whether it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Interval = tuple[int, int]
"""The least and the greatest, both included."""


def _corners(combine: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def interval(a: Interval, b: Interval) -> Interval:
        found = [combine(x, y) for x in a for y in b]
        return min(found), max(found)

    return interval


def _quotient(a: Interval, b: Interval) -> Interval | None:
    """By an integer of 1 or more: no further from 0 than the dividend, whichever way it is rounded."""
    return None if b[0] <= 0 else (min(a[0], 0), max(a[1], 0))


def _magnitude(a: Interval) -> Interval:
    nearest = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return nearest, max(abs(a[0]), abs(a[1]))


_OF_ONE: dict[str, Callable[[Interval], Interval]] = {
    "Neg": lambda a: (-a[1], -a[0]),
    "Abs": _magnitude,
    "ReduceMax": lambda a: a,
    "ReduceMin": lambda a: a,
}
_OF_TWO: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "Add": _corners(lambda x, y: x + y),
    "Sub": _corners(lambda x, y: x - y),
    "Mul": _corners(lambda x, y: x * y),
    "Div": _quotient,
    "Range": lambda start, limit: (min(start[0], limit[0]), max(start[1], limit[1])),
}

ARITHMETIC = frozenset({*_OF_ONE, *_OF_TWO})
"""The operators that `interval_of` knows."""


def interval_of(op_type: str, operands: Sequence[Interval]) -> Interval | None:
    """The interval of the result; None where it is not known."""
    if op_type in _OF_ONE:
        return _OF_ONE[op_type](operands[0])
    return _OF_TWO[op_type](operands[0], operands[1]) if len(operands) > 1 else None
