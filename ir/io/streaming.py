"""Large tensors in pieces: read from disk, and computed when they are written, never completely in memory."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np
import onnx_ir

from castsmith.ir.io.stored import Array, FileTensor, Range, range_of

if TYPE_CHECKING:
    from concurrent.futures import Future

Given = TypeVar("Given")
Made = TypeVar("Made")

PIECE = 1 << 20
"""Elements in a piece; a multiple of 8, so that no byte of a packed type spans two pieces."""

_MAPPED = 1 << 16
"""Elements of a tensor in a file that is read as a whole: mapped pages count as memory of the process."""

_RECIPE, _SOURCE = "castsmith.pieces", "castsmith.rounded"
_THREADS = min(4, os.cpu_count() or 1)


def is_large(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the tensor has more than one piece."""
    return tensor.size > PIECE


def pieces(tensor: onnx_ir.TensorProtocol) -> Iterator[Array]:
    """Yield the elements of the tensor in C order, as one-dimensional arrays of at most PIECE elements each."""
    recipe: Callable[[], Iterator[Array]] | None = _recipe(tensor)
    return _cut(tensor, PIECE) if recipe is None else recipe()


def rows(tensor: onnx_ir.TensorProtocol, multiple: int = 1) -> Iterator[Array]:
    """Yield the elements of the tensor as matrices with its last axis, of about PIECE elements each.

    multiple: What the number of rows is a multiple of, but in the last matrix.
    """
    width = int(tensor.shape.numpy()[-1])
    together, left = max(1, PIECE // (width * multiple)) * multiple, tensor.size // width
    if _recipe(tensor) is None and (tensor.dtype.bitwidth >= 8 or together * width % 8 == 0):
        arrays = _cut(tensor, together * width)
    else:
        lengths = (min(together, left - start) * width for start in range(0, left, together))
        arrays = regrouped(pieces(tensor), lengths)
    for array in arrays:
        yield array.reshape(-1, width)


def _cut(tensor: onnx_ir.TensorProtocol, length: int) -> Iterator[Array]:
    """Yield the elements of a tensor in memory or in a file, in arrays of the length; its bytes span no two of them."""
    if is_stored(tensor) and (place := range_of(tensor)) is not None:
        yield from _read(place, tensor, length)
    else:
        flat = tensor.numpy().reshape(-1)
        yield from (flat[start : start + length] for start in range(0, flat.size, length))


def is_stored(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the elements are in a file and are too many to be kept in memory."""
    in_file = isinstance(tensor, FileTensor | onnx_ir.ExternalTensor)
    return in_file and tensor.size > min(_MAPPED, PIECE)


def is_computed(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the elements are computed in pieces when they are read."""
    return isinstance(tensor, onnx_ir.LazyTensor) and _RECIPE in tensor.meta


def computed(
    source: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType, convert: Callable[[Array], Array], name: str
) -> onnx_ir.LazyTensor:
    """Return a tensor of the shape of `source` whose elements are `convert` of those of `source`, computed on demand.

    Args:
        convert: Takes and returns a one-dimensional array, each element on its own; called from several threads at
            once.
    """
    shape = onnx_ir.Shape(source.shape.numpy(), frozen=True)

    def whole() -> onnx_ir.TensorProtocol:
        return onnx_ir.tensor(convert(source.numpy().reshape(-1)).reshape(shape.numpy()), dtype=dtype, name=name)

    tensor = onnx_ir.LazyTensor(whole, dtype, shape, name=name)
    many = is_large(source)
    tensor.meta[_RECIPE] = lambda: in_threads(convert, pieces(source)) if many else map(convert, pieces(source))
    return tensor


def rounded_from(tensor: onnx_ir.LazyTensor, source: onnx_ir.TensorProtocol) -> onnx_ir.LazyTensor:
    """Note that the elements of a tensor are those of the other one, each rounded to the type, and return it."""
    tensor.meta[_SOURCE] = source
    return tensor


def source_of(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol | None:
    """Return the tensor of which this one is a rounded copy; None if it is none."""
    return tensor.meta.get(_SOURCE)


def streamed(
    shape: Sequence[int], dtype: onnx_ir.DataType, recipe: Callable[[], Iterator[Array]], name: str
) -> onnx_ir.LazyTensor:
    """Return a tensor whose elements, in C order, are those of the one-dimensional arrays of `recipe`."""

    def whole() -> onnx_ir.TensorProtocol:
        return onnx_ir.tensor(np.concatenate(list(recipe())).reshape(shape), dtype=dtype, name=name)

    size = prod(shape)
    lengths = [min(PIECE, size - start) for start in range(0, size, PIECE)]
    tensor = onnx_ir.LazyTensor(whole, dtype, onnx_ir.Shape(shape, frozen=True), name=name)
    tensor.meta[_RECIPE] = lambda: regrouped(recipe(), lengths)
    return tensor


def regrouped(arrays: Iterable[Array], lengths: Iterable[int]) -> Iterator[Array]:
    """Yield one-dimensional arrays of the given lengths with the elements of other such arrays, in order."""
    source, left = iter(arrays), np.empty(0)
    for length in lengths:
        parts, missing = [left] if left.size else [], length - left.size
        while missing > 0:
            parts.append(next(source))
            missing -= parts[-1].size
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        yield joined[:length]
        left = joined[length:]


def in_threads(convert: Callable[[Given], Made], arrays: Iterable[Given]) -> Iterator[Made]:
    """Yield `convert` of each item in order; at most one more item than there are threads is in memory."""
    from concurrent.futures import ThreadPoolExecutor

    running: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for array in arrays:
            running.append(pool.submit(partial(convert, array)))
            if len(running) > _THREADS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def write_tensor(tensor: onnx_ir.TensorProtocol, out: IO[bytes]) -> None:
    """Append the bytes of the tensor, as ONNX stores them, to the file."""
    place = range_of(tensor)
    if place is not None:
        place.copy_to(out)
        return
    for piece in pieces(tensor):
        _write_elements(piece, tensor.dtype, out)


def _write_elements(array: Array, dtype: onnx_ir.DataType, out: IO[bytes]) -> None:
    """Append the elements to the file, without the copy of them that onnx_ir makes."""
    if dtype.bitwidth < 8 or sys.byteorder == "big" or not array.flags.c_contiguous:
        onnx_ir.Tensor(array, dtype).tofile(out)
    else:
        out.write(array.view(np.uint8).data)


def _recipe(tensor: onnx_ir.TensorProtocol) -> Callable[[], Iterator[Array]] | None:
    return tensor.meta.get(_RECIPE)


def _read(place: Range, tensor: onnx_ir.TensorProtocol, length: int) -> Iterator[Array]:
    """Yield the elements in a file as arrays of the length, and forget what was read some arrays ago."""
    dtype, size, used = tensor.dtype, tensor.size, deque[Range]()
    for start in range(0, size, length):
        count = min(length, size - start)
        first, many = start * dtype.bitwidth // 8, -(-count * dtype.bitwidth // 8)
        used.append(Range(place.file, place.offset + first, many))
        array = used[-1].array(dtype, [count])
        yield array if array.flags.aligned else array.copy()
        if len(used) > _IN_USE:
            used.popleft().release()
    while used:
        used.popleft().release()


_IN_USE = _THREADS + 1
"""Arrays of a tensor that may be in use at a time, as in `in_threads`."""
