"""Data files that become unused when a model is saved over another, or when a save is killed.

A data file is deleted only if it is proven that this program made it for the model that is replaced and that
nothing else uses it; otherwise it is kept, and the caller warned. The proof has three parts: a mark on the file, which
a copy or an edited file does not carry; no second hard link; and no file in its folder, or model in a folder above,
that names it. A journal beside the model states what a save is about to do, so that the next one can undo or finish it.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import onnx.serialization

from castsmith.ir.errors import ModelError
from castsmith.ir.io.file_ranges import data_file
from castsmith.ir.io.files import Draft, clear_debris, flush, new_file, publish, unlocked
from castsmith.ir.io.loading import read_proto
from castsmith.ir.io.protos import tensors_of

_MARK = "user.castsmith.made-for"
_JOURNAL = ".journal.saving"
_TO_SEARCH = 1 << 26
"""Size in bytes up to which a model is searched as text."""
_MOST_TO_SEARCH = 1 << 30
"""Bytes of other files that are searched for a name; if there are more, the data file is kept."""


def data_files_of(path: Path) -> set[Path] | None:
    """Return the data files beside the model at `path` that it refers to; None if there is no readable model."""
    if not path.is_file():
        return None
    try:
        proto = read_proto(path)
    except ModelError:
        return None
    found = (data_file(path, location) for location in locations(proto))
    return {file for file in found if file is not None and file.is_file()} - {Path(os.path.realpath(path))}


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


def left_behind(path: Path, files: Iterable[Path]) -> list[Path]:
    """Return the data files of the model at `path` that can be deleted once it is replaced."""
    return sorted(file for file in files if is_provably_unused(file, path))


def mark(file: Path, model: Path) -> None:
    """Mark the data file as made for the model, if the file system can store that."""
    with suppress(OSError, AttributeError):
        os.setxattr(file, _MARK, json.dumps([*_identity(file), model.name]).encode())


def is_provably_unused(file: Path, model: Path) -> bool:
    """True if this program made the data file for the model, and no other file can be using it."""
    try:
        own = _model_of(file) == model.name and os.stat(file).st_nlink == 1
        return own and not file.is_symlink() and file.name.isascii() and not _is_named_elsewhere(file, model)
    except (OSError, ValueError, AttributeError):
        return False


def _model_of(file: Path) -> str | None:
    """Return the name of the model in the mark on the data file; None if it has no mark, or is a copy."""
    try:
        *identity, model = json.loads(os.getxattr(file, _MARK))
    except (OSError, ValueError, AttributeError):
        return None
    return model if identity == _identity(file) else None


def _identity(file: Path) -> list[int]:
    """Return properties that a copy of the file, or another file of the name, does not have."""
    stat = os.stat(file)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns]


def _is_named_elsewhere(file: Path, model: Path) -> bool:
    """True if another file in the data file's folder, or a model in a folder above it, may name the data file."""
    left = _MOST_TO_SEARCH
    for other in _neighbours(file, model):
        if other.is_symlink() and Path(os.path.realpath(other)) == file:
            return True
        if not other.is_file() or not other.stat().st_size or _model_of(other) is not None:
            continue  # a file with a mark holds nothing but weights
        left -= other.stat().st_size
        if left < 0:
            return True
        with open(other, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # A model in a folder above names the folders in between, in one spelling or another.
            if all(content.find(part.encode()) >= 0 for part in file.relative_to(other.parent).parts):
                return True
    return False


def _neighbours(file: Path, model: Path) -> Iterator[Path]:
    """Yield the files that could name `file`: all in the folders from the model's down to its own, and models above."""
    for folder in file.parents:
        inside = folder.is_relative_to(model.parent)
        for entry in os.scandir(folder):
            path = Path(entry.path)
            if path in (file, model) or entry.is_dir() or path.name.endswith(_JOURNAL):
                continue
            if inside or onnx.serialization.registry.get_format_from_file_extension(path.suffix) is not None:
                yield path


@contextmanager
def journal(model: Path, part: Path, published: Sequence[tuple[Draft, Path]], left: list[Path]) -> Generator[None]:
    """Write down what is about to be done, for the next save to undo or finish if this process is killed.

    Args:
        part: The file that will be renamed to `model`.
        published: Data files and their final names.
    """
    if not published and not left:
        yield
        return
    folder = model.parent
    note = {
        "part": [part.name, *_identity(part)],
        "new": [[os.path.relpath(name, folder), *_identity(draft.part)] for draft, name in published],
        "old": [[os.path.relpath(file, folder), *_identity(file)] for file in left],
    }
    with new_file(model, _JOURNAL) as (file, _):
        file.write(json.dumps(note).encode())
        flush(file, 0o600)
        yield


def publish_all(published: Sequence[tuple[Draft, Path]]) -> None:
    """Give each data file its name: all of them or none. Raises FileExistsError if a name was taken meanwhile."""
    for count, (draft, name) in enumerate(published):
        try:
            publish(draft.part, name)
        except BaseException:
            withdraw(published[:count])
            raise


def withdraw(published: Sequence[tuple[Draft, Path]]) -> None:
    """Remove the names of the data files again."""
    for draft, name in published:
        if draft.part.exists():
            name.unlink(missing_ok=True)
        else:
            os.rename(name, draft.part)


def drop(left: list[Path], model: Path) -> set[Path]:
    """Delete the data files of the replaced model that are still provably unused; return those."""
    dropped = {file for file in left if is_provably_unused(file, model)}
    for file in dropped:
        file.unlink(missing_ok=True)
    return dropped


def recover(path: Path, data: Path) -> None:
    """Undo or finish what killed saves of `path` began, and remove the files that they, or those of `data`, left."""
    for noted in unlocked(path, _JOURNAL):
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            _settle(path, json.loads(noted.read_bytes()))
        noted.unlink(missing_ok=True)
    for each in {path, data}:
        clear_debris(each)


def _settle(path: Path, note: dict[str, Any]) -> None:
    folder = path.parent
    part = folder / note["part"][0]
    if _is_same(part, note["part"][1:]):  # not renamed, so no model has ever named the new data files
        for name, *identity in note["new"]:
            if _is_same(folder / name, identity):
                (folder / name).unlink()
        part.unlink()
        return
    in_use = data_files_of(path)
    if in_use is None:
        return
    for name, *identity in note["old"]:
        file = Path(os.path.realpath(folder / name))
        if _is_same(file, identity) and file not in in_use and is_provably_unused(file, path):
            file.unlink()


def _is_same(file: Path, identity: list[int]) -> bool:
    try:
        return not file.is_symlink() and _identity(file) == identity
    except OSError:
        return False
