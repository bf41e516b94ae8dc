"""Structural comparison of two models: nodes, tensors and ports that are the same, changed, added or removed.

Call `diff(a, b)`; the `ModelDiff` it returns is true if they differ. `keys` gives each node a key that does not depend
on names, `match` pairs the nodes, and `graphs` lists the differences within pairs. `digest` of `tensors` stands for the
bits of a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.diff.interface import Change
    from castsmith.ir.diff.models import ModelDiff, diff, rewrites_between
    from castsmith.ir.diff.tensors import digest

__all__ = ["Change", "ModelDiff", "diff", "digest", "rewrites_between"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "interface": ("Change",),
            "models": ("ModelDiff", "diff", "rewrites_between"),
            "tensors": ("digest",),
        },
    )
