"""Data files beside a model, and files that appear under their name complete or not at all.

Every tensor of a page or more begins at a multiple of 64 KiB, so that any system can map it by itself.

A file is written as `.NAME.XXXXXXXX.saving` beside its final place, under a lock that ends with the process, flushed to
disk and then renamed. Such a file without a lock is debris, which the next writer of NAME removes.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import unicodedata
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.io.streaming import write_tensor

try:
    import fcntl
except ImportError:  # Windows has no such locks, so debris stays there
    fcntl = None

_SUFFIX = ".saving"
_RANDOM = r"\.[a-z0-9_]{8}"
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def destination(path: Path) -> Path:
    """Return the file to write for `path`: `path` itself, or the target of a symbolic link."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ModelError(f"{path}: the file cannot be written, because its symbolic links form a cycle.")
    return target


def link_beside(folder: Path, other: Path, files: Iterable[Path], gone: Iterable[Path]) -> None:
    """Make links in `folder` to the data files in the folder `other` of a model to which a link in `folder` leads.

    Programs that open that link look for the data beside it. Links to the files in `gone` are removed. A file that has
    the name of a link already stays as it is.
    """
    links = {file: folder / file.relative_to(other) for file in (*files, *gone) if other in file.parents}
    with suppress(OSError):
        for file in set(gone) & set(links):
            if links[file].is_symlink() and Path(os.path.realpath(links[file])) == file:
                links[file].unlink()
        for file in set(files) & set(links):
            if not os.path.lexists(links[file]):
                links[file].symlink_to(os.path.relpath(file, links[file].parent))


@contextmanager
def new_file(path: Path, suffix: str = _SUFFIX) -> Generator[tuple[IO[bytes], Path]]:
    """Yield a file to write beside `path`, and its name; it is deleted at the end of the block unless renamed."""
    while True:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=suffix, delete=False) as file:
            part = Path(file.name)
            try:
                with suppress(OSError):
                    _lock(file.file)
                if os.fstat(file.fileno()).st_nlink:  # otherwise it was removed before it was locked
                    yield file.file, part
                    return
            finally:
                part.unlink(missing_ok=True)


def flush(file: IO[bytes], mode: int) -> None:
    """Flush the written data to disk, and set the permissions."""
    file.flush()
    os.fsync(file.fileno())
    os.chmod(file.name, mode)


def mode_for(path: Path) -> int:
    """Return the permissions of the file at `path`, or those of a new file."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o666 & ~umask()


def replace(part: Path, path: Path) -> None:
    """Give the file its name, replacing the file that has it."""
    os.replace(part, path)
    _sync_folder(path.parent)


def publish(part: Path, path: Path) -> None:
    """Give the file its name, by renaming if hard links are unsupported.

    Raises:
        FileExistsError: A file has the name already.
    """
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.rename(part, path)
    _sync_folder(path.parent)


def unlocked(path: Path, suffix: str = _SUFFIX) -> Iterator[Path]:
    """Yield the files of killed writers of `path`, or of data files named after it, each under a lock."""
    named = re.compile(re.escape(f".{path.name}") + rf"(\..*)?{_RANDOM}{re.escape(suffix)}", re.DOTALL)
    if fcntl is None or not path.parent.is_dir():
        return
    for part in sorted(path.parent.iterdir()):
        if named.fullmatch(part.name) and part.is_file() and not part.is_symlink():
            with suppress(OSError), open(part, "rb") as file:
                _lock(file)
                yield part


def clear_debris(path: Path) -> None:
    """Remove files left by killed writers of `path`, or of data files named after it."""
    for part in unlocked(path):
        part.unlink(missing_ok=True)


def _lock(file: IO[bytes]) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # Windows cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def umask() -> int:
    """Return the permissions that new files and folders of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


_PAGE = 1 << 12
_MAPPING_UNIT = 1 << 16
_VECTOR = 64


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor and its offset in its data file."""

    tensor: onnx_ir.TensorProtocol
    offset: int


@dataclass(frozen=True)
class Draft:
    """A data file that is written but not yet renamed, and its final name."""

    part: Path
    wanted: Path


def shards_of(tensors: Iterable[onnx_ir.TensorProtocol], limit: int | None) -> list[list[Placed]]:
    """Lay the tensors out in order, in files of at most `limit` bytes or of a single tensor."""
    shards: list[list[Placed]] = [[]]
    end = 0
    for tensor in tensors:
        offset = _aligned(end, tensor.nbytes)
        if limit is not None and offset + tensor.nbytes > limit and shards[-1]:
            shards.append([])
            offset = 0
        shards[-1].append(Placed(tensor, offset))
        end = offset + tensor.nbytes
    return shards


@contextmanager
def drafted_shards(folder: Path, name: str, shards: Sequence[Sequence[Placed]], mode: int) -> Generator[list[Draft]]:
    """Write a data file for each shard, complete and on disk but not yet renamed; deleted at the end unless renamed."""
    drafts: list[Draft] = []
    with ExitStack() as stack:
        for index, shard in enumerate(shards, start=1):
            wanted = folder / (name if len(shards) == 1 else f"{name}-{index:05}-of-{len(shards):05}")
            file, part = stack.enter_context(new_file(wanted))
            for placed in shard:
                file.seek(placed.offset)
                write_tensor(placed.tensor, file)
            flush(file, mode)
            drafts.append(Draft(part, wanted))
        yield drafts


def free_names(drafts: Iterable[Draft], reserved: Path) -> list[Path]:
    """Return for each draft the first of NAME, NAME.1, NAME.2 ... that is neither a file nor `reserved`."""
    names: list[Path] = []
    for draft in drafts:
        count, candidate = 0, draft.wanted
        while os.path.lexists(candidate) or same_name(candidate, reserved):
            count += 1
            candidate = draft.wanted.with_name(f"{draft.wanted.name}.{count}")
        names.append(candidate)
    return names


def same_name(a: Path, b: Path) -> bool:
    """True if a file system could take the two for the same name: case and Unicode normal form are ignored."""
    left, right = (unicodedata.normalize("NFC", os.path.realpath(path)).casefold() for path in (a, b))
    return left == right


def external_tensor(placed: Placed, location: str, name: str) -> onnx_ir.ExternalTensor:
    """Return the tensor as an entry that names its position in the data file at `location`."""
    tensor = placed.tensor
    return onnx_ir.ExternalTensor(
        location,
        placed.offset,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _aligned(offset: int, size: int) -> int:
    unit = _MAPPING_UNIT if size >= _PAGE else _VECTOR
    return -(-offset // unit) * unit
