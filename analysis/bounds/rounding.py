"""Errors of floating-point arithmetic: roundings, sums in any order, functions that a runtime approximates.

All of it is IEEE arithmetic with subnormal numbers: a runtime that flushes them to 0 computes something else. Sources:
IEEE 754-2019 (one rounding is monotone, so it maps the ends of an interval to the ends); C.-P. Jeannerod and
S. M. Rump, Improved error bounds for inner products in floating-point arithmetic, SIAM J. Matrix Anal. Appl. 34 (2013):
a sum of n products in any order is off by at most n u times the sum of their absolute values, for every n; a fused
multiply-add saves a rounding.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type

Array = NDArray[np.float64]

_KEPT_WIDE = (DataType.FLOAT16, DataType.BFLOAT16)
"""Types of which a runtime may keep numbers in float: they are bounded with and without the rounding."""
_ULPS = 4
"""Float64 ulps by which a bound is moved outward after some operations in float64."""
_MOST_EXPONENT = 700.0
"""Powers of e up to which float64 reaches."""
_LESS, _MORE = 1 - _ULPS * 2.0**-52, 1 + _ULPS * 2.0**-52


def is_float(dtype: DataType | None) -> TypeGuard[DataType]:
    """True for floating-point types."""
    return dtype is not None and element_type(dtype).kind is Kind.FLOATING


def is_integer(dtype: DataType | None) -> TypeGuard[DataType]:
    """True for integer types and bool."""
    return dtype is not None and element_type(dtype).kind in (Kind.INTEGER, Kind.BOOLEAN)


@cache
def limits_of(dtype: DataType | None) -> tuple[float, float]:
    """The least and greatest number of an integer type; infinities for all others."""
    if not is_integer(dtype):
        return -np.inf, np.inf
    row = element_type(dtype)
    return (0.0, 1.0) if row.kind is Kind.BOOLEAN else (float(row.min), float(row.max))


@cache
def largest(dtype: DataType) -> float:
    """The largest finite number of a floating-point type."""
    return float(element_type(dtype).max)


@cache
def widest(dtype: DataType) -> float:
    """The largest finite number of a floating-point type, or of float where a runtime may keep it there."""
    return largest(DataType.FLOAT if dtype in _KEPT_WIDE else dtype)


@cache
def smallest(dtype: DataType) -> float:
    """The smallest positive number of a floating-point type, subnormal numbers included."""
    return float(element_type(dtype).quantum)


@cache
def thinnest(dtype: DataType) -> float:
    """The smallest positive number of a floating-point type, or of float where a runtime may keep it there."""
    return smallest(DataType.FLOAT if dtype in _KEPT_WIDE else dtype)


@cache
def smallest_normal(dtype: DataType) -> float:
    """The smallest positive normal number of a floating-point type."""
    return 2.0 ** element_type(dtype).min_exponent


@cache
def unit_roundoff(dtype: DataType) -> float:
    """Half the distance between 1 and the next number of the type."""
    return 2.0 ** -element_type(dtype).precision


def outward(low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds computed in float64 with a few roundings, moved outward beyond them.

    A sum or product that gives 0 in float64 is 0, or rounds to it in every type.
    """
    with np.errstate(over="ignore"):
        return low * np.where(low > 0, _LESS, _MORE), high * np.where(high > 0, _MORE, _LESS)


def rounded(low: Array, high: Array, dtype: DataType) -> tuple[Array, Array]:
    """The bounds of exact results after one rounding to nearest of the type, which is monotone.

    An end beyond the type becomes infinite. A runtime may keep 16-bit numbers in float, so that those are bounded after
    either rounding.
    """
    if dtype == DataType.DOUBLE:
        return low, high
    least, most = _nearest(low, dtype), _nearest(high, dtype)
    if dtype in _KEPT_WIDE:
        return np.minimum(least, _nearest(low, DataType.FLOAT)), np.maximum(most, _nearest(high, DataType.FLOAT))
    return least, most


