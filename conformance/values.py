"""Inputs of the vectors: what decides whether a conversion is right.

Types of at most 16 bits are covered whole. Of wider ones, the inputs are the numbers next to which the result changes:
every number of a narrow target, every midpoint between two of them, and the neighbours of both in the source; beside
them zeros, infinities, NaN, the ends of ranges, and bit patterns taken from a hash of the case's name, which are the
same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import code_dtype
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.narrowing import widen
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import ElementType, Kind, element_type, type_name

Array = npt.NDArray[Any]

WHOLE_BITS = 16
"""Types of up to so many bits are covered whole."""
_RANDOM = 2048
"""Random bit patterns for each pair with a wider source."""

TEXTS = (
    *("0", "-0", "1", "-1", "+1", "007", "255", "256", "-129", "65504", "65505", "2147483648", "9223372036854775807"),
    *("18446744073709551615", "1e400", "-1e400", "1e-400", "1E8", "1e-5", "3.14", "-2.5", "0.5", "1.5", "2.5"),
    *("0.1", "1e5", "448", "464", "465", "57344", "61440", "61441", "5.960464477539063e-08", "1.1754942e-38"),
    *("3.4028235677973366e+38", "1.000488281250000000001", "1.0625000000000002", "inf", "-inf", "+INF", "Infinity"),
    *("nan", "NaN", "-nan", ".5", "5.", " 1", "1 ", "", "one", "0x10", "1_000", "1,5", "true", "True"),
)
"""Text that is cast to numbers."""


def values_for(source: DataType, target: DataType, *, whole_bits: int = WHOLE_BITS) -> Array:
    """Return the inputs of the cast of `source` to `target`: a vector in order of code, of dtype `source.numpy()`.

    Strings are an object array of str. Casts to strings, whose digits the standard leaves open, have fewer inputs.

    Args:
        source: The type of the input.
        target: The type of the output.
        whole_bits: Types of up to so many bits are covered whole, and each number of narrower targets is reached.

    Raises:
        ElementTypeError: A type is complex or unknown.
    """
    if source is DataType.STRING:
        return np.array(TEXTS, object)
    row = element_type(source)
    if target is DataType.STRING:
        target, whole_bits = DataType.FLOAT8E4M3FN, 8
    if row.bits <= whole_bits:
        return every_value(source)
    parts = [critical_values(source, target), _random(source, target)]
    if element_type(target).bits <= whole_bits:
        parts.append(_around(source, target))
    return _in_order(np.concatenate(parts))


def _random(source: DataType, target: DataType) -> Array:
    """Return bit patterns of `source` from the hash of the names: the same on every machine and version."""
    name, stored = f"{type_name(source)} to {type_name(target)}", source.numpy()
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(_RANDOM * stored.itemsize), stored.newbyteorder("<"))


def _in_order(values: Array) -> Array:
    codes = values.astype(values.dtype.newbyteorder("="), copy=False).view(f"u{values.itemsize}")
    ordered = np.sort(codes)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))].view(values.dtype.newbyteorder("="))


def _around(source: DataType, target: DataType) -> Array:
    """Return the numbers of a narrow target and the midpoints between them, each with both neighbours in `source`."""
    row, to_row = element_type(source), element_type(target)
    points = boundaries(target)
    if row.kind is Kind.INTEGER:
        return _integers_around(row, points)
    if to_row.bits < WHOLE_BITS or to_row.kind is Kind.INTEGER:
        return _floats_around(source, points)
    return _floats_around(source, points[1::2])  # the midpoints: between them a rounding does not change


@lru_cache(maxsize=32)
def boundaries(target: DataType) -> Array:
    """Return every number of a type of at most 16 bits and the midpoints between them: sorted, exact in double.

    One step past each end is included, where saturation begins. Integers of 16 bits, to which floats are truncated,
    are without midpoints.
    """
    row = element_type(target)
    if row.kind is not Kind.FLOATING:
        numbers = np.arange(int(row.min) - 1, int(row.max) + 2, dtype=np.float64)
        return numbers if row.bits == WHOLE_BITS else np.union1d(numbers, numbers[:-1] + 0.5)
    codes = np.arange(2**row.bits, dtype=code_dtype(row))
    with np.errstate(invalid="ignore"):
        every = widen(codes, row).astype(np.float64)
    numbers = np.unique(every[np.isfinite(every)])
    past = [2 * numbers[0] - numbers[1], *numbers, 2 * numbers[-1] - numbers[-2]]
    ends = np.array(past)
    return np.union1d(ends, (ends[:-1] + ends[1:]) / 2)


def _integers_around(row: ElementType, points: Array) -> Array:
    least, most = int(row.min), int(row.max)
    near = {int(point) + step for point in points.tolist() for step in (-1, 0, 1)}
    return np.array(sorted(number for number in near if least <= number <= most), dtype=row.dtype.numpy())


def _floats_around(source: DataType, points: Array) -> Array:
    middle = cast(points, source)
    codes = middle.view(f"u{middle.itemsize}")
    step = codes.dtype.type(1)
    away, toward = codes + step, codes[(middle != 0)] - step
    return np.concatenate([middle, away.view(middle.dtype), toward.view(middle.dtype)])


def scaled(source: DataType, target: DataType, scale: float, offset: float = 0.0) -> Array:
    """Return inputs of QuantizeLinear: the boundaries of `target` less `offset`, times `scale`, with neighbours.

    Args:
        source: The type of x: float16, bfloat16, float or int32.
        target: The quantized type, of at most 16 bits.
        scale: The scale, exact in the type of the scale.
        offset: The zero point.
    """
    points = boundaries(target)
    if points.size > 1 << 12:  # of 16-bit types every sixteenth, and all at the ends
        points = np.union1d(points[::16], np.concatenate([points[:64], points[-64:]]))
    products = (points - offset) * scale
    if element_type(source).kind is Kind.INTEGER:
        return _integers_around(element_type(source), np.floor(products[np.abs(products) < 2.0**31]))
    return _in_order(np.concatenate([_floats_around(source, products), *_specials(source)]))


def _specials(source: DataType) -> Iterator[Array]:
    yield cast(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]), source)
    row = element_type(source)
    yield cast(np.array([float(row.max), float(row.min), float(row.quantum), -float(row.quantum)]), source)
