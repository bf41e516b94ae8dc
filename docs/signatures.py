"""The extension of griffe for the Python reference: options as parameters, and references resolved.

A description "As in FoldConstants." is shown as the one that it refers to.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import griffe

from castsmith.passes.core.convert_options import ConvertOptions
from castsmith.passes.core.options import Options
from docs.docstrings import resolved

_OPTIONS = {
    "castsmith.lowering.pipeline.optimize": Options,
    "castsmith.lowering.conversion.convert": ConvertOptions,
}
"""The functions that take each field of a class by its name."""


class Signatures(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = resolved(obj.docstring.value, obj.name)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        if func.path in _OPTIONS:
            del func.parameters["options"]
            for option in dataclasses.fields(_OPTIONS[func.path]):
                func.parameters.add(
                    griffe.Parameter(
                        option.name,
                        annotation=str(option.type),
                        kind=griffe.ParameterKind.keyword_only,
                        default=None if option.default is dataclasses.MISSING else repr(option.default),
                    )
                )