def held(end: Array, before: Array, dtype: DataType) -> Array:
    """An end that overflowed, as the largest finite number that an element may be. before: The end that was rounded."""
    return np.copysign(np.minimum(np.abs(_nearest(before, DataType.FLOAT)), widest(dtype)), end)


def kept(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """The ends of numbers that are not computed with, but may be rounded to the type only now."""
    if dtype not in _KEPT_WIDE or dtype is None:
        return low, high
    least, most = _nearest(low, dtype), _nearest(high, dtype)
    return np.where(np.isfinite(least), np.minimum(low, least), low), np.where(
        np.isfinite(most), np.maximum(high, most), high
    )


def _nearest(array: Array, dtype: DataType) -> Array:
    """The numbers of the type that are nearest; infinite beyond the largest one, also where the type saturates."""
    if dtype == DataType.FLOAT:
        with np.errstate(over="ignore"):
            return array.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = np.asarray(cast(np.ascontiguousarray(array), dtype)).astype(np.float64).reshape(array.shape)
    rounded = np.where(np.isnan(rounded), array, rounded)
    return np.where(np.abs(array) >= _overflow(dtype), np.copysign(np.inf, array), rounded)


@cache
def _overflow(dtype: DataType) -> float:
    """The least float64 number that rounds to a number beyond the largest of the type; a tie goes to the even one."""
    top = largest(dtype)
    distance = math.ldexp(1.0, math.frexp(top)[1] - element_type(dtype).precision)
    halfway = top + distance / 2
    return halfway if top / distance % 2 else math.nextafter(halfway, math.inf)


def sum_error(count: float, dtype: DataType | None) -> float:
    """The relative error, to the sum of absolute values, of a sum of `count` products in any order.

    It covers two more roundings, and those of the bounds themselves, which are sums in float64.
    """
    if not is_float(dtype):
        return 0.0
    return (count + 2) * unit_roundoff(dtype) * (2 if dtype == DataType.DOUBLE else 1) + 2.0**-50


def shrinking(count: float, dtype: DataType) -> float:
    """The factor by which a sum of numbers that are not negative may be too small after `count` roundings."""
    return math.exp(min(-count * math.log1p(-unit_roundoff(dtype)), _MOST_EXPONENT))


def vanished(count: float, dtype: DataType | None) -> float:
    """The absolute error of `count` roundings of numbers below the smallest normal one, beside the relative error."""
    return 0.0 if not is_float(dtype) else count * smallest(dtype)


def overflows(size: Any, count: float, dtype: DataType | None, *, bounded: bool) -> NDArray[np.bool_]:
    """True where a part of a sum may exceed the type.

    Args:
        size: The sum of the absolute values of the terms.
        count: The number of terms.
        dtype: The type.
        bounded: False if the operands are finite by assumption alone: then so is a sum without a bound.
    """
    if not is_float(dtype):
        return np.zeros(np.shape(size), np.bool_)
    with np.errstate(over="ignore"):
        exceeds = np.asarray(size) * (1 + sum_error(count, dtype)) > largest(dtype)
    return exceeds & (bounded | np.isfinite(size))


@cache
def slack(dtype: DataType | None) -> tuple[float, float]:
    """Relative and absolute error allowed to a runtime's implementation of a function such as Tanh or Erf.

    64 units in the last place and as much beside 1: measured on ONNX Runtime, whose Erf, Tanh and Sigmoid are rational
    approximations, the largest is 8. Runtimes compute some functions of double in float (Shrink, Erf).
    """
    unit = unit_roundoff(dtype if is_float(dtype) else DataType.FLOAT)
    unit = max(unit, unit_roundoff(DataType.FLOAT))
    return 128 * unit, 128 * unit


def with_slack(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """Bounds of an approximated function, moved outward by the error allowed to a runtime."""
    relative, absolute = slack(dtype)
    with np.errstate(all="ignore"):
        spread_low = np.where(np.isfinite(low), np.abs(low) * relative + absolute, 0.0)
        spread_high = np.where(np.isfinite(high), np.abs(high) * relative + absolute, 0.0)
        return low - spread_low, high + spread_high
