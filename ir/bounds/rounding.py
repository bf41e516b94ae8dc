"""Errors of floating-point arithmetic: roundings, sums in any order, functions that a runtime approximates.

Sources: IEEE 754-2019 (one rounding is monotone, so it maps the ends of an interval to the ends); N. Higham, Accuracy
and Stability of Numerical Algorithms, 3.1 (a sum of n terms in any order is off by at most gamma_n times the sum of
their absolute values).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type

Array = np.ndarray[Any, np.dtype[np.float64]]

_KEPT_WIDE = (DataType.FLOAT16, DataType.BFLOAT16)
_ULPS = 4
"""Float64 ulps by which a bound is moved outward after some operations in float64."""
_LESS, _MORE = 1 - _ULPS * 2.0**-52, 1 + _ULPS * 2.0**-52


def is_float(dtype: DataType | None) -> bool:
    """True for floating-point types."""
    return dtype is not None and element_type(dtype).kind is Kind.FLOATING


def is_integer(dtype: DataType | None) -> bool:
    """True for integer types and bool."""
    return dtype is not None and element_type(dtype).kind in (Kind.INTEGER, Kind.BOOLEAN)


@cache
def limits_of(dtype: DataType | None) -> tuple[float, float]:
    """The least and greatest number of an integer type; infinities for all others."""
    if dtype is None or not is_integer(dtype):
        return -np.inf, np.inf
    row = element_type(dtype)
    return (0.0, 1.0) if row.kind is Kind.BOOLEAN else (float(row.min), float(row.max))


@cache
def largest(dtype: DataType) -> float:
    """The largest finite number of a floating-point type."""
    return float(element_type(dtype).max)


@cache
def smallest(dtype: DataType) -> float:
    """The smallest positive number of a floating-point type, subnormal numbers included."""
    return float(element_type(dtype).quantum)


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
    return low * np.where(low > 0, _LESS, _MORE), high * np.where(high > 0, _MORE, _LESS)


def rounded(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """The bounds of exact results after one rounding to nearest of the type, which is monotone.

    A runtime may keep 16-bit numbers in float, so that those are bounded with and without the rounding.
    """
    if dtype is None or not is_float(dtype) or dtype == DataType.DOUBLE:
        return low, high
    nearest = _nearest(low, dtype), _nearest(high, dtype)
    return (np.minimum(low, nearest[0]), np.maximum(high, nearest[1])) if dtype in _KEPT_WIDE else nearest


def overflows(before: Array, after: Array) -> bool:
    """True if a finite bound became infinite."""
    return bool((np.isfinite(before) & ~np.isfinite(after)).any())


def _nearest(array: Array, dtype: DataType) -> Array:
    """The numbers of the type that are nearest; infinite beyond the largest one, also where the type saturates."""
    if dtype == DataType.FLOAT:
        with np.errstate(over="ignore"):
            return array.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        found = np.asarray(cast(np.ascontiguousarray(array), dtype)).astype(np.float64).reshape(array.shape)
    found = np.where(np.isnan(found), array, found)
    return np.where(np.abs(array) >= _overflow(dtype), np.copysign(np.inf, array), found)


@cache
def _overflow(dtype: DataType) -> float:
    """The least float64 number that rounds to a number beyond the largest of the type; a tie goes to the even one."""
    top = largest(dtype)
    distance = math.ldexp(1.0, math.frexp(top)[1] - element_type(dtype).precision)
    halfway = top + distance / 2
    return halfway if top / distance % 2 else math.nextafter(halfway, math.inf)


def sum_error(count: int, dtype: DataType | None) -> float:
    """The relative error, to the sum of absolute values, of a sum of `count` products in any order.

    (1 + u)**(count + 1) - 1, which holds for every count.
    """
    if not is_float(dtype) or dtype is None:
        return 0.0
    return float(np.expm1((count + 2) * np.log1p(unit_roundoff(dtype)))) * (1 + 2.0**-40) + 2.0**-50


def vanished(count: int, dtype: DataType | None) -> float:
    """The absolute error of `count` roundings of numbers below the smallest normal one, beside the relative error."""
    return 0.0 if dtype is None or not is_float(dtype) else count * smallest(dtype)


def summed(low: Array, high: Array, size: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """Bounds of sums whose terms have absolute values that sum up to `size`: unbounded where a part may overflow."""
    if dtype is None or not is_float(dtype):
        return low, high
    over = np.isfinite(size) & (size * (1 + 2.0**-10) > largest(dtype))
    return (np.where(over, -np.inf, low), np.where(over, np.inf, high)) if over.any() else (low, high)


@cache
def slack(dtype: DataType | None) -> tuple[float, float]:
    """Relative and absolute error allowed to a runtime's implementation of a function such as Tanh or Erf.

    64 units in the last place and as much beside 1: measured on ONNX Runtime, whose Erf, Tanh and Sigmoid are rational
    approximations, the largest is 8. Runtimes compute some functions of double in float (Shrink, Erf).
    """
    unit = unit_roundoff(dtype if dtype is not None and is_float(dtype) else DataType.FLOAT)
    unit = max(unit, unit_roundoff(DataType.FLOAT))
    return 128 * unit, 128 * unit


def with_slack(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """Bounds of an approximated function, moved outward by the error allowed to a runtime."""
    relative, absolute = slack(dtype)
    with np.errstate(all="ignore"):
        spread_low = np.where(np.isfinite(low), np.abs(low) * relative + absolute, 0.0)
        spread_high = np.where(np.isfinite(high), np.abs(high) * relative + absolute, 0.0)
    return low - spread_low, high + spread_high
