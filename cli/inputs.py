"""Inputs on which models are run, the sizes of their dimensions, and names that the models have to have."""

from __future__ import annotations

import argparse
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from castsmith.cli.batch.inputs import models_of
from castsmith.cli.models import read_stdin
from castsmith.cli.streams import STREAM
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import load_structure
from castsmith.numerics.errors import OptionError


def given_inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `add_inputs` parsed, as options of `castsmith.verify`."""
    inputs = None if arguments.inputs is None else list(read_inputs(arguments.inputs))
    return {"dims": _sizes(arguments), "inputs": inputs}


def _sizes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the sizes of dimensions and the shapes of inputs, by name."""
    return {**dict(map(_dimension, arguments.dim)), **dict(map(_shape, arguments.shape))}


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, shape = text.rpartition("=")
    if not name or not re.fullmatch("(|[0-9]{1,18}(x[0-9]{1,18})*)", shape):
        raise OptionError(f"--shape {text} is not of the form NAME=SIZExSIZE, such as tokens=1x512.")
    return name, tuple(map(int, shape.split("x"))) if shape else ()


def _dimension(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not re.fullmatch("[0-9]{1,18}", size):
        raise OptionError(f"--dim {text} is not of the form NAME=SIZE, such as batch=4.")
    return name, int(size)


def inputs_to_measure_on(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `add_inputs` parsed, as options of `castsmith.convert`; a folder stays a path."""
    if os.path.isdir(arguments.inputs or ""):
        return {"dims": _sizes(arguments), "inputs": arguments.inputs}
    return given_inputs(arguments)


def given_ranges(arguments: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Return the options --range by name. Raises OptionError for text of another form."""
    return dict(map(_range, arguments.range))


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    low, _, high = ends.partition(":")
    try:
        numbers = float(low), float(high)
    except ValueError:
        numbers = math.nan, math.nan
    if not name or not all(map(math.isfinite, numbers)) or numbers[0] > numbers[1]:
        raise OptionError(f"invalid --range {text}; expected NAME=LOW:HIGH, such as pixels=0:1.")
    return name, numbers


def require_names(arguments: argparse.Namespace, models: Iterable[onnx_ir.Model]) -> None:
    """Raise OptionError if an option names what none of the models has, which are read until each name is found."""
    if arguments.outcome is not None:  # of many models each has some
        return
    accepted = {*getattr(arguments, "allow_type_change", ())} - {"all"}
    rows = (
        ("--dim", "dimension", {*dict(map(_dimension, arguments.dim))}, set[str]()),
        ("--shape", "input", {*dict(map(_shape, arguments.shape))}, set[str]()),
        ("--allow-type-change", "input or output", accepted, set[str]()),
    )
    for model in models if any(names for _, _, names, _ in rows) else ():
        ports = {value.name or "" for value in (*model.graph.inputs, *model.graph.outputs)}
        inputs = {value.name or "" for value in model.graph.inputs}
        for (_, _, _, present), found in zip(rows, (_dimensions(model), inputs, ports), strict=True):
            present |= found
        if all(names <= present for _, _, names, present in rows):
            return
    for option, noun, names, present in rows:
        for name in sorted(names - present):
            raise OptionError(f"{option} {name}: {_unknown(noun, present)}.")


def structures(words: Sequence[str], outside: Path | None = None) -> Iterator[onnx_ir.Model]:
    """Yield the models that the arguments name, without those that cannot be read: their run reports them."""
    for file, _ in models_of(words, outside=outside):
        with suppress(ModelError):
            yield load_structure(file)


def _dimensions(model: onnx_ir.Model) -> set[str]:
    shapes = [value.shape for value in model.graph.inputs if value.shape is not None]
    return {dim.value for shape in shapes for dim in shape if not isinstance(dim, int) and dim.value}


def _unknown(noun: str, names_in_models: set[str]) -> str:
    more = f" and {len(names_in_models) - _NAMED} more" if len(names_in_models) > _NAMED else ""
    names = ", ".join(sorted(names_in_models)[:_NAMED]) + more
    return f"unknown {noun}; expected {names}" if names_in_models else f"unknown {noun}; the model has none with a name"


_NAMED = 8


def read_inputs(path: str) -> Iterator[tuple[str, dict[str, np.ndarray[Any, Any]]]]:
    """Yield the sets of inputs in a file, a folder or standard input, as `castsmith.verify` reads them."""
    from castsmith.verification.inputs.given import stored_sets  # imports what proves and compares

    return stored_sets(io.BytesIO(read_stdin()) if path == STREAM else path)
