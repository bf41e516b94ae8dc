"""Constants as they are read: small ones one element at a time, large ones once, in parts, for all that is asked then.

A part is some rows of the constant, which stay in the cache of a processor while each reader computes from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Protocol

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Bits, Ends, Interval, anything, constant_interval, interval_of, possible
from castsmith.analysis.bounds.rounding import is_float
from castsmith.analysis.bounds.sums import Matrix, part_height
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.streaming import in_threads, is_computed, is_large, is_stored, pieces, rows
from castsmith.numerics.errors import present
from castsmith.numerics.types import Kind, element_type

_READ = 1 << 16
"""Elements of a constant that are followed one by one."""
_WIDEST = 1 << 20
"""Elements along the last axis that are followed one by one in a large constant."""
_ORDERED = "biuf"
"""Kinds of arrays whose least and greatest element numpy finds in their own type; float holds the others."""
_EXACT_BITS = 53
"""Integers of at most so many bits are exact in float64."""


class Reader(Protocol):
    """Computes something from the parts of a constant."""

    @property
    def is_light(self) -> bool:
        """True if what `of` returns is small beside a part: parts are then computed in threads."""
        ...

    def of(self, start: int, rows: Matrix, /) -> Any:
        """Return what a part adds, the first row of which is number `start`; called in several threads at once."""
        ...

    def add(self, part: Any, /) -> None:
        """Take what `of` returned, in the order of the parts."""
        ...


def read(tensor: onnx_ir.TensorProtocol, readers: Sequence[Reader]) -> None:
    """Read a large constant once for all readers."""
    wide = _is_wide(tensor)
    height = part_height(1 if wide else _dims(tensor)[-1])

    def parts_of(stretch: tuple[int, Matrix]) -> Iterator[list[Any]]:
        start, matrix = stretch
        for first in range(0, len(matrix), height):
            part = _in_float(matrix[first : first + height])
            yield [reader.of(start + first, part) for reader in readers]

    stretches = _numbered((piece.reshape(-1, 1) for piece in pieces(tensor)) if wide else rows(tensor, height))
    together = is_large(tensor) and all(reader.is_light for reader in readers)
    parts = in_threads(lambda stretch: [*parts_of(stretch)], stretches) if together else map(parts_of, stretches)
    for part in chain.from_iterable(parts):
        for reader, each in zip(readers, part, strict=True):
            reader.add(each)


def _in_float(part: Matrix) -> Matrix:
    """Return elements of float16 in float, which numpy converts, and compares, seven times as slowly."""
    if part.dtype != np.float16 or not part.flags.c_contiguous:
        return part
    return np.take(_halves(), part.view(np.uint16), mode="clip")


@cache
def _halves() -> Matrix:
    """Return all numbers of float16, by their bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def read_constant(value: onnx_ir.Value, readers: Sequence[Reader]) -> None:
    """Read the tensor of a large constant once for all readers."""
    read(present(constant_tensor(value), "the tensor of the constant"), readers)


def _numbered(matrices: Iterator[Matrix]) -> Iterator[tuple[int, Matrix]]:
    start = 0
    for matrix in matrices:
        yield start, matrix
        start += len(matrix)


