"""The extension of griffe for the Python reference: the options of `optimize` as parameters, and references resolved.

A description "As in FoldConstants." is shown as the one that it refers to.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import griffe

from castsmith.passes.core.options import Options
from docs.docstrings import resolved


class Signatures(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = resolved(obj.docstring.value, obj.name)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        if func.path == "castsmith.lowering.pipeline.optimize":
            del func.parameters["options"]
            for option in dataclasses.fields(Options):
                func.parameters.add(
                    griffe.Parameter(
                        option.name,
                        annotation=str(option.type),
                        kind=griffe.ParameterKind.keyword_only,
                        default=repr(option.default),
                    )
                )
