"""Conversions as computed by a named runtime where the standard leaves the result open.

Call `cast_as(runtime, ...)`. `differences` lists how each runtime departs from the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.numerics.runtimes.dispatch import RUNTIMES, cast_as

__all__ = ["RUNTIMES", "Runtime", "cast_as"]

Runtime = Literal["onnxruntime", "reference"]
"""The runtimes whose Cast can be reproduced."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "dispatch": ("RUNTIMES", "cast_as"),
        },
    )
