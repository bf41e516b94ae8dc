"""Intervals of the elements of a value, and bounds on the sum and norm of its rows.

An interval has one entry for the whole value, or one for each place along some of its dimensions: `low` and `high` have
the rank of the value, and each of their dimensions is that of the value or 1. They are float64, rounded outward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.rounding import Array, limits_of

Ends = tuple[Array, Array]
"""The lower and the upper bounds."""
Dims = tuple[int | None, ...]
"""The dimensions of a value; None for one that is unknown."""

_MOST = 1 << 16
"""Entries that an interval has at most; beyond that its largest dimensions are joined."""


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """Each row along the last axis is `scale * v + offset` for a vector v whose Euclidean norm is at most `radius`."""

    radius: float
    scale: Array
    offset: Array


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Bounds of the elements of one value.

    Attributes:
        low, high: the bounds, float64, broadcastable to the value; rank 0 where the rank is unknown.
        dims: the dimensions of the value; None where the rank is unknown.
        dtype: the element type.
        nan: True where an element may be NaN, even if nothing overflows.
        infinite: True where an element may be infinite; an end of -inf or inf alone means that the bound is unknown.
        weights_axis: an axis along which the elements are not negative and sum up to at most 1.
        ball: a bound on the norm of the rows.
        assumes: what the bounds take for granted.
        blame: the inputs without a range that leave this value unbounded.
    """

    low: Array
    high: Array
    dims: Dims | None
    dtype: DataType | None
    nan: bool = False
    infinite: bool = False
    weights_axis: int | None = None
    ball: Ball | None = None
    assumes: frozenset[str] = frozenset()
    blame: frozenset[str] = frozenset()

    @property
    def finite(self) -> bool:
        """True if both ends of every entry are finite."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    @property
    def least(self) -> float:
        return float(self.low.min()) if self.low.size else 0.0

    @property
    def greatest(self) -> float:
        return float(self.high.max()) if self.high.size else 0.0

    @property
    def magnitude(self) -> Array:
        """The largest absolute value of each entry."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def minus_infinity(self) -> bool:
        return self.infinite and bool(np.isneginf(self.low).any())

    @property
    def plus_infinity(self) -> bool:
        return self.infinite and bool(np.isposinf(self.high).any())

    @property
    def may_be_zero(self) -> bool:
        return bool(((self.low <= 0) & (self.high >= 0)).any())

    @property
    def exact(self) -> Array | None:
        """The elements, where each is known; None otherwise."""
        known = self.dims is not None and self.low.shape == self.dims and bool((self.low == self.high).all())
        return self.low if known and not self.nan and self.finite else None


def whole(dtype: DataType | None, dims: Dims | None, **facts: Any) -> Interval:
    """All that a type holds: an unbounded interval for a floating-point type."""
    low, high = limits_of(dtype)
    return constant_interval(low, high, dims, dtype, **facts)


def constant_interval(low: float, high: float, dims: Dims | None, dtype: DataType | None, **facts: Any) -> Interval:
    """One interval for all elements."""
    shape = (1,) * len(dims or ())
    return Interval(np.full(shape, float(low)), np.full(shape, float(high)), dims, dtype, **facts)


def with_bounds(of: Interval, low: Array, high: Array, dims: Dims | None, **facts: Any) -> Interval:
    """An interval with the origin and flags of another, without what holds of its rows."""
    low, high = fitted(low, dims, np.min), fitted(high, dims, np.max)
    held: dict[str, Any] = {
        "dtype": of.dtype,
        "nan": of.nan,
        "infinite": of.infinite,
        "assumes": of.assumes,
        "blame": of.blame,
    }
    return Interval(low, high, dims, **{**held, **facts})


def fitted(array: Array, dims: Dims | None, join: Any) -> Array:
    """The array with the rank of the dimensions, joined where it is too large or its dimensions do not fit."""
    if dims is None:
        return np.asarray(join(array)) if array.size else np.zeros(())
    if array.size == 0:
        return np.zeros((1,) * len(dims))
    array = array.reshape((1,) * max(0, len(dims) - array.ndim) + array.shape)
    if array.ndim > len(dims):
        return np.full((1,) * len(dims), join(array))
    wrong = tuple(i for i, (n, dim) in enumerate(zip(array.shape, dims, strict=True)) if n not in (1, dim))
    if wrong:
        array = join(array, axis=wrong, keepdims=True)
    while array.size > _MOST:
        array = join(array, axis=int(np.argmax(array.shape)), keepdims=True)
    return array


def joined_along(interval: Interval, axes: Iterable[int] | None) -> tuple[Array, Array]:
    """The bounds joined along the axes, which keep a length of 1; along all where `axes` is None."""
    if axes is None:
        axes = range(interval.low.ndim)
    axis = tuple(a for a in axes if a < interval.low.ndim)
    return interval.low.min(axis=axis, keepdims=True), interval.high.max(axis=axis, keepdims=True)


