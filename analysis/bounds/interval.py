"""The abstract value: what the elements of a value may be, in the IEEE arithmetic of its type.

An element is a finite number between two ends, or one of NaN, infinity and minus infinity where these are possible. A
value has one entry of ends and possibilities for all of its elements, or one for each place along some dimensions:
`low`, `high` and `special` have one shape, the rank of the value, and each of their dimensions is that of the value or
1. The ends are float64, rounded outward.

An infinite end is no infinite element: it says that the elements are finite, by assumption, and that no bound is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.analysis.bounds.rounding import Array, is_float, is_integer, limits_of, widest

Ends = tuple[Array, Array]
"""The lower and the upper ends."""
Dims = tuple[int | None, ...]
"""The dimensions of a value; None for one that is unknown."""
Bits = NDArray[np.uint8]
"""What elements may be besides finite numbers: a union of the following."""
Truth = NDArray[np.bool_]

NONE, NAN, PLUS, MINUS = (np.uint8(bit) for bit in (0, 1, 2, 4))
"""Nothing; NaN; infinity; minus infinity."""
INFINITE = PLUS | MINUS
ANYTHING = NAN | INFINITE


class UnknownRangeError(Exception):
    """Nothing is known of the results of a node, or it contradicts the definition of its operator."""


MOST_DIMENSIONS = 32
"""Dimensions that numpy broadcasts; a value of more is one of unknown rank."""
_MOST = 1 << 16
"""Entries that an interval has at most; beyond that its largest dimensions are joined."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The elements along an axis are not negative, and sum up to at most `most`, if what it assumes holds."""

    axis: int
    most: float
    assumes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """Each row along the last axis is `scale * v + offset + e` for a vector v whose Euclidean norm is at most `radius`.

    The elements of e are at most `slack` times those of `|scale| * radius + |offset|`.
    """

    radius: float
    scale: Array
    offset: Array
    slack: float


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """What the elements of one value may be.

    Attributes:
        low, high: The ends of the finite elements; an infinite end stands for finite elements without a known bound.
        special: What elements may be besides.
        dims: The dimensions of the value; None where the rank is unknown.
        dtype: The element type.
        shares: An axis along which the elements are the parts of a whole.
        ball: A bound on the norm of the rows.
        assumes: What the bounds take for granted.
        blame: The inputs without a range that leave this value unbounded.
    """

    low: Array
    high: Array
    special: Bits
    dims: Dims | None
    dtype: DataType | None
    shares: Shares | None = None
    ball: Ball | None = None
    assumes: frozenset[str] = frozenset()
    blame: frozenset[str] = frozenset()

    @property
    def bounded(self) -> bool:
        """True if the ends of every entry are known."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    @property
    def finite(self) -> bool:
        """True if every element is a finite number."""
        return not self.special.any()

    @property
    def least(self) -> float:
        """The lower end of all finite elements."""
        return float(self.low.min())

    @property
    def greatest(self) -> float:
        """The upper end of all finite elements."""
        return float(self.high.max())

    @property
    def bits(self) -> np.uint8:
        """What any of the elements may be besides finite numbers."""
        return np.bitwise_or.reduce(self.special, axis=None)

    @property
    def magnitude(self) -> Array:
        """The largest absolute value of the finite elements of each entry."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def size(self) -> float:
        """The largest absolute value of all finite elements."""
        return float(self.magnitude.max())

    @property
    def nan(self) -> Truth:
        return (self.special & NAN) != 0

    @property
    def plus(self) -> Truth:
        """True where an element may be infinity."""
        return (self.special & PLUS) != 0

    @property
    def minus(self) -> Truth:
        """True where an element may be minus infinity."""
        return (self.special & MINUS) != 0

    @property
    def infinite(self) -> Truth:
        return (self.special & INFINITE) != 0

    @property
    def zero(self) -> Truth:
        """True where an element may be 0, of either sign."""
        return (self.low <= 0) & (self.high >= 0)

    @property
    def positive(self) -> Truth:
        """True where an element may be greater than 0, infinity included."""
        return (self.high > 0) | self.plus

    @property
    def negative(self) -> Truth:
        """True where an element may be less than 0, minus infinity included."""
        return (self.low < 0) | self.minus

    @property
    def reach(self) -> Ends:
        """The ends of all elements that are numbers, infinities included."""
        return np.where(self.minus, -np.inf, self.low), np.where(self.plus, np.inf, self.high)

    @property
    def exact(self) -> Array | None:
        """The elements, where each is known; None otherwise."""
        is_exact = self.low.shape == self.dims and bool((self.low == self.high).all())
        return self.low if is_exact and self.finite else None

    def moved(self, move: Callable[[Any], Any], dims: Dims | None, shares: Shares | None = None) -> Interval:
        """The same elements in other places: `move` takes each of the arrays to one of the rank of `dims`."""
        if dims is not None and len(dims) > MOST_DIMENSIONS:
            return collapsed(self, None)
        ends = move(self.low), move(self.high), move(self.special)
        return _fitted(*ends, dims, self.dtype, shares=shares, **inherited(self))


