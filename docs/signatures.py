"""The extension of griffe for the Python reference: defaults by their values, and references resolved.

A default `Options.max_growth` is shown as 4096, and a description "As in FoldConstants." as the one that it refers to.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import griffe

from castsmith.passes.core.options import Options
from docs.docstrings import resolved

_DEFAULTS = {f"Options.{field.name}": field for field in dataclasses.fields(Options)}


class Signatures(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = resolved(obj.docstring.value, obj.name)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            if field := _DEFAULTS.get(str(parameter.default)):
                parameter.default = repr(field.default)
