"""Values of an element type at which conversions to other types can change their behaviour.

Between such values a conversion is constant or exact, so two conversions that agree at all of them agree everywhere.
Within one binade [2**e, 2**(e+1)) the numbers of a floating-point type are evenly spaced. In each binade it is
therefore enough to look at the first and last numbers of the target, the midpoints between them, and the source's
neighbours of both: a rounding that is wrong anywhere in the binade is wrong there. The ranges of integer types end
next to powers of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.types import ElementType, Kind, element_type

_ENUMERATED_BITS = 8
_POINT = 1080
"""Unit exponent: numbers are integers in units of 2**-1080, in which all doubles and their midpoints are integers."""

_HALF = 1 << _POINT - 1
_STEPS = range(7)  # in halves of the spacing: beyond one even and one odd number and the midpoints around both


def critical_values(source: DataType, *targets: DataType) -> Array:
    """Return the values of `source` that decide conversions by way of `targets`; a vector of dtype `source.numpy()`.

    Every value for a type of at most 8 bits.

    Raises:
        ElementTypeError: A type is text, complex or unknown.
    """
    if element_type(source).bits <= _ENUMERATED_BITS:
        return every_value(source)
    return np.concatenate([_critical_for(source, target) for target in targets])


@lru_cache(maxsize=256)
def _critical_for(source: DataType, target: DataType) -> Array:
    row = element_type(source)
    reach = _units(row.max + 2)
    points = [point for point in _turning_points(target) if point <= reach]
    points += [-point for point in points]
    points += [_units(row.min), _units(row.max)]
    return _integers(row, points) if row.kind is Kind.INTEGER else _floats(row, points)


def every_value(dtype: DataType) -> Array:
    """Return the value of every code of a type of at most 16 bits, in order of code."""
    row = element_type(dtype)
    stored = dtype.numpy()
    return np.arange(2**row.bits, dtype=f"u{stored.itemsize}").view(stored)


@lru_cache(maxsize=32)
def _turning_points(target: DataType) -> tuple[int, ...]:
    return tuple(_points_of(element_type(target)))


def _points_of(row: ElementType) -> Iterator[int]:
    """Return nonnegative numbers of `row`, midpoints, the ends of its range, and the first multiples of a half."""
    yield from (n * _HALF for n in range(8))
    yield from (_units(row.max) + n * _HALF for n in range(3))
    if row.kind is not Kind.FLOATING:
        yield from ((2 * _HALF << k) + halves * _HALF for k in range(66) for halves in range(-2, 3))
        return
    last, quantum = _exponent(row.max), _exponent(row.quantum)
    for exponent in range(quantum - 2, last + 2):
        half_spacing = 1 << _POINT + max(exponent - row.mantissa_bits, quantum) - 1
        start = 1 << _POINT + exponent
        yield from (start + step * half_spacing for step in _STEPS)
        yield from (2 * start - step * half_spacing for step in _STEPS)


def _units(number: Fraction) -> int:
    return (number.numerator << _POINT) // number.denominator


def _exponent(number: Fraction) -> int:
    """Return floor(log2(number)) of a positive number, whose denominator is a power of two."""
    return number.numerator.bit_length() - number.denominator.bit_length()


def _integers(row: ElementType, points: Iterable[int]) -> Array:
    least, most = int(row.min), int(row.max)
    around = {(point >> _POINT) + offset for point in points for offset in (-1, 0, 1, 2)}
    return np.array(sorted(n for n in around if least <= n <= most), dtype=row.dtype.numpy())


def _floats(row: ElementType, points: Iterable[int]) -> Array:
    """Return the points and both neighbours of each, found by code: the next code is the next magnitude."""
    dtype = row.dtype.numpy()
    codes = np.dtype(f"u{dtype.itemsize}")
    # A point that rounds here rounds to one of its neighbours.
    most, unit = _units(row.max), 1 << _POINT
    rounded = np.array([point / unit for point in points if abs(point) <= most]).astype(dtype).view(codes)
    near = np.concatenate([rounded, rounded + codes.type(1), rounded - codes.type(1)]).view(dtype)
    specials = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    values = np.concatenate([near[np.isfinite(near)], specials])
    ordered = np.sort(values.view(codes))  # np.unique gives the same, but takes longer to import than this takes to run
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + codes.type(1)))].view(dtype)
