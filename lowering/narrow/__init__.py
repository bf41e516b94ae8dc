"""The pass that narrows int64 to int32, or double to float, if the result is identical for every input.

Run `NarrowTypes(narrow=...)`; it runs only on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.narrow.run import NarrowTypes

__all__ = ["NarrowTypes"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "run": ("NarrowTypes",),
        },
    )
