"""Structural comparison of two models: nodes, tensors and ports that are the same, changed, added or removed.

Call `diff(a, b)`; the `ModelDiff` it returns is true if they differ. `keys` gives each node a key that does not depend
on names, `match` pairs the nodes, and `graphs` lists the differences within pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.diff.interface import Change
    from castsmith.ir.diff.models import ModelDiff, diff, rewrites_between

__all__ = ["Change", "ModelDiff", "diff", "rewrites_between"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "interface": ("Change",),
            "models": ("ModelDiff", "diff", "rewrites_between"),
        },
    )
