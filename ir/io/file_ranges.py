"""Tensors whose bytes are in an open file: memory-mapped when read, copied as ranges when saved.

The file stays open, so the content read is that of the file that was loaded, even if another file takes its name.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.errors import ModelError

Array = NDArray[Any]

_RANGE = "castsmith.range"
_CHUNK = 1 << 24
_NOT_BY_THE_KERNEL = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)


@dataclass(frozen=True, eq=False)
class FileRange:
    """`length` bytes at `offset` of an open file."""

    file: IO[bytes]
    offset: int
    length: int


class StoredTensor(onnx_ir.ExternalTensor):
    """External data in a file that was found and checked when the model was loaded.

    onnx_ir does not read files with several hard links, nor those that a symbolic link outside the folder leads to; the
    caches of model hubs consist of such files. `external_path` decides which of them are allowed.
    """

    def __init__(
        self, stored: onnx_ir.ExternalTensor, file: Path, dtype: onnx_ir.DataType, shape: onnx_ir.Shape
    ) -> None:
        super().__init__(
            stored.location,
            stored.offset,
            stored.length,
            dtype,
            shape=shape,
            name=stored.name,
            doc_string=stored.doc_string,
            metadata_props=dict(stored.metadata_props),
            base_dir=stored.base_dir,
        )
        self.file = file
        self._view: onnx_ir.TensorProtocol | None = None

    @property
    def path(self) -> str:
        return str(self.file)

    def numpy(self) -> Array:
        return self._mapped().numpy()

    def __array__(self, dtype: Any = None) -> Array:
        return self._mapped().numpy().__array__(dtype)

    def tobytes(self) -> bytes:
        return self._mapped().tobytes()

    def tofile(self, file: Any) -> None:
        with open_external(self) as source:
            copy_range(FileRange(source, self.offset or 0, self.nbytes), file)

    @property
    def is_mapped(self) -> bool:
        """True once the elements were asked for as a whole."""
        return self._view is not None

    def _mapped(self) -> onnx_ir.TensorProtocol:
        if self._view is None and self.size:
            with open_external(self) as file:
                self._view = mapped_tensor(file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), self)
            self._view.meta.pop(_RANGE)  # of a file that is closed
        elif self._view is None:
            self._view = onnx_ir.Tensor(np.zeros(self.shape.numpy(), self.dtype.numpy()), self.dtype, name=self.name)
        return self._view


def mapped_tensor(file: IO[bytes], mapping: mmap.mmap, stored: onnx_ir.ExternalTensor) -> onnx_ir.TensorProtocol:
    """Return the tensor that `stored` describes, as a view of `mapping`, which maps the whole of `file`."""
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
    """Return the range of an open file that holds the tensor; None for any other tensor, including ExternalTensor."""
    return tensor.meta.get(_RANGE)


def release_pages(tensor: onnx_ir.TensorProtocol) -> None:
    """Drop the pages of a memory-mapped tensor from the memory of the process: they are read again if needed.

    A process that reads all weights of a model, one after the other, then holds one of them at a time.
    """
    if isinstance(tensor, StoredTensor) and not tensor.is_mapped:
        return
    base: Any = tensor.numpy()
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None) if hasattr(base, "base") else getattr(base, "obj", None)
    place = range_of(tensor)
    start = place.offset if place is not None else getattr(tensor, "offset", None) or 0
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first = start - start % mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, start + tensor.nbytes - first)


def relabelled(tensor: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType) -> onnx_ir.TensorProtocol | None:
    """Return the same bytes as elements of another type of 8 bits or more, without reading them.

    Returns:
        A tensor of as many elements; None if the bytes are not in a file.
    """
    place, shape = range_of(tensor), onnx_ir.Shape(tensor.shape.numpy())
    if isinstance(tensor, onnx_ir.ExternalTensor):
        made: onnx_ir.TensorProtocol = stored_as(tensor, dtype, shape)
    elif place is None:
        return None
    else:
        array = tensor.numpy().view(dtype.numpy())
        made = onnx_ir.Tensor(array, dtype, shape=shape, name=tensor.name, doc_string=tensor.doc_string)
        made.meta[_RANGE] = place
    made.metadata_props.update(tensor.metadata_props)
    return made


def file_of(tensor: onnx_ir.ExternalTensor) -> Path:
    """Return the data file of the tensor, links resolved."""
    return tensor.file if isinstance(tensor, StoredTensor) else Path(os.path.realpath(tensor.path))


def stored_as(tensor: onnx_ir.ExternalTensor, dtype: onnx_ir.DataType, shape: onnx_ir.Shape) -> onnx_ir.ExternalTensor:
    """Return the same bytes of the same data file as elements of another type and shape."""
    return StoredTensor(tensor, file_of(tensor), dtype, shape)


def external_path(folder: str | os.PathLike[str], location: str, *, allowed: Sequence[Path] = ()) -> Path | None:
    """Return the file that `location` names in the folder; None if it is outside, symbolic links resolved.

    Args:
        allowed: Further folders to which links may lead.
    """
    if os.path.isabs(location) or "\0" in location:
        return None
    root = Path(os.path.realpath(folder))
    if ".." in Path(location).parts and not Path(os.path.normpath(root / location)).is_relative_to(root):
        return None
    target = Path(os.path.realpath(root / location))
    return target if any(target.is_relative_to(each) for each in (root, *allowed)) else None


def data_file(model: Path, location: str) -> Path | None:
    """Return the file in which the model at `model` keeps data under `location`; None if it is outside the folder.

    A model that is a symbolic link, as in the caches of model hubs, has two folders: that of the link and that of the
    file. Data is searched for in both, in that order, and links between them are allowed.
    """
    folders = [model.parent]
    if model.is_symlink():
        folders.append(Path(os.path.realpath(model)).parent)
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    holding = next((folder for folder in folders if os.path.lexists(folder / location)), folders[0])
    return external_path(holding, location, allowed=roots)


def open_external(tensor: onnx_ir.ExternalTensor) -> IO[bytes]:
    """Open the data file of the tensor.

    Raises:
        ModelError: The file is no longer in the model's folder.
    """
    if isinstance(tensor, StoredTensor):
        path = tensor.file if Path(os.path.realpath(tensor.file)) == tensor.file else None
    else:
        path = external_path(f"{tensor.base_dir}", f"{tensor.location}") if tensor.base_dir else Path(tensor.path)
    if path is None:
        raise ModelError(f"tensor {tensor.name!r} keeps its data in {tensor.location!r}, outside the model's folder.")
    return open(path, "rb")


def copy_range(source: FileRange, out: IO[bytes]) -> None:
    """Append the range to `out`; the kernel copies it if possible, sharing blocks if the file system supports it."""
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
    """Return the number of bytes that the kernel copied; 0 if it cannot copy."""
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