def possible(nan: Any = False, plus: Any = False, minus: Any = False) -> Bits:
    """What elements may be, of three truths."""
    bits: Any = np.where(nan, NAN, NONE) | np.where(plus, PLUS, NONE) | np.where(minus, MINUS, NONE)
    return bits


def number(value: float, dtype: DataType | None, **facts: Any) -> Interval:
    """One number, infinity or NaN, as the interval of a scalar."""
    special = NAN if np.isnan(value) else PLUS if value == np.inf else MINUS if value == -np.inf else NONE
    held = float(value) if special == NONE else 0.0
    return constant_interval(held, held, (), dtype, special=special, **facts)


def whole(dtype: DataType | None, dims: Dims | None, special: np.uint8 = NONE, **facts: Any) -> Interval:
    """All that a type holds: for a floating-point type finite numbers without a known bound, and `special`."""
    low, high = limits_of(dtype)
    return constant_interval(low, high, dims, dtype, special=special, **facts)


def anything(dtype: DataType | None, dims: Dims | None, **facts: Any) -> Interval:
    """All that a type holds, infinities and NaN included: nothing is known."""
    if is_integer(dtype):
        return whole(dtype, dims, **facts)
    most = widest(dtype if is_float(dtype) else DataType.DOUBLE)
    return constant_interval(-most, most, dims, dtype, special=ANYTHING, **facts)


def constant_interval(
    low: float, high: float, dims: Dims | None, dtype: DataType | None, special: np.uint8 = NONE, **facts: Any
) -> Interval:
    """One entry for all elements."""
    dims = _followed(dims)
    shape = (1,) * len(dims or ())
    ends = np.full(shape, float(low)), np.full(shape, float(high)), np.full(shape, special)
    return Interval(*ends, dims, dtype, **facts)


def interval_of(
    low: Array, high: Array, special: Bits | np.uint8, dims: Dims | None, dtype: DataType | None, **facts: Any
) -> Interval:
    """An interval of ends that may have fewer dimensions than the value, or other ones: these are joined."""
    return _fitted(*together(low, high, np.asarray(special)), dims, dtype, **facts)


def together(low: Array, high: Array, special: Bits) -> tuple[Array, Array, Bits]:
    """Ends and possibilities broadcast to one shape."""
    if low.shape == high.shape == special.shape:
        return low, high, special
    arrays: Any = np.broadcast_arrays(low, high, special)
    return arrays[0], arrays[1], arrays[2]


def _followed(dims: Dims | None) -> Dims | None:
    """The dimensions, unless there are more than are followed."""
    return None if dims is not None and len(dims) > MOST_DIMENSIONS else dims


def _fitted(
    low: Array, high: Array, special: Bits, dims: Dims | None, dtype: DataType | None, **facts: Any
) -> Interval:
    shape, dims = low.shape, _followed(dims)
    if low.size == 0:  # of no element everything holds
        return constant_interval(0.0, 0.0, dims, dtype, **facts)
    if dims is None or len(shape) > len(dims):
        bits = np.bitwise_or.reduce(special, axis=None)
        return constant_interval(float(low.min()), float(high.max()), dims, dtype, special=bits, **facts)
    shape = (1,) * (len(dims) - len(shape)) + shape
    low, high, special = low.reshape(shape), high.reshape(shape), special.reshape(shape)
    wrong = [axis for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)) if size not in (1, dim)]
    entries = low.size // math.prod(shape[axis] for axis in wrong)
    while entries > _MOST:
        largest = max((axis for axis in range(len(shape)) if axis not in wrong), key=shape.__getitem__)
        wrong.append(largest)
        entries //= shape[largest]
    if wrong:
        low, high, special = _joined(low, high, special, wrong)
    return Interval(low, high, special, dims, dtype, **facts)


def _joined(low: Array, high: Array, special: Bits, axes: Sequence[int]) -> tuple[Array, Array, Bits]:
    axis = tuple(axes)
    return (
        low.min(axis=axis, keepdims=True),
        high.max(axis=axis, keepdims=True),
        np.bitwise_or.reduce(special, axis=axis, keepdims=True),
    )


def joined_along(x: Interval, axes: Iterable[int] | None, dims: Dims | None = None) -> Interval:
    """The interval with one entry along the axes, or along all (None). dims: Its dimensions, if they change."""
    axes = range(x.low.ndim) if axes is None else [axis for axis in axes if axis < x.low.ndim]
    ends = _joined(x.low, x.high, x.special, [*axes])
    return (
        Interval(*ends, x.dims, x.dtype, **inherited(x))
        if dims is None
        else _fitted(*ends, dims, x.dtype, **inherited(x))
    )


