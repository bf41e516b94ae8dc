"""Standard input and standard output, which an argument names as `-`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from castsmith.numerics.errors import OptionError

STREAM = "-"
"""Standard input or output, instead of a file; a file of that name is `./-`."""

STDIN, STDOUT = "standard input", "standard output"


def shown(argument: str) -> str:
    """Return the name of the argument's file for messages."""
    return STDIN if argument == STREAM else argument


def require_one_stdin(arguments: Iterable[str | None]) -> None:
    """Raise OptionError if several arguments mean standard input, which can be read only once."""
    if list(arguments).count(STREAM) > 1:
        raise OptionError("- means standard input, which can be read only once: name files for the others.")


def require_redirected() -> None:
    """Raise OptionError if standard output is a terminal."""
    if sys.stdout.isatty():
        raise OptionError("-o - writes the model to standard output, which is a terminal: redirect it or name a file.")
