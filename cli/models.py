"""Models to read, from files or from standard input."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from castsmith.cli.messages import remark
from castsmith.cli.streams import STDIN, STREAM
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import from_bytes, load, load_flawed, load_structure, unloadable
from castsmith.ir.records import Flaw, Site

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx
    import onnx_ir

Source = str | bytes
"""A model to read, any number of times: the path of its file, or the content of standard input."""


def source_of(argument: str) -> Source:
    """Return the model that the argument names. Standard input is read here, to its end."""
    return read_stdin() if argument == STREAM else argument


def read_stdin() -> bytes:
    """Return the content of standard input. Raises ModelError if it cannot be read."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise ModelError(f"{STDIN} cannot be read ({error.strerror}).") from None


def read_model(source: Source, flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Return the model as `castsmith.load` does. The external data of standard input is in the current folder.

    flaws: Takes what is wrong with the model, which is then no error as long as it can be read.
    """
    if isinstance(source, bytes):
        return from_bytes(source, STDIN, flaws)
    return load(source) if flaws is None else load_flawed(source, flaws)


def read_partly(source: Source, flaws: list[Flaw], *, with_data: bool = True) -> onnx_ir.Model | onnx.ModelProto:
    """Return as much of the model as can be read: all of it, all but its data, or only its proto.

    Args:
        source: The model.
        flaws: Takes what is wrong with it.
        with_data: Require its external data.

    Raises:
        ModelError: The source is no model.
    """
    try:
        return read_model(source, flaws) if with_data or isinstance(source, bytes) else load_structure(source, flaws)
    except ModelError as error:
        refusal = error
    name = STDIN if isinstance(source, bytes) else source
    flaws[:] = [Flaw(Site(""), str(refusal).removeprefix(f"{name}: ").rstrip("."))]
    if with_data and isinstance(source, str):
        data_flaws = list[Flaw]()
        with suppress(ModelError):
            model = load_structure(source, data_flaws)
            flaws += data_flaws
            return model
    proto = unloadable(source)
    if proto is None:
        raise refusal
    return proto


def tell_flaws(name: str, flaws: Iterable[Flaw], *, quiet: bool = False) -> None:
    """Print what is wrong with a model that is read all the same, unless quiet."""
    for flaw in dict.fromkeys(flaws):
        remark(f"{name}: {f'{flaw.site}: ' if flaw.site.op else ''}{flaw.text}.", quiet=quiet)


def size_of(source: Source) -> int:
    """Return the bytes of the file or of standard input."""
    return len(source) if isinstance(source, bytes) else os.stat(source).st_size