def collapsed(x: Interval, dims: Dims | None) -> Interval:
    """One entry for all elements, with other dimensions."""
    return constant_interval(x.least, x.greatest, dims, x.dtype, special=x.bits, **inherited(x))


def with_dims(x: Interval, dims: Dims | None) -> Interval:
    """The interval with dimensions that say more than its own; its entries fit them."""
    return replace(x, dims=dims)


def absolute(low: Array, high: Array) -> Ends:
    """The bounds of the absolute values of numbers in [low, high]."""
    nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return nearest, np.maximum(np.abs(low), np.abs(high))


def hull(intervals: Sequence[Interval]) -> Interval:
    """The least interval that holds all of them; they have one rank, or the result is one entry for all elements."""
    first = intervals[0]
    if all(x is first or key_of(x) == key_of(first) for x in intervals[1:]):
        return first
    dims = reduce(common_dims, (interval.dims for interval in intervals))
    parts = [_fitted(interval.low, interval.high, interval.special, dims, interval.dtype) for interval in intervals]
    low = reduce(np.minimum, (part.low for part in parts))
    high = reduce(np.maximum, (part.high for part in parts))
    special = reduce(np.bitwise_or, (part.special for part in parts))
    shares = first.shares if all(interval.shares == first.shares for interval in intervals) else None
    return interval_of(low, high, special, dims, first.dtype, shares=shares, **inherited(*intervals))


def key_of(x: Interval) -> Hashable:
    """A key of all that an interval says."""
    ball: Any = x.ball and (x.ball.radius, x.ball.scale.tobytes(), x.ball.offset.tobytes(), x.ball.slack)
    ends = x.low.shape, x.low.tobytes(), x.high.tobytes(), x.special.tobytes()
    return (*ends, x.dims, x.dtype, x.shares, ball, x.assumes, x.blame)


def common_dims(a: Dims | None, b: Dims | None) -> Dims | None:
    """The dimensions that two values share; None for those in which they differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def kept_shares(x: Interval, *others: Interval) -> Shares | None:
    """The shares of x, if it is not repeated along their axis by broadcasting."""
    if x.shares is None or x.dims is None:
        return None
    from_back = len(x.dims) - x.shares.axis
    for other in others:
        if other.dims is None or len(other.dims) > len(x.dims):
            return None
        dim = other.dims[-from_back] if from_back <= len(other.dims) else 1
        if dim != 1 and x.dims[x.shares.axis] in (None, 1):
            return None
    return x.shares


def aligned(*intervals: Interval) -> list[Interval]:
    """Operands whose entries broadcast as the operands do; one entry each where a rank is unknown.

    Raises:
        UnknownRangeError: There are no operands, or they do not broadcast.
    """
    if not intervals:
        raise UnknownRangeError
    if any(interval.dims is None for interval in intervals):
        return [collapsed(interval, None) for interval in intervals]
    for sizes in zip_longest(*(reversed(interval.low.shape) for interval in intervals), fillvalue=1):
        if len({*sizes} - {1}) > 1:
            raise UnknownRangeError
    return list(intervals)


def products(a: Ends, b: Ends) -> Ends:
    """Bounds of the products of numbers; an end of infinity stands for numbers without bound, so 0 times it is 0."""
    with np.errstate(all="ignore"):
        by_low, by_high = (a[0] * b[0], a[1] * b[0]), (a[0] * b[1], a[1] * b[1])
        if b[0] is b[1]:
            low, high = np.minimum(*by_low), np.maximum(*by_low)
        else:
            low = np.minimum(np.minimum(*by_low), np.minimum(*by_high))
            high = np.maximum(np.maximum(*by_low), np.maximum(*by_high))
        if not np.isnan(low).any():
            return low, high
        corners = [np.nan_to_num(corner, nan=0.0, posinf=np.inf, neginf=-np.inf) for corner in (*by_low, *by_high)]
    return reduce(np.minimum, corners), reduce(np.maximum, corners)


def square(low: Array, high: Array) -> Ends:
    """Bounds of the squares of numbers in [low, high]."""
    nearest, farthest = absolute(low, high)
    with np.errstate(all="ignore"):
        return nearest * nearest, farthest * farthest


def inherited(*intervals: Interval | None) -> dict[str, Any]:
    """Return what a result inherits from its operands: assumptions, and inputs to blame."""
    operands = [interval for interval in intervals if interval is not None]
    return {
        "assumes": frozenset[str]().union(*(operand.assumes for operand in operands)),
        "blame": frozenset[str]().union(*(operand.blame for operand in operands)),
    }
