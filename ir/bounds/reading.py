"""Constants as they are read: small ones one element at a time, large ones once, in parts, for all that is asked then.

A part is some rows of the constant, which stay in the cache of a processor while each reader computes from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Interval, constant_interval, with_bounds
from castsmith.ir.bounds.rounding import Array
from castsmith.ir.bounds.sums import Matrix, part_height
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.streaming import in_threads, is_large, is_stored, pieces, rows
from castsmith.numerics.errors import present
from castsmith.numerics.types import Kind, element_type

_READ = 1 << 16
"""Elements of a constant that are followed one by one."""
_WIDEST = 1 << 20
"""Elements along the last axis that are followed one by one in a large constant."""
_ORDERED = "biuf"
"""Kinds of arrays whose least and greatest element numpy finds in their own type; float holds the others."""


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
            yield [each.of(start + first, matrix[first : first + height]) for each in readers]

    stretches = _numbered((piece.reshape(-1, 1) for piece in pieces(tensor)) if wide else rows(tensor, height))
    together = is_large(tensor) and all(each.is_light for each in readers)
    found = in_threads(lambda each: [*parts_of(each)], stretches) if together else map(parts_of, stretches)
    for part in chain.from_iterable(found):
        for reader, each in zip(readers, part, strict=True):
            reader.add(each)


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
    """A reader of the least and the greatest element along the last axis.

    Without `careful` they are NaN in a column with a NaN, which takes less time to find out.
    """

    is_light = True

    def __init__(self, *, careful: bool = False) -> None:
        self._careful = careful
        self._ends: tuple[Matrix, Matrix] | None = None
        self.nan = self.infinite = False

    def of(self, _: int, rows: Matrix) -> tuple[Matrix, Matrix, bool, bool]:
        if rows.dtype.kind not in _ORDERED:
            rows = rows.astype(np.float32)
        nan = infinite = False
        if self._careful:
            rows, nan, infinite = _without_nan(rows)
        return rows.min(axis=0), rows.max(axis=0), nan, infinite

    def add(self, part: tuple[Matrix, Matrix, bool, bool]) -> None:
        low, high, nan, infinite = part
        before = self._ends
        self._ends = (low, high) if before is None else (np.minimum(before[0], low), np.maximum(before[1], high))
        self.nan, self.infinite = self.nan or nan, self.infinite or infinite

    @property
    def found(self) -> tuple[Array, Array]:
        """The least and the greatest element of each column."""
        low, high = present(self._ends, "the ends of a constant")
        return low.astype(np.float64), high.astype(np.float64)


def _ends_of(tensor: onnx_ir.TensorProtocol, also: Sequence[Reader]) -> Interval:
    """Read a large constant."""
    ends, dims = _Ends(), _dims(tensor)
    read(tensor, [ends, *also])
    low, high = ends.found
    nan, infinite = False, bool(np.isinf(low).any() or np.isinf(high).any())
    if np.isnan(low).any():
        ends = _Ends(careful=True)
        read(tensor, [ends])
        (low, high), nan, infinite = ends.found, ends.nan, ends.infinite
    shape = (1,) * (len(dims) - 1) + (-1,)
    base = constant_interval(0.0, 0.0, dims, tensor.dtype, nan=nan, infinite=infinite)
    return with_bounds(base, low.reshape(shape), high.reshape(shape), dims)


def interval_of_tensor(tensor: onnx_ir.TensorProtocol, also: Sequence[Reader] = ()) -> Interval:
    """The elements of a constant: one by one if it is small, else the least and greatest along its last axis.

    also: Further readers of a constant that `is_read_in_parts`.
    """
    dims = _dims(tensor)
    if not _has_numbers(tensor):
        return constant_interval(-np.inf, np.inf, dims, tensor.dtype, nan=True, infinite=True)
    if tensor.size == 0:
        return constant_interval(0.0, 0.0, dims, tensor.dtype)
    if tensor.size <= _READ:
        clean, nan, infinite = _without_nan(np.asarray(tensor.numpy()).astype(np.float64))
        return with_bounds(
            constant_interval(0.0, 0.0, dims, tensor.dtype, nan=nan, infinite=infinite), clean, clean, dims
        )
    return _ends_of(tensor, also)


def is_read_in_parts(tensor: onnx_ir.TensorProtocol) -> bool:
    """True for a constant that is too large to be followed one element at a time."""
    return tensor.size > _READ and _has_numbers(tensor)


def has_rows(tensor: onnx_ir.TensorProtocol) -> bool:
    """True for a large constant whose parts are whole rows of a matrix, stored one after the other."""
    if not is_read_in_parts(tensor) or len(_dims(tensor)) != 2 or _is_wide(tensor):
        return False
    return is_stored(tensor) or bool(np.asarray(tensor.numpy()).flags.c_contiguous)


def _has_numbers(tensor: onnx_ir.TensorProtocol) -> bool:
    return tensor.dtype != DataType.UNDEFINED and element_type(tensor.dtype).kind <= Kind.FLOATING


def _dims(tensor: onnx_ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(int(each) for each in tensor.shape.numpy())


def _without_nan(array: Matrix) -> tuple[Matrix, bool, bool]:
    """The numbers of a constant, 0 in place of NaN, and which of NaN and infinity it holds."""
    nan, infinite = bool(np.isnan(array).any()), bool(np.isinf(array).any())
    return np.nan_to_num(array, nan=0.0, posinf=np.inf, neginf=-np.inf) if nan else array, nan, infinite
