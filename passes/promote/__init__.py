"""Promotion: ConvertPromoteTypes is inserted where operands disagree, and resolved into casts.

Run `InsertPromoteTypes` and then `ResolvePromoteTypes`. `specialise_functions` copies functions that are called with
several sets of types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.promote.insert import InsertPromoteTypes, specialise_functions
    from castsmith.passes.promote.resolve import ResolvePromoteTypes

__all__ = ["InsertPromoteTypes", "ResolvePromoteTypes", "specialise_functions"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "insert": ("InsertPromoteTypes", "specialise_functions"),
            "resolve": ("ResolvePromoteTypes",),
        },
    )
