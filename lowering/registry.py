"""The passes by name, in the order in which `optimize` runs them, and the text form of one with its options."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.errors import OptionError
from castsmith.lowering.float8 import LowerFloat8
from castsmith.lowering.quant import LowerQuant
from castsmith.lowering.trunc import LowerTrunc
from castsmith.lowering.version import LegalizeVersion
from castsmith.numerics.types import parse_type
from castsmith.passes.fold_constants import FoldConstants
from castsmith.passes.insert_promote_types import InsertPromoteTypes
from castsmith.passes.place_casts import PlaceCasts
from castsmith.passes.resolve_promote_types import ResolvePromoteTypes
from castsmith.passes.simplify_casts import SimplifyCasts

PASSES: dict[str, type[onnx_ir.passes.InPlacePass]] = {
    "insert-promote-types": InsertPromoteTypes,
    "resolve-promote-types": ResolvePromoteTypes,
    "fold-constants": FoldConstants,
    "simplify-casts": SimplifyCasts,
    "place-casts": PlaceCasts,
    "lower-trunc": LowerTrunc,
    "lower-quant": LowerQuant,
    "lower-float8": LowerFloat8,
    "legalize-version": LegalizeVersion,
}
"""Every pass, in the order of the pipeline."""

_AGAIN = {"place-casts": "simplify-casts"}
"""Passes after which an earlier one has more to do: a cast that was moved may now stand where nobody sees it."""

PIPELINE: tuple[str, ...] = tuple(name for first in PASSES for name in (first, _AGAIN.get(first)) if name is not None)
"""The passes that `optimize` runs, in order."""

_SPEC = re.compile(r"(?P<name>[a-z0-9-]+)(\{(?P<options>[^{}]*)\})?")


def needs_target(name: str) -> bool:
    """Whether the pass works towards a target and cannot run without one."""
    return any(field.name == "target" for field in _fields(name))


def option_names(name: str) -> list[str]:
    """The options that the text form of the pass takes."""
    return [field.name for field in _fields(name) if field.name != "target"]


def summary(name: str) -> str:
    """What the pass does, in the first sentence of its module's documentation."""
    doc = inspect.getdoc(inspect.getmodule(PASSES[name])) or ""
    return " ".join(doc.split("\n\n")[0].split()).partition(": ")[2]


def pass_name(spec: str) -> str:
    """The name in `name{option=value ...}`. Raises OptionError for text of another form or an unknown name."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None or match["name"] not in PASSES:
        raise OptionError(f"{spec!r} is not a pass; the passes are {', '.join(PASSES)}.")
    return match["name"]


def make_pass(spec: str, settings: Mapping[str, Any]) -> onnx_ir.passes.InPlacePass:
    """The pass that `spec` names, with the `settings` it has fields for and, over them, the options in `spec`.

    Raises OptionError for an unknown pass or option, a value of the wrong type, or a pass that lacks its target.
    """
    name = pass_name(spec)
    known = {field.name: field for field in _fields(name)}
    values = {key: value for key, value in settings.items() if key in known and value is not None}
    for key, text in _options(spec):
        if key not in option_names(name):
            raise OptionError(f"{name} has no option {key!r}; it has {', '.join(option_names(name)) or 'none'}.")
        values[key] = _parse(name, key, text, known[key])
    if needs_target(name) and "target" not in values:
        raise OptionError(f"{name} needs a target.")
    return PASSES[name](**values)


def _fields(name: str) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(PASSES[name])  # pyright: ignore[reportArgumentType]


def _options(spec: str) -> list[tuple[str, str]]:
    match = _SPEC.fullmatch(spec.strip())
    text = match["options"] if match is not None else None
    return [(key, value) for key, _, value in (part.partition("=") for part in (text or "").split())]


def _parse(name: str, key: str, text: str, field: dataclasses.Field[Any]) -> bool | int | str | DataType:
    default = field.default
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False, "": True}[text.lower()]
        if isinstance(default, DataType):
            return parse_type(text)
        if isinstance(default, int):
            return int(text)
        return text
    except (KeyError, ValueError):
        raise OptionError(f"{text!r} is no value for option {key} of {name}.") from None
