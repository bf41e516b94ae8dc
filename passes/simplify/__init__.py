"""Local rules that remove, merge or skip casts where the result is identical for every input.

Run `SimplifyCasts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.simplify.local import called_with_several_types
    from castsmith.passes.simplify.run import SimplifyCasts
    from castsmith.passes.simplify.see_through import cast_before, harmless, held

__all__ = ["SimplifyCasts", "called_with_several_types", "cast_before", "harmless", "held"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "local": ("called_with_several_types",),
            "run": ("SimplifyCasts",),
            "see_through": ("cast_before", "harmless", "held"),
        },
    )
