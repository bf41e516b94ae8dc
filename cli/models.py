"""The models that arguments name: files, or `-` for standard input and standard output."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir

STREAM = "-"
"""Standard input or output, instead of a file; a file of that name is `./-`."""

STDIN, STDOUT = "standard input", "standard output"

Source = str | bytes
"""A model to read, any number of times: the path of its file, or the content of standard input."""


def shown(argument: str) -> str:
    """Return the name of the argument's file for messages."""
    return STDIN if argument == STREAM else argument


def require_one_stdin(arguments: Iterable[str | None]) -> None:
    """Raise OptionError if several arguments mean standard input, which can be read only once."""
    from castsmith.numerics.errors import OptionError

    if list(arguments).count(STREAM) > 1:
        raise OptionError("- means standard input, which can be read only once: name files for the others.")


def source_of(argument: str) -> Source:
    """Return the model that the argument names. Standard input is read here, to its end."""
    return read_stdin() if argument == STREAM else argument


def read_stdin() -> bytes:
    """Return the content of standard input. Raises ModelError if it cannot be read."""
    from castsmith.ir.errors import ModelError

    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise ModelError(f"{STDIN} cannot be read ({error.strerror}).") from None


def read_model(source: Source) -> onnx_ir.Model:
    """Return the model as `castsmith.load` does. The external data of standard input is in the current folder."""
    from castsmith.ir.io.loading import from_bytes, load

    return from_bytes(source, STDIN) if isinstance(source, bytes) else load(source)


def size_of(source: Source) -> int:
    """Return the bytes of the file or of standard input."""
    return len(source) if isinstance(source, bytes) else os.stat(source).st_size


def require_redirected() -> None:
    """Raise OptionError if standard output is a terminal."""
    from castsmith.numerics.errors import OptionError

    if sys.stdout.isatty():
        raise OptionError("-o - writes the model to standard output, which is a terminal: redirect it or name a file.")


def write_model(model: onnx_ir.Model) -> int:
    """Write the model with its weights to standard output, and return the number of bytes.

    A temporary file is written first: an error until then leaves standard output empty.
    """
    from castsmith.ir.errors import ModelError
    from castsmith.ir.io.saving import write_to

    with tempfile.TemporaryFile() as whole:
        try:
            size = write_to(model, whole, STDOUT)
            whole.seek(0)
        except OSError as error:
            raise ModelError(f"{STDOUT}: no temporary file of the model can be written ({error.strerror}).") from None
        shutil.copyfileobj(whole, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return size
