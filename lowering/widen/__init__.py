"""The pass that computes in float if the target has no 16-bit kernel, and rounds wrong casts once.

Run `WidenFloats(target=...)`. `UnifyOperands` is the part of it that a conversion needs: one type for all operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.widen.run import WidenFloats
    from castsmith.lowering.widen.unify import UnifyOperands

__all__ = ["UnifyOperands", "WidenFloats"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "run": ("WidenFloats",),
            "unify": ("UnifyOperands",),
        },
    )
