"""Files that appear under their name whole or not at all, and what a killed run leaves behind, cleared away.

A file is written as `.NAME.XXXXXXXX.saving` beside its final place, under a lock that ends with the process, flushed to
disk and then renamed. Such a file without a lock is debris: the next writer of NAME removes it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such locks: debris stays there
    fcntl = None

_SUFFIX = ".saving"
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def new_file(path: Path) -> Generator[tuple[IO[bytes], Path]]:
    """A file to write beside `path`, and its name: gone when the block ends without having renamed it."""
    while True:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX, delete=False
        ) as file:
            part = Path(file.name)
            try:
                with suppress(OSError):
                    _lock(file.file)
                if os.fstat(file.fileno()).st_nlink:  # else it was cleared away before it was locked
                    yield file.file, part
                    return
            finally:
                part.unlink(missing_ok=True)


def flush(file: IO[bytes]) -> None:
    """Bring what was written to disk, with the permissions of an ordinary file."""
    file.flush()
    os.fsync(file.fileno())
    os.chmod(file.name, 0o666 & ~_umask())


def replace(part: Path, path: Path) -> None:
    """Give the file its name, in place of the file that has it."""
    os.replace(part, path)
    _sync_folder(path.parent)


def publish(part: Path, path: Path) -> Path:
    """Give the file the first name of `path`, `path.1`, `path.2` ... that no file has, and return that."""
    count, candidate = 0, path
    while not _renamed(part, candidate):
        count += 1
        candidate = path.with_name(f"{path.name}.{count}")
    _sync_folder(path.parent)
    return candidate


def clear_debris(path: Path) -> None:
    """Remove what killed writers of `path`, or of data files named after it, have left."""
    if fcntl is None:
        return
    for part in path.parent.iterdir():
        if part.name.startswith(f".{path.name}.") and part.suffix == _SUFFIX and part.is_file():
            with suppress(OSError), open(part, "rb") as file:
                _lock(file)
                part.unlink()


def _renamed(part: Path, path: Path) -> bool:
    """Rename to a name that no file has; False where one has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if path.exists():
            return False
        os.rename(part, path)
    else:
        os.unlink(part)
    return True


def _lock(file: IO[bytes]) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
