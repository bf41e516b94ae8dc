"""Tensors whose bytes stay in a file: the data files of a model, or the model file itself.

A file is opened when the model is loaded and mapped once. What is read is the content of that file, even if another
file takes its name, or it is deleted.
"""

from __future__ import annotations

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

_AROUND = 4 << 20
"""Bytes before those that are dropped from memory which the kernel may have mapped again with a neighbour's pages."""
_CHUNK = 1 << 24
"""Bytes that are copied at once."""


class DataFile:
    """A file that holds tensors.

    Attributes:
        path: The file, links resolved.
        stays_open: Keep the file open. An open file is a limited resource, so a model with many data files opens each
            only while it is read.
    """

    def __init__(self, path: Path, *, stays_open: bool = True) -> None:
        self.path, self.stays_open = path, stays_open
        self._identity = identity(path)
        self._mapping = self._mapped() if stays_open else None

    @property
    def is_in_place(self) -> bool:
        """True if the file still has its name, and was not changed."""
        return identity(self.path) == self._identity

    def view(self, offset: int, length: int) -> memoryview:
        """Return bytes of the file, which are read when they are used.

        Raises:
            ModelError: The file was changed after the model was loaded.
        """
        if not length:
            return memoryview(b"")
        mapping = self._mapped() if self._mapping is None else self._mapping
        if mapping is None or mapping.size() < offset + length:
            raise ModelError(f"{self.path}: the file was changed while it was in use: load the model again.")
        return memoryview(mapping)[offset : offset + length]

    def release(self, offset: int, length: int) -> None:
        """Drop the pages from the memory of the process: they are read again if needed."""
        if self._mapping is not None and length and hasattr(mmap, "MADV_DONTNEED"):
            first = max(0, offset - _AROUND) // mmap.PAGESIZE * mmap.PAGESIZE
            self._mapping.madvise(mmap.MADV_DONTNEED, first, offset + length - first)

    def _mapped(self) -> mmap.mmap | None:
        """Return the content of the file; None if it is empty, or another file by now."""
        try:
            with self.path.open("rb") as file:
                present = identity(file.fileno())
                changed = present != self._identity or os.path.realpath(self.path) != str(self.path)
                return None if changed or not present[2] else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ModelError(f"{self.path}: the file cannot be read ({error.strerror}).") from None


