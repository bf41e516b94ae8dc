"""The passes by name, in the order in which `optimize` runs them, and the text form of a pass with its options."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from onnx_ir import DataType
from onnx_ir.passes import PassBase

from castsmith.numerics.errors import OptionError, did_you_mean
from castsmith.numerics.extensions import PASSES as ADDED, clause, extension, extensions
from castsmith.numerics.types import parse_type

PASSES: dict[str, str] = {
    "insert-promote-types": "castsmith.passes.promote.insert:InsertPromoteTypes",
    "resolve-promote-types": "castsmith.passes.promote.resolve:ResolvePromoteTypes",
    "lower-custom": "castsmith.lowering.custom:LowerCustom",
    "use-vendor": "castsmith.lowering.quantized.use:UseVendor",
    "fold-shapes": "castsmith.passes.shapes.run:FoldShapes",
    "fold-constants": "castsmith.passes.fold.run:FoldConstants",
    "simplify-casts": "castsmith.passes.simplify.run:SimplifyCasts",
    "place-casts": "castsmith.passes.place.run:PlaceCasts",
    "convert-precision": "castsmith.passes.precision.run:ConvertPrecision",
    "rescale": "castsmith.lowering.rescale.run:Rescale",
    "narrow-types": "castsmith.lowering.narrow.run:NarrowTypes",
    "lower-trunc": "castsmith.lowering.qonnx.trunc:LowerTrunc",
    "lower-quant": "castsmith.lowering.qonnx.quant:LowerQuant",
    "lower-casts": "castsmith.lowering.casts:LowerCasts",
    "lower-float8": "castsmith.lowering.float8.lower:LowerFloat8",
    "widen-floats": "castsmith.lowering.widen.run:WidenFloats",
    "lower-operators": "castsmith.lowering.operators.run:LowerOperators",
    "legalize-version": "castsmith.lowering.opset.version:LegalizeVersion",
}
"""Every pass, in the order of the pipeline, and its module: one that does not run is not imported."""

REPAIR = ("insert-promote-types", "resolve-promote-types")
"""The passes that make a model with mixed-type operands valid, and change nothing else."""

_AGAIN = {"place-casts": "simplify-casts", "widen-floats": "simplify-casts"}
"""Passes after which an earlier one may find more.

A moved cast may become removable, and two widened operators may share a cast.
"""

ON_REQUEST: dict[str, tuple[str, ...]] = {
    "use-vendor": (),
    "narrow-types": ("simplify-casts", "fold-constants"),
    "convert-precision": (),
    "rescale": (),
}
"""Passes that `optimize` runs only on request, and the passes that may find more after each.

