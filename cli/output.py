"""Where results go: checked before the work starts, and under their final name only once they are whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from castsmith.ir.errors import ModelError


def require_writable(path: Path) -> None:
    """Raise ModelError where nothing can be written to `path`, so that nobody waits for work that is then lost."""
    if path.is_dir():
        raise ModelError(f"{path}: this is a folder, so no file can be written there.")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: this is not an ordinary file, so it is not replaced.")
    folder = path.parent
    if not folder.is_dir():
        raise ModelError(f"{path}: the file cannot be written, because there is no folder {folder}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ModelError(f"{path}: the file cannot be written, because the folder {folder} is read-only.")


@contextmanager
def staged_file(path: Path | None) -> Generator[Callable[[str], None]]:
    """A function that writes text to a new file beside `path`, which gets its name when the block ends well.

    Without a path the text goes nowhere.
    """
    if path is None:
        yield _discard
        return
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield lambda text: _write(path, file, text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _discard(text: str) -> None:
    del text


def _write(path: Path, file: TextIO, text: str) -> None:
    try:
        file.write(text)
        file.flush()
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