def _is_wide(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the rows are too long to be read one by one."""
    return _dims(tensor)[-1] > _WIDEST


class _Ends:
    """A reader of the least and the greatest element along the last axis, NaN or infinite where one of them is."""

    is_light = True

    def __init__(self) -> None:
        self._ends: tuple[Matrix, Matrix] | None = None

    def of(self, _: int, rows: Matrix) -> tuple[Matrix, Matrix]:
        if rows.dtype.kind not in _ORDERED:
            rows = rows.astype(np.float32)
        return rows.min(axis=0), rows.max(axis=0)

    def add(self, part: tuple[Matrix, Matrix]) -> None:
        before = self._ends
        self._ends = part if before is None else (np.minimum(before[0], part[0]), np.maximum(before[1], part[1]))

    @property
    def found(self) -> Ends:
        low, high = present(self._ends, "the ends of a constant")
        return low.astype(np.float64), high.astype(np.float64)


class _FiniteEnds:
    """A reader of the least and the greatest finite element along the last axis, and what else is there."""

    is_light = True

    def __init__(self) -> None:
        self._low, self._high, self._special = np.asarray(np.inf), np.asarray(-np.inf), np.zeros((), np.uint8)

    def of(self, _: int, rows: Matrix) -> tuple[Ends, Bits]:
        ends, special = _apart(rows.astype(np.float64))
        return (ends[0].min(axis=0), ends[1].max(axis=0)), np.bitwise_or.reduce(special, axis=0)

    def add(self, part: tuple[Ends, Bits]) -> None:
        (low, high), special = part
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
        self._special = self._special | special

    @property
    def found(self) -> tuple[Ends, Bits]:
        return _or_zero(self._low, self._high), self._special


def _apart(array: Matrix) -> tuple[Ends, Bits]:
    """The finite elements as ends, which are empty (infinity to minus infinity) elsewhere, and what the others are."""
    finite = np.isfinite(array)
    special = possible(np.isnan(array), np.isposinf(array), np.isneginf(array))
    return (np.where(finite, array, np.inf), np.where(finite, array, -np.inf)), special


def _or_zero(low: Matrix, high: Matrix) -> Ends:
    """Ends with 0 in place of empty ones."""
    empty = low > high
    return np.where(empty, 0.0, low), np.where(empty, 0.0, high)


def _in_float64(ends: Ends, dtype: DataType) -> Ends:
    """Ends converted to float64, moved outward if they were integers that it does not hold."""
    if is_float(dtype) or element_type(dtype).bits <= _EXACT_BITS:
        return ends
    low, high = ends
    least, most = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    large = 2.0**_EXACT_BITS
    return np.where(np.abs(low) >= large, least, low), np.where(np.abs(high) >= large, most, high)


def _of_large(tensor: onnx_ir.TensorProtocol, also: Sequence[Reader]) -> Interval:
    """Read a large constant."""
    reader, dims = _Ends(), _dims(tensor)
    read(tensor, [reader, *also])
    ends, special = reader.found, np.zeros((), np.uint8)
    if not (np.isfinite(ends[0]).all() and np.isfinite(ends[1]).all()):
        careful = _FiniteEnds()
        read(tensor, [careful])
        ends, special = careful.found
    return interval_of(*_in_float64(ends, tensor.dtype), special, dims, tensor.dtype)


def interval_of_tensor(tensor: onnx_ir.TensorProtocol, also: Sequence[Reader] = ()) -> Interval:
    """The elements of a constant: one by one if it is small, else the least and greatest along its last axis.

    also: Further readers of a constant that `is_read_in_parts`.
    """
    dims, dtype = _dims(tensor), tensor.dtype
    if not _has_numbers(tensor):
        return anything(dtype, dims)
    if tensor.size == 0:
        return constant_interval(0.0, 0.0, dims, dtype)
    if tensor.size > _READ:
        return _of_large(tensor, also)
    (low, high), special = _apart(np.asarray(tensor.numpy()).astype(np.float64))
    return interval_of(*_in_float64(_or_zero(low, high), dtype), special, dims, dtype)


def is_read_in_parts(tensor: onnx_ir.TensorProtocol) -> bool:
    """True for a constant that is too large to be followed one element at a time."""
    return tensor.size > _READ and _has_numbers(tensor)


def has_rows(tensor: onnx_ir.TensorProtocol) -> bool:
    """True for a large constant whose parts are whole rows of a matrix, stored one after the other."""
    if not is_read_in_parts(tensor) or len(_dims(tensor)) != 2 or _is_wide(tensor):
        return False
    return is_stored(tensor) or is_computed(tensor) or bool(np.asarray(tensor.numpy()).flags.c_contiguous)


def _has_numbers(tensor: onnx_ir.TensorProtocol) -> bool:
    return tensor.dtype != DataType.UNDEFINED and element_type(tensor.dtype).kind <= Kind.FLOATING


def _dims(tensor: onnx_ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(int(dim) for dim in tensor.shape.numpy())
