"""The pass that moves a model to the opset and IR version of a target, if its operators mean the same there.

Run `LegalizeVersion(target=...)`. `obstacles` lists changes between opsets, `moving` rewrites the nodes. `FitLoader`
ends a conversion: it changes what the target does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.opset.loading import FitLoader
    from castsmith.lowering.opset.obstacles import move_to_opset, node_obstacle, obstacle_to_opset
    from castsmith.lowering.opset.version import LegalizeVersion

__all__ = ["FitLoader", "LegalizeVersion", "move_to_opset", "node_obstacle", "obstacle_to_opset"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "loading": ("FitLoader",),
            "obstacles": ("move_to_opset", "node_obstacle", "obstacle_to_opset"),
            "version": ("LegalizeVersion",),
        },
    )
