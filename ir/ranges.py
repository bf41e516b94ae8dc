"""Tensors whose bytes lie in an open file: memory-mapped to be read, copied as ranges when they are saved.

The file stays open, so what is read is the file that was loaded, whatever is renamed over its name meanwhile.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import onnx_ir

from castsmith.ir.errors import ModelError

_RANGE = "castsmith.range"
_CHUNK = 1 << 24
_NOT_BY_THE_KERNEL = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)


@dataclass(frozen=True, eq=False)
class FileRange:
    """`length` bytes at `offset` of an open file."""

    file: IO[bytes]
    offset: int
    length: int


def mapped_tensor(file: IO[bytes], mapping: mmap.mmap, stored: onnx_ir.ExternalTensor) -> onnx_ir.TensorProtocol:
    """The tensor that `stored` describes, as a view of `mapping`, which maps the whole of `file`."""
    shape, dtype, offset = stored.shape, stored.dtype, stored.offset or 0
    tensor: onnx_ir.Tensor[np.ndarray] | onnx_ir.PackedTensor[np.ndarray]
    if dtype.bitwidth < 8:
        packed = np.frombuffer(mapping, np.uint8, math.ceil(math.prod(shape.numpy()) * dtype.itemsize), offset)
        tensor = onnx_ir.PackedTensor(packed, dtype, shape=shape, name=stored.name, doc_string=stored.doc_string)
    else:
        array = np.frombuffer(mapping, dtype.numpy(), math.prod(shape.numpy()), offset).reshape(shape.numpy())
        tensor = onnx_ir.Tensor(array, dtype, shape=shape, name=stored.name, doc_string=stored.doc_string)
    tensor.metadata_props.update(stored.metadata_props)
    tensor.meta[_RANGE] = FileRange(file, offset, tensor.nbytes)
    return tensor


def range_of(tensor: onnx_ir.TensorProtocol) -> FileRange | None:
    """The range of an open file that holds the tensor; None for any other tensor, ExternalTensor included."""
    return tensor.meta.get(_RANGE)


def relabelled(tensor: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType) -> onnx_ir.TensorProtocol | None:
    """The same bytes as elements of another type of 8 bits or more that has as many, where they lie in a file, and
    without reading them; None where they do not."""
    place, shape = range_of(tensor), onnx_ir.Shape(tensor.shape.numpy())
    if isinstance(tensor, onnx_ir.ExternalTensor):
        made: onnx_ir.TensorProtocol = onnx_ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            dtype,
            shape=shape,
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            base_dir=tensor.base_dir,
        )
    elif place is None:
        return None
    else:
        array = tensor.numpy().view(dtype.numpy())
        made = onnx_ir.Tensor(array, dtype, shape=shape, name=tensor.name, doc_string=tensor.doc_string)
        made.meta[_RANGE] = place
    made.metadata_props.update(tensor.metadata_props)
    return made


def external_path(folder: str | os.PathLike[str], location: str) -> Path | None:
    """The file that `location` names in the folder; None where that is outside of it, symbolic links followed."""
    root = Path(folder).resolve()
    target = (root / location).resolve()
    return None if os.path.isabs(location) or not target.is_relative_to(root) else target


def open_external(tensor: onnx_ir.ExternalTensor) -> IO[bytes]:
    """The data file of the tensor. Raises ModelError where it has left the model's folder since it was loaded."""
    path = external_path(f"{tensor.base_dir}", f"{tensor.location}") if tensor.base_dir else Path(tensor.path)
    if path is None:
        raise ModelError(f"tensor {tensor.name!r} keeps its data in {tensor.location!r}, outside the model's folder.")
    return open(path, "rb")


def copy_range(source: FileRange, out: IO[bytes]) -> None:
    """Append the range to `out`: by the kernel where it can, which shares the blocks where the file system can."""
    out.flush()
    start, done = out.tell(), 0
    while done < source.length:
        copied = _by_the_kernel(source, done, out, start)
        if not copied:
            break
        done += copied
    out.seek(start + done)
    while done < source.length:
        chunk = os.pread(source.file.fileno(), min(_CHUNK, source.length - done), source.offset + done)
        if not chunk:
            raise OSError(errno.EIO, "the file that holds the weights has become shorter")
        out.write(chunk)
        done += len(chunk)


def _by_the_kernel(source: FileRange, done: int, out: IO[bytes], start: int) -> int:
    """How many bytes the kernel copied; 0 where it cannot."""
    copy = getattr(os, "copy_file_range", None)
    if copy is None:
        return 0
    length = min(1 << 30, source.length - done)
    try:
        return copy(source.file.fileno(), out.fileno(), length, source.offset + done, start + done)
    except OSError as error:
        if error.errno not in _NOT_BY_THE_KERNEL:
            raise
        return 0
