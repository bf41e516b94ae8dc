"""Output files: checked before the work starts, and under their final name only when complete."""

from __future__ import annotations

import os
from pathlib import Path

from castsmith.ir.errors import ModelError
from castsmith.ir.io.files import destination, write_text
from castsmith.numerics.errors import OptionError


def require_writable(path: Path) -> None:
    """Raise ModelError if `path` cannot be written, before any work is done."""
    if path.is_dir():
        raise ModelError(f"{path}: a folder, expected a file.")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: not an ordinary file, so it is not replaced.")
    folder = destination(path).parent
    if not folder.is_dir():
        raise ModelError(f"{path}: the file cannot be written, because the folder {folder} does not exist.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ModelError(f"{path}: the file cannot be written, because the folder {folder} is read-only.")


def is_html(path: Path) -> bool:
    """True if the report of this name is a page."""
    return path.suffix.lower() in (".html", ".htm")


def require_report(path: Path) -> None:
    """Raise OptionError if the name of a report does not say whether it is JSON or a page."""
    if not is_html(path) and path.suffix.lower() != ".json":
        raise OptionError(f"--report {path}: the name must end in .json or .html.")


def write_file(path: Path, text: str) -> None:
    """Write the text to a file, which appears under its name when it is complete. Raises ModelError."""
    try:
        write_text(destination(path), text)
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None