convert-precision and rescale change values, so they run only if named among the passes; `castsmith.convert` uses them.
"""

PIPELINE: tuple[str, ...] = tuple(
    name for first in PASSES if first not in ON_REQUEST for name in (first, _AGAIN.get(first)) if name is not None
)
"""The passes that `optimize` runs, in order."""

AFTER: dict[str, tuple[str, ...]] = {"lower-custom": REPAIR}
"""Passes to run after one that changed something: the result of a custom operator had no type before."""

_SPEC = re.compile(r"(?P<name>[a-z0-9-]+|[\w.]+:\w+)(\{(?P<options>[^{}]*)\})?")


def needs_target(name: str) -> bool:
    """True if the pass cannot run without a target."""
    if name in PASSES:  # all of ours that do are in that package; a test checks their fields
        return name not in ON_REQUEST and PASSES[name].startswith("castsmith.lowering.")
    return any(field.name == "target" for field in _fields(name))


def option_names(name: str) -> list[str]:
    """Return the options in the text form of the pass: the fields whose default determines how to parse them."""
    return [field.name for field in _fields(name) if isinstance(field.default, bool | int | str | tuple)]


def summary(name: str) -> str:
    """Return the first sentence of the documentation of the pass's module, or of the class for a package's pass."""
    if name not in PASSES:
        return " ".join((inspect.getdoc(pass_class(name)) or "").split("\n\n")[0].split())
    doc = inspect.getdoc(inspect.getmodule(pass_class(name))) or ""
    return " ".join(doc.split("\n\n")[0].split()).partition(": ")[2]


def added_passes() -> list[str]:
    """Return the names of the passes that other packages add, as entry points of the group `castsmith.passes`."""
    return [extension.name for extension in extensions(ADDED)]


def pass_class(name: str) -> type[PassBase]:
    """Return the pass of that name, or the class `module:Class`, whose module is imported.

    Raises:
        OptionError: The name is unknown, or there is no such class.
        ExtensionError: A package adds an unusable pass.
    """
    if name in PASSES:
        module, _, kind = PASSES[name].partition(":")
        return getattr(import_module(module), kind)
    if ":" in name:
        return _named_class(name)
    added = extension(ADDED, name, _fit)
    if added is None:
        names = (*PASSES, *added_passes())
        way_out = did_you_mean(name, names, f"expected {', '.join(names)}")
        raise OptionError(f"unknown pass {name!r}; {way_out}")
    return added


def _named_class(name: str) -> type[PassBase]:
    """Return the class `module:Class`; the module is searched where Python looks, so not in the current folder."""
    module, _, kind = name.partition(":")
    try:
        home = import_module(module)
        if not hasattr(home, kind):
            raise TypeError(f"the module {module!r} has no {kind!r}")
        return _fit(getattr(home, kind))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise OptionError(f"the pass {name} cannot be used: {clause(error)}.") from error
        raise OptionError(
            f"the pass {name} cannot be used: there is no module {error.name!r} on Python's path;"
            " install it, or add its folder to PYTHONPATH."
        ) from None
    except Exception as error:  # importing a module of the user can raise anything
        raise OptionError(f"the pass {name} cannot be used: {clause(error)}.") from error


def pass_name(spec: str) -> str:
    """Return the name in `name{option=value ...}`. Raises OptionError for text of another form or an unknown name."""
    match = _SPEC.fullmatch(spec.strip())
    name = spec if match is None else match["name"]
    if name not in PASSES:
        pass_class(name)
    return name


def name_of(spec: str | PassBase) -> str:
    """Return the name of the pass, or of its class if it has none."""
    if isinstance(spec, str):
        return pass_name(spec)
    kind = type(spec)
    return next((name for name, home in PASSES.items() if _is_at(kind, home)), kind.__name__)


def _is_at(kind: type, home: str) -> bool:
    """True if the class is the one at `package:Class`, in whichever module of the package it is written."""
    package, _, name = home.partition(":")
    return kind.__qualname__ == name and f"{kind.__module__}.".startswith(f"{package}.")


def make_pass(spec: str, settings: Mapping[str, Any]) -> PassBase:
    """Return the pass that `spec` names, with those of the `settings` that it has, overridden by the options in `spec`.

    Raises:
        OptionError: The pass or an option is unknown, a value is invalid, or a required target is missing.
    """
    name = pass_name(spec)
    options = {field.name: field for field in _fields(name)}
    values = {key: value for key, value in settings.items() if key in options and value is not None}
    for key, text in _options(spec):
        if key not in option_names(name):
            way_out = did_you_mean(key, option_names(name), f"it has {', '.join(option_names(name)) or 'none'}")
            raise OptionError(f"{name} has no option {key!r}; {way_out}")
        values[key] = _parse(name, key, text, options[key])
    if needs_target(name) and "target" not in values:
        raise OptionError(f"{name} needs a target.")
    return pass_class(name)(**values)


def _fit(entry: object) -> type[PassBase]:
    if not (inspect.isclass(entry) and issubclass(entry, PassBase)):
        raise TypeError("it is not a subclass of onnx_ir.passes.PassBase")
    if dataclasses.is_dataclass(entry):
        required = [field.name for field in dataclasses.fields(entry) if _is_required(field) and field.name != "target"]
    else:
        parameters = inspect.signature(entry).parameters.values()
        required = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty and parameter.kind not in _ANY_NUMBER
        ]
    if required:
        raise TypeError(f"its option {required[0]} has no default")
    return entry


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is field.default_factory is dataclasses.MISSING


def _fields(name: str) -> tuple[dataclasses.Field[Any], ...]:
    """Return the options of the pass; a class that is not a dataclass has none."""
    kind = pass_class(name)
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


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
        raise OptionError(f"invalid value {text!r} for option {key} of {name}.") from None
