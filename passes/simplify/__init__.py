"""Local rules that remove, merge or skip casts where the result is identical for every input.

Run `SimplifyCasts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.simplify.run import SimplifyCasts
    from castsmith.passes.simplify.see_through import cast_before, harmless, held

__all__ = ["SimplifyCasts", "cast_before", "harmless", "held"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "run": ("SimplifyCasts",),
            "see_through": ("cast_before", "harmless", "held"),
        },
    )