def identity(file: str | os.PathLike[str] | int) -> tuple[int, int, int, int]:
    """Return what tells the file, in its present state, from all others; zeros if there is none."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return 0, 0, 0, 0
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, eq=False)
class Range:
    """Bytes of a file that hold a tensor."""

    file: DataFile
    offset: int
    length: int

    @property
    def bytes(self) -> memoryview:
        return self.file.view(self.offset, self.length)

    def array(self, dtype: onnx_ir.DataType, shape: Sequence[int]) -> Array:
        """Return the elements, as a view of the file where their type has 8 bits or more."""
        if dtype.bitwidth < 8:
            packed = np.frombuffer(self.bytes, np.uint8)
            return onnx_ir.PackedTensor(packed, dtype, shape=onnx_ir.Shape(shape)).numpy()
        return np.frombuffer(self.bytes, dtype.numpy().newbyteorder("<")).reshape(shape)

    def copy_to(self, out: IO[bytes]) -> None:
        """Append the bytes to the file."""
        for start in range(0, self.length, _CHUNK):
            part = Range(self.file, self.offset + start, min(_CHUNK, self.length - start))
            out.write(part.bytes)
            part.release()

    def release(self) -> None:
        """Drop the bytes from the memory of the process."""
        self.file.release(self.offset, self.length)


class StoredTensor(onnx_ir.ExternalTensor):
    """External data in a file that was found, checked and opened when the model was loaded.

    onnx_ir does not read files with several hard links, nor those that a symbolic link outside the folder leads to; the
    caches of model hubs consist of such files. `data_path` decides which of them are allowed.
    """

    def __init__(
        self,
        stored: onnx_ir.ExternalTensor,
        file: DataFile,
        dtype: onnx_ir.DataType | None = None,
        shape: onnx_ir.Shape | None = None,
    ) -> None:
        super().__init__(
            stored.location,
            stored.offset,
            stored.length,
            dtype or stored.dtype,
            shape=stored.shape if shape is None else shape,
            name=stored.name,
            doc_string=stored.doc_string,
            metadata_props=dict(stored.metadata_props),
            base_dir=stored.base_dir,
        )
        self.range = Range(file, stored.offset or 0, self.nbytes)

    @property
    def path(self) -> str:
        return str(self.range.file.path)

    def numpy(self) -> Array:
        return self.range.array(self.dtype, self.shape.numpy())

    def __array__(self, dtype: Any = None) -> Array:
        return self.numpy().__array__(dtype)

    def tobytes(self) -> bytes:
        return bytes(self.range.bytes)

    def tofile(self, file: Any) -> None:
        self.range.copy_to(file)


class FileTensor(onnx_ir.LazyTensor):
    """A weight in the model file itself, which was too large to be read when the model was loaded."""

    def __init__(
        self,
        range: Range,
        stored: onnx_ir.TensorProtocol,
        dtype: onnx_ir.DataType | None = None,
        shape: onnx_ir.Shape | None = None,
    ) -> None:
        texts: dict[str, Any] = {"name": stored.name, "doc_string": stored.doc_string}
        shape = onnx_ir.Shape(stored.shape.numpy()) if shape is None else shape
        super().__init__(self._view, dtype or stored.dtype, shape, **texts, metadata_props=dict(stored.metadata_props))
        self.range = range

    def _view(self) -> onnx_ir.TensorProtocol:
        return onnx_ir.Tensor(self.range.array(self.dtype, self.shape.numpy()), self.dtype, shape=self.shape)

    def tofile(self, file: Any) -> None:
        self.range.copy_to(file)


def range_of(tensor: onnx_ir.TensorProtocol) -> Range | None:
    """Return the range of a file that holds the tensor; None for a tensor in memory."""
    if isinstance(tensor, StoredTensor | FileTensor):
        return tensor.range
    return opened(tensor).range if isinstance(tensor, onnx_ir.ExternalTensor) else None


def relabelled(
    tensor: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType, shape: onnx_ir.Shape | None = None
) -> onnx_ir.TensorProtocol | None:
    """Return the same bytes as elements of another type, and another shape, without reading them.

    Returns:
        A tensor of as many bytes; None if they are not in a file.
    """
    if isinstance(tensor, onnx_ir.ExternalTensor):
        stored = opened(tensor)
        return StoredTensor(stored, stored.range.file, dtype, shape)
    if isinstance(tensor, FileTensor):
        return FileTensor(tensor.range, tensor, dtype, shape)
    return None


def release_pages(tensor: onnx_ir.TensorProtocol) -> None:
    """Drop the pages of a tensor in a file from the memory of the process: they are read again if needed.

    A process that reads all weights of a model, one after the other, then holds one of them at a time.
    """
    if isinstance(tensor, StoredTensor | FileTensor):
        tensor.range.release()


def file_of(tensor: onnx_ir.ExternalTensor) -> Path:
    """Return the data file of the tensor, links resolved."""
    return Path(os.path.realpath(tensor.path))


def opened(tensor: onnx_ir.ExternalTensor) -> StoredTensor:
    """Return the tensor as one whose file was found and checked; a tensor of onnx_ir keeps no file open.

    Raises:
        ModelError: The file is missing, too short or outside the model's folder.
    """
    if isinstance(tensor, StoredTensor):
        return tensor
    folder = f"{tensor.base_dir}"
    path = inside(Path(folder), f"{tensor.location}") if folder else file_of(tensor)
    return StoredTensor(tensor, DataFile(checked(f"tensor {tensor.name!r}", tensor, path), stays_open=False))


def checked(what: str, tensor: onnx_ir.ExternalTensor, path: Path | None) -> Path:
    """Return the file of the tensor; None is a file outside the folder. what: The tensor, in errors.

    Raises:
        ModelError: The file does not hold the tensor.
    """
    place = f"{tensor.location}"
    if tensor.dtype == onnx_ir.DataType.STRING:
        raise ModelError(f"{what} keeps strings in a data file, which ONNX does not allow.")
    if path is None:
        raise ModelError(f"{what} keeps its data in {place!r}, which is outside the model's folder.")
    if not os.path.isfile(path):  # and not too long a name either
        raise ModelError(f"{what} keeps its data in {place!r}, which is missing.")
    needed, offset, size = tensor.nbytes, tensor.offset or 0, identity(path)[2]
    if tensor.length is not None and tensor.length != needed:
        raise ModelError(f"{what} needs {needed} bytes for its shape, but its entry says {tensor.length}.")
    if offset < 0 or offset + needed > size:
        raise ModelError(f"{what} needs {needed} bytes at offset {offset} of {place!r}, which has only {size}.")
    return path


def inside(folder: Path, location: str, *, allowed: Sequence[Path] = ()) -> Path | None:
    """Return the file that `location` names in the folder; None if it is outside, symbolic links resolved.

    Args:
        folder: The folder of the model.
        location: The entry of a tensor.
        allowed: Further folders to which links may lead.
    """
    if os.path.isabs(location) or "\0" in location:
        return None
    root = Path(os.path.realpath(folder))
    if ".." in Path(location).parts and not Path(os.path.normpath(root / location)).is_relative_to(root):
        return None
    target = Path(os.path.realpath(root / location))
    return target if any(target.is_relative_to(place) for place in (root, *allowed)) else None


def data_path(model: Path, location: str) -> Path | None:
    """Return the file in which the model at `model` keeps data under `location`; None if it is outside the folder.

    A model that is a symbolic link, as in the caches of model hubs, has two folders: that of the link and that of the
    file. Data is searched for in both, in that order, and links between them are allowed.
    """
    folders = [model.parent]
    if model.is_symlink():  # which costs less than the path of each model, asked for each tensor
        folders.append(Path(os.path.realpath(model)).parent)
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    holding = next((folder for folder in folders if os.path.lexists(folder / location)), folders[0])
    return inside(holding, location, allowed=roots)
