"""Data files that become unused when a model is saved over another.

Such a file is deleted only if the new weights would have its name, as any program would overwrite it, and if nothing
else uses it: it has no second hard link, and no file in its folder, or model in a folder above, names it. Otherwise it
is kept, and the caller warned.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import onnx

from castsmith.ir.errors import ModelError
from castsmith.ir.io.files import lock_of
from castsmith.ir.io.loading import read_proto
from castsmith.ir.io.protos import is_model_name, tensors_of
from castsmith.ir.io.stored import data_path

_TO_SEARCH = 1 << 26
"""Size in bytes up to which a model is searched as text."""
_MOST_TO_SEARCH = 1 << 30
"""Bytes of other files that are searched for a name; if there are more, the data file is kept."""


def data_files_of(path: Path) -> set[Path]:
    """Return the data files beside the model at `path` that it refers to; none if there is no readable model."""
    if not path.is_file():
        return set()
    try:
        proto = read_proto(path)
    except ModelError:
        return set()
    files = (data_path(path, location) for location in locations(proto))
    return {file for file in files if file is not None and file.is_file()} - {Path(os.path.realpath(path))}


def locations(proto: onnx.ModelProto) -> set[str]:
    """Return the names under which the tensors of the model keep external data."""
    # A search is quicker than a walk through all messages, and most models have no external data.
    data = proto.SerializeToString()
    if len(data) <= _TO_SEARCH and b"location" not in data:
        return set()
    return {
        entry.value
        for tensor in tensors_of(proto)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }


def drop(files: set[Path], model: Path, wanted: Path) -> set[Path]:
    """Delete those of the files, which the model at `model` does not need, that are unused; return them.

    Args:
        files: Data files of the replaced model.
        model: The model that was written.
        wanted: The name that its data file has, or would have.
    """
    numbered = re.compile(re.escape(wanted.name) + r"(-\d{5}-of-\d{5})?(\.\d+)?")
    old = {file for file in files if file.parent == wanted.parent and numbered.fullmatch(file.name)}
    dropped = set[Path]()
    if old:
        passed_over = {model, lock_of(model), *files, *data_files_of(model)}
        for file in old:
            if not _is_used(file, model.parent, passed_over):
                with suppress(OSError):  # on Windows, of a file that a process has open
                    file.unlink()
                    dropped.add(file)
    return dropped


def _is_used(file: Path, folder: Path, passed_over: set[Path]) -> bool:
    """True if a file in the data file's folder, or a model in a folder above it, may name the data file."""
    try:
        if file.is_symlink() or file.stat().st_nlink > 1 or not file.name.isascii():
            return True
        left = _MOST_TO_SEARCH
        for other in _neighbours(file, folder):
            if other in passed_over:
                continue
            if other.is_symlink() and Path(os.path.realpath(other)) == file:
                return True
            left -= other.stat().st_size
            if left < 0 or _names(other, file):
                return True
    except OSError:
        return True
    return False


def _names(other: Path, file: Path) -> bool:
    """True if the name of the data file, and of the folders on the way to it, are in the other file."""
    if not other.is_file() or not other.stat().st_size:
        return False
    with other.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return all(content.find(part.encode()) >= 0 for part in file.relative_to(other.parent).parts)


def _neighbours(file: Path, folder: Path) -> Iterator[Path]:
    """Yield the files that could name `file`: all in the folders from `folder` down to its own, and models above."""
    for parent in file.parents:
        inside = parent.is_relative_to(folder)
        for entry in os.scandir(parent):
            path = Path(entry.path)
            if not entry.is_dir() and (inside or is_model_name(path)):
                yield path
