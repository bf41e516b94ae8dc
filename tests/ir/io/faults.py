"""Calls of the system that fail, or at which the process dies: the n-th of all that a block makes."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_OF_OS = (
    "open", "replace", "rename", "unlink", "remove", "fsync", "chmod", "link", "symlink", "mkdir", "utime", "scandir",
    "stat", "lstat", "fstat", "truncate",
)  # fmt: skip
_OF_FILES = frozenset({"write", "flush", "truncate", "seek", "read", "readinto"})


def fail(name: str) -> None:
    """Raise the error of a disk without space."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def die(_name: str) -> None:
    """End the process, as a signal would."""
    os._exit(9)


@dataclass
class Calls:
    """The calls of a block, by name."""

    names: list[str] = field(default_factory=list[str])


class _File:
    """A file whose methods are calls."""

    def __init__(self, file: Any, made: Callable[[str], None]) -> None:
        self._file, self._made = file, made

    def __getattr__(self, name: str) -> Any:
        if name in _OF_FILES:
            self._made(f"file.{name}")
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._made("file.close")
        self._file.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._file)


@contextmanager
def failing(number: int | None, how: Callable[[str], None] = fail) -> Generator[Calls]:
    """Within the block, let the call of this number do that instead; None lets all succeed. Yields the calls."""
    calls = Calls()

    def made(name: str) -> None:
        calls.names.append(name)
        if len(calls.names) - 1 == number:
            how(name)

    def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            made(name)
            return function(*arguments, **settings)

        return call

    def opening(*arguments: Any, **settings: Any) -> Any:
        made("open")
        return _File(original_open(*arguments, **settings), made)

    original_open, originals = io.open, {name: getattr(os, name) for name in _OF_OS}
    try:
        for name, function in originals.items():
            setattr(os, name, wrapped(f"os.{name}", function))
        builtins.open = io.open = opening
        yield calls
    finally:
        builtins.open = io.open = original_open
        for name, function in originals.items():
            setattr(os, name, function)