def absolute(low: Array, high: Array) -> tuple[Array, Array]:
    """The bounds of the absolute values of numbers in [low, high]."""
    nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return nearest, np.maximum(np.abs(low), np.abs(high))


def hull(intervals: Sequence[Interval], dims: Dims | None = None) -> Interval:
    """The least interval that holds all of them; they have one rank, or the result is one interval for all elements."""
    first = intervals[0]
    if dims is None:
        dims = reduce(common_dims, (each.dims for each in intervals))
    if len(intervals) == 1:
        return first
    if dims is None or any(each.dims is None or len(each.dims) != len(dims) for each in intervals):
        low = np.asarray(min(each.least for each in intervals))
        high = np.asarray(max(each.greatest for each in intervals))
    else:
        parts = [
            (fitted(each.low, dims, np.min), fitted(each.high, dims, np.max)) for each in intervals if each.low.size
        ]
        low = reduce(np.minimum, (part[0] for part in parts))
        high = reduce(np.maximum, (part[1] for part in parts))
    axes = {each.weights_axis for each in intervals}
    return with_bounds(first, low, high, dims, weights_axis=axes.pop() if len(axes) == 1 else None, **flags(*intervals))


def common_dims(a: Dims | None, b: Dims | None) -> Dims | None:
    """The dimensions that two values share; None for those in which they differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def kept_axis(x: Interval, *others: Interval) -> int | None:
    """The axis along which the elements of x sum up to at most 1, if x is not repeated along it by broadcasting."""
    axis = x.weights_axis
    if axis is None or x.dims is None:
        return None
    from_back = len(x.dims) - axis
    for other in others:
        if other.dims is None or len(other.dims) > len(x.dims):
            return None
        dim = other.dims[-from_back] if from_back <= len(other.dims) else 1
        if dim != 1 and x.dims[axis] in (None, 1):
            return None
    return axis


def broadcast_dims(*shapes: Dims | None) -> Dims | None:
    """The dimensions of operands broadcast against each other."""
    if any(dims is None for dims in shapes):
        return None
    known = [dims for dims in shapes if dims is not None]
    rank = max((len(dims) for dims in known), default=0)
    columns = zip(*((1,) * (rank - len(dims)) + dims for dims in known), strict=True)
    return tuple(_broadcast(column) for column in columns)


def _broadcast(column: tuple[int | None, ...]) -> int | None:
    others = {dim for dim in column if dim != 1}
    fixed = others - {None}
    return 1 if not others else fixed.pop() if len(fixed) == 1 else None


def collapsed(x: Interval, dims: Dims | None, *others: Interval) -> Interval:
    """One interval for all elements, with other dimensions."""
    low, high = np.asarray(x.least), np.asarray(x.greatest)
    return with_bounds(x, low, high, dims, **flags(x, *others))


def aligned(*intervals: Interval) -> list[Ends]:
    """The bounds of operands, broadcast as the operands are; one interval each where a rank is unknown."""
    if any(each.dims is None for each in intervals):
        return [(np.asarray(each.least), np.asarray(each.greatest)) for each in intervals]
    return [(each.low, each.high) for each in intervals]


def products(a: Ends, b: Ends) -> Ends:
    """Bounds of the products of numbers; a bound of infinity stands for numbers without bound, so 0 times it is 0."""
    with np.errstate(all="ignore"):
        one, other = (a[0] * b[0], a[1] * b[0]), (a[0] * b[1], a[1] * b[1])
        if b[0] is b[1]:
            low, high = np.minimum(*one), np.maximum(*one)
        else:
            low, high = (
                np.minimum(np.minimum(*one), np.minimum(*other)),
                np.maximum(np.maximum(*one), np.maximum(*other)),
            )
        if np.isfinite(low).all() and np.isfinite(high).all():
            return low, high
        corners = [np.nan_to_num(each, nan=0.0, posinf=np.inf, neginf=-np.inf) for each in (*one, *other)]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def square(low: Array, high: Array) -> Ends:
    """Bounds of the squares of numbers in [low, high]."""
    nearest, farthest = absolute(low, high)
    with np.errstate(all="ignore"):
        return nearest * nearest, farthest * farthest


def flags(*intervals: Interval | None) -> dict[str, Any]:
    """Return the facts that a result inherits from its operands."""
    given = [each for each in intervals if each is not None]
    return {
        "nan": any(each.nan for each in given),
        "infinite": any(each.infinite for each in given),
        "assumes": frozenset[str]().union(*(each.assumes for each in given)),
        "blame": frozenset[str]().union(*(each.blame for each in given)),
    }


def length_of(dims: Dims | None, axes: Iterable[int]) -> int | None:
    """The product of the dimensions along the axes; None where one is unknown."""
    if dims is None:
        return None
    total = 1
    for axis in axes:
        dim = dims[axis]
        if dim is None:
            return None
        total *= dim
    return total
