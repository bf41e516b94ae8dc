"""The extension of griffe for the Python reference: defaults by their values, references resolved, and fields.

A default `Options.max_growth` is shown as 4096, and a description "As in FoldConstants." as the one that it refers to.
Castsmith's own kind of dataclass is shown as one of the standard library.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import griffe

from castsmith.ir.options import Options
from docs.docstrings import resolved

_LIGHT = "castsmith.light_dataclass.light_dataclass"
_DEFAULTS = {f"Options.{field.name}": field for field in dataclasses.fields(Options)}


class Signatures(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = resolved(obj.docstring.value, obj.name)

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        for decorator in cls.decorators:
            made = decorator.value
            if isinstance(made, griffe.Expr) and made.canonical_path == _LIGHT:
                standard = griffe.ExprName("dataclasses.dataclass")
                decorator.value = griffe.ExprCall(standard, made.arguments if isinstance(made, griffe.ExprCall) else [])
                cls.labels.add("dataclass")

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            if field := _DEFAULTS.get(str(parameter.default)):
                parameter.default = repr(field.default)
