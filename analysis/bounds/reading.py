"""Constants as they are read: small ones one element at a time, large ones in parts.

A part is some rows of the constant, which stay in the cache of a processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, reduce
from itertools import chain
from typing import TypeVar

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Bits, Ends, Interval, anything, constant_interval, interval_of, possible
from castsmith.analysis.bounds.rounding import Array, is_float
from castsmith.analysis.bounds.sums import Matrix, part_height
from castsmith.ir.io.streaming import in_threads, is_computed, is_large, is_stored, pieces, rows
from castsmith.numerics.types import Kind, element_type

_READ = 1 << 16
"""Elements of a constant that are followed one by one."""
_WIDEST = 1 << 20
"""Elements along the last axis that are followed one by one in a large constant."""
_ORDERED = "biuf"
"""Kinds of arrays whose least and greatest element numpy finds in their own type; float holds the others."""
_EXACT_BITS = 53
"""Integers of at most so many bits are exact in float64."""


Part = TypeVar("Part")


def read(
    tensor: onnx_ir.TensorProtocol, compute: Callable[[int, Matrix], Part], *, light: bool = True
) -> Iterator[Part]:
    """Yield what is computed from the parts of a large constant, in order.

    Args:
        tensor: The constant.
        compute: Takes the number of the first row of a part, and its rows.
        light: What `compute` returns is small beside a part: parts are computed in several threads.
    """
    wide = _is_wide(tensor)
    height = part_height(1 if wide else _dims(tensor)[-1])

    def parts_of(stretch: tuple[int, Matrix]) -> list[Part]:
        start, matrix = stretch
        firsts = range(0, len(matrix), height)
        return [compute(start + first, _in_float(matrix[first : first + height])) for first in firsts]

    stretches = _numbered((piece.reshape(-1, 1) for piece in pieces(tensor)) if wide else rows(tensor, height))
    together = light and is_large(tensor)
    return chain.from_iterable(in_threads(parts_of, stretches) if together else map(parts_of, stretches))


def _in_float(part: Matrix) -> Matrix:
    """Return elements of float16 in float, which numpy converts, and compares, seven times as slowly."""
    if part.dtype != np.float16 or not part.flags.c_contiguous:
        return part
    return np.take(_halves(), part.view(np.uint16), mode="clip")


@cache
def _halves() -> Matrix:
    """Return all numbers of float16, by their bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _numbered(matrices: Iterator[Matrix]) -> Iterator[tuple[int, Matrix]]:
    start = 0
    for matrix in matrices:
        yield start, matrix
        start += len(matrix)


def _is_wide(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the rows are too long to be read one by one."""
    return _dims(tensor)[-1] > _WIDEST


def _ends(_: int, rows: Matrix) -> tuple[Matrix, Matrix]:
    """Return the least and the greatest element along the last axis, NaN or infinite where one of them is."""
    if rows.dtype.kind not in _ORDERED:
        rows = rows.astype(np.float32)
    return rows.min(axis=0), rows.max(axis=0)


def _finite_ends(_: int, rows: Matrix) -> tuple[Array, Array, Bits]:
    """Return the least and the greatest finite element along the last axis, and what else is there."""
    (low, high), special = _apart(_as_double(rows))
    return low.min(axis=0), high.max(axis=0), np.bitwise_or.reduce(special, axis=0)


def _as_double(array: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes quiet
        return array.astype(np.float64)


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


def _of_large(tensor: onnx_ir.TensorProtocol) -> Interval:
    """Read a large constant: again, where an element is no finite number."""
    low, high = reduce(lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])), read(tensor, _ends))
    ends, special = (_as_double(low), _as_double(high)), np.zeros((), np.uint8)
    if not (np.isfinite(ends[0]).all() and np.isfinite(ends[1]).all()):
        low, high, special = reduce(
            lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]), a[2] | b[2]), read(tensor, _finite_ends)
        )
        ends = _or_zero(low, high)
    return interval_of(*_in_float64(ends, tensor.dtype), special, _dims(tensor), tensor.dtype)


def interval_of_tensor(tensor: onnx_ir.TensorProtocol) -> Interval:
    """The elements of a constant: one by one if it is small, else the least and greatest along its last axis."""
    dims, dtype = _dims(tensor), tensor.dtype
    if not _has_numbers(tensor):
        return anything(dtype, dims)
    if tensor.size == 0:
        return constant_interval(0.0, 0.0, dims, dtype)
    if tensor.size > _READ:
        return _of_large(tensor)
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
