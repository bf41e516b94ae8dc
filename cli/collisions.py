"""Files that one run would write twice, or write over what it reads: found before any work is done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


def require_apart(others: Mapping[str, Iterable[Path | None]], writes: Mapping[str, Iterable[Path | None]]) -> None:
    """Raise OptionError where a file to write is one of the others, which are read or written elsewhere.

    others, writes: the files by what they are, such as `the model`; None stands for no file. Paths that lead to one
    file, by links or by spelling, are one file.
    """
    from castsmith.lowering.registry import OptionError

    seen = {key: (what, path) for what, path in _named(others) for key in _keys(path)}
    for what, path in _named(writes):
        for key in _keys(path):
            if key in seen:
                other, where = seen[key]
                raise OptionError(f"{what} {path} would overwrite {other} {where}: give it a name of its own.")


def settings_files(target: str | None, promotion: str | None) -> dict[str, list[Path | None]]:
    """The files that options name as settings, by what they are."""
    return {
        "the target file": [None if target is None else Path(target)],
        "the promotion file": [None if promotion is None else Path(promotion)],
    }


def place(path: Path) -> str:
    """What identifies the place that is written: the name with links followed."""
    return os.path.normcase(os.path.realpath(path))


def _named(files: Mapping[str, Iterable[Path | None]]) -> list[tuple[str, Path]]:
    return [(what, path) for what, paths in files.items() for path in paths if path is not None]


def _keys(path: Path) -> set[object]:
    """What identifies the file: its place, and itself where it is there, as it may have other names (hard links)."""
    keys: set[object] = {place(path)}
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return keys
    return {*keys, (found.st_dev, found.st_ino)}
