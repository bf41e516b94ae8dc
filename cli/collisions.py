"""Files that one run would write twice, or write over its inputs: found before any work is done."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from castsmith.cli.streams import STREAM
from castsmith.ir.io.files import same_name
from castsmith.numerics.errors import OptionError


def require_apart(reads: Mapping[str, Iterable[Path | None]], writes: Mapping[str, Iterable[Path | None]]) -> None:
    """Raise OptionError if a file to write is also one of the other files read or written.

    Args:
        reads: The other files by description, such as `the model`; None means no file.
        writes: The files to write by description. Paths that lead to one file, by links or by spelling, are one file.
    """
    read_keys = {key: (description, path) for description, path in _described(reads) for key in _keys(path)}
    for description, path in _described(writes):
        for key in _keys(path):
            if key in read_keys:
                read_description, read_path = read_keys[key]
                raise OptionError(
                    f"{description} {path} would overwrite {read_description} {read_path}: choose another name."
                )


def settings_files(arguments: argparse.Namespace) -> dict[str, list[Path | None]]:
    """Return the files that options name to be read, by description."""
    names = {
        "the target file": getattr(arguments, "target", None),
        "the promotion file": getattr(arguments, "promotion", None),
        "the inputs": getattr(arguments, "inputs", None),
    }
    return {
        description: [None if name is None or name == STREAM else Path(name)] for description, name in names.items()
    }


def require_no_datafile(option: str, path: Path | None, files: Iterable[Path]) -> None:
    """Raise OptionError if the file that an option names to be written is one of these files with weights."""
    if path is not None and any(same_name(path, file) for file in files):
        raise OptionError(f"{option} {path} would overwrite a data file: choose another name.")


def place(path: Path) -> str:
    """Return the key of the place that is written: the name with links resolved."""
    return os.path.normcase(os.path.realpath(path))


def _described(files: Mapping[str, Iterable[Path | None]]) -> list[tuple[str, Path]]:
    return [(description, path) for description, paths in files.items() for path in paths if path is not None]


def _keys(path: Path) -> set[object]:
    """Return the keys of the file: its place, and its identity if it exists, as hard links give it other names."""
    keys: set[object] = {place(path)}
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return keys
    return {*keys, (status.st_dev, status.st_ino)}
