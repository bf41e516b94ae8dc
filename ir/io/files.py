"""Files that appear under their name complete or not at all.

A file is written as `.NAME.saving` beside its final place, flushed to disk and renamed, under the lock `.NAME.lock`:
the next writer of NAME waits for it. A writer that was killed leaves both behind. The next one takes over its lock, and
removes what is left.
"""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from castsmith.ir.errors import ModelError

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be deleted, which serves as well
    fcntl = None

_PATIENCE = 600.0
"""Seconds to wait for a lock: as long as it takes to write the largest models."""

_PAUSE = 0.02


def destination(path: Path) -> Path:
    """Return the file to write for `path`: `path` itself, or the target of a symbolic link."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ModelError(f"{path}: the file cannot be written, because its symbolic links form a cycle.")
    return target


def lock_of(path: Path) -> Path:
    """Return the lock file of `path`."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of `path`; drafts that a killed writer left are removed first.

    Raises:
        ModelError: Another process holds the lock for a long time.
        OSError: The folder cannot be written to.
    """
    file = lock_of(path)
    opened = _acquire(file, path)
    try:
        _remove_drafts(path)
        yield
    finally:
        if fcntl is None:
            opened.close()
        with suppress(OSError):
            file.unlink()
        opened.close()


def _acquire(file: Path, path: Path) -> IO[bytes]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        opened = _try_lock(file)
        if opened is not None:
            return opened
        if time.monotonic() > deadline:
            raise ModelError(
                f"{path}: another process has been writing this file for {_PATIENCE:.0f} seconds: try again when it is"
                f" done, or delete {file} if there is none."
            )
        time.sleep(_PAUSE)


def _try_lock(file: Path) -> IO[bytes] | None:
    """Make the lock file, or take over that of a process that was killed; None if it belongs to a running one."""
    try:
        opened, is_new = file.open("xb"), True
    except FileExistsError:
        if fcntl is None:
            with suppress(OSError):
                file.unlink()
            return None
        try:
            opened, is_new = file.open("r+b"), False
        except FileNotFoundError:
            return None
    try:
        if fcntl is None or (_is_held(opened, is_new=is_new) and _has_name(opened, file)):
            return opened
    except OSError:
        opened.close()
        if is_new:
            file.unlink()
        raise
    opened.close()
    return None


def _is_held(opened: IO[bytes], *, is_new: bool) -> bool:
    """Take the system's lock on the file, which ends with the process. Some file systems have none."""
    assert fcntl is not None
    try:
        fcntl.flock(opened.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return is_new
    return True


def _has_name(opened: IO[bytes], file: Path) -> bool:
    """True unless the file was deleted before it was locked, or the name is a link."""
    try:
        return os.path.samestat(os.fstat(opened.fileno()), os.lstat(file))
    except FileNotFoundError:
        return False


def draft_of(path: Path, number: int = 0) -> Path:
    """Return the name under which `path`, or a file that goes with it, is written."""
    return path.with_name(f".{path.name}.{f'{number}.' if number else ''}saving")


def _remove_drafts(path: Path) -> None:
    draft_of(path).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        for number in count(1):
            draft_of(path, number).unlink()


@contextmanager
def new_file(path: Path, mode: int) -> Generator[IO[bytes]]:
    """Yield a file to write, which is on disk at the end of the block, or deleted if that fails. mode: Permissions."""
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(path, mode)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def replace(part: Path, path: Path) -> None:
    """Give the file its name, replacing the file that has it. If that fails it is deleted."""
    try:
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    with suppress(OSError):  # Windows cannot open folders
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a file of text, which appears under its name when it is complete. Raises OSError."""
    with locked(path):
        with new_file(draft_of(path), mode_for(path)) as file:
            file.write(text.encode())
        replace(draft_of(path), path)


def mode_for(path: Path) -> int:
    """Return the permissions of the file at `path`, or those of a new file."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o666 & ~umask()


def umask() -> int:
    """Return the permissions that new files and folders of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def free_name(wanted: Path, model: Path) -> Path:
    """Return the first of NAME, NAME.1, NAME.2 ... that is free, and not that of the model; its lock is held."""
    name, number = wanted, 0
    while _is_taken(name) or same_name(name, model):
        number += 1
        name = wanted.with_name(f"{wanted.name}.{number}")
    return name


def _is_taken(name: Path) -> bool:
    """True if a file or link has the name. `os.path.lexists` is false as well where it cannot find out."""
    try:
        name.lstat()
    except FileNotFoundError:
        return False
    return True


def same_name(a: Path, b: Path) -> bool:
    """True if a file system could take the two for the same name: case and Unicode normal form are ignored."""
    left, right = (unicodedata.normalize("NFC", os.path.realpath(path)).casefold() for path in (a, b))
    return left == right
