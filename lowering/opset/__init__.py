"""The pass that moves a model to the opset and IR version of a target, if its operators mean the same there.

Run `LegalizeVersion(target=...)`. `obstacles` lists changes between opsets, `moving` rewrites the nodes. `RenameNodes`
ends a conversion: nodes have the names that a target requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.opset.names import RenameNodes
    from castsmith.lowering.opset.obstacles import move_to_opset, node_obstacle, obstacle_to_opset
    from castsmith.lowering.opset.version import LegalizeVersion

__all__ = ["LegalizeVersion", "RenameNodes", "move_to_opset", "node_obstacle", "obstacle_to_opset"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "names": ("RenameNodes",),
            "obstacles": ("move_to_opset", "node_obstacle", "obstacle_to_opset"),
            "version": ("LegalizeVersion",),
        },
    )
