"""The pass that computes in float if the target has no 16-bit kernel, and rounds wrong casts once.

Run `WidenFloats(target=...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.widen.run import WidenFloats

__all__ = ["WidenFloats"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "run": ("WidenFloats",),
        },
    )
