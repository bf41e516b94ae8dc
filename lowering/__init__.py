"""Legalization of a model for a target: targets, and the passes that need one; each is an onnx_ir pass.

The passes are `LowerFloat8`, `WidenFloats`, `NarrowTypes`, `LegalizeVersion`, `LowerTrunc` and `LowerQuant`;
`load_target` reads a target. `pipeline` runs all passes for `optimize`, `registry` makes each by name, and `custom`
lowers operators by functions of your own. Imported on first use: a model without a target does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.rewriting import Replacement
    from castsmith.ir.targets import Target, TargetError, load_target, target_names
    from castsmith.lowering.custom import LowerCustom, Lowering, NodeBuilder
    from castsmith.lowering.float8 import LowerFloat8
    from castsmith.lowering.narrow import NarrowTypes
    from castsmith.lowering.opset import LegalizeVersion
    from castsmith.lowering.qonnx import LowerQuant, LowerTrunc
    from castsmith.lowering.widen import WidenFloats


__all__ = [
    "LegalizeVersion",
    "LowerCustom",
    "LowerFloat8",
    "LowerQuant",
    "LowerTrunc",
    "Lowering",
    "NarrowTypes",
    "NodeBuilder",
    "Replacement",
    "Target",
    "TargetError",
    "WidenFloats",
    "load_target",
    "target_names",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "castsmith.ir.rewriting": ("Replacement",),
            "castsmith.ir.targets": ("Target", "TargetError", "load_target", "target_names"),
            "castsmith.lowering.custom": ("LowerCustom", "Lowering", "NodeBuilder"),
            "castsmith.lowering.float8": ("LowerFloat8",),
            "castsmith.lowering.narrow": ("NarrowTypes",),
            "castsmith.lowering.opset": ("LegalizeVersion",),
            "castsmith.lowering.qonnx": ("LowerQuant", "LowerTrunc"),
            "castsmith.lowering.widen": ("WidenFloats",),
        },
    )
