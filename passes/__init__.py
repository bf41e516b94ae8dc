"""The passes that fix types for any target; each is an onnx_ir pass.

    promote      `InsertPromoteTypes`, `ResolvePromoteTypes`: operands that disagree
    shapes       `FoldShapes`: arithmetic on shapes
    fold         `FoldConstants`: casts and quantization of constants
    simplify     `SimplifyCasts`: casts that change nothing
    place        `PlaceCasts`: casts moved to where they cost least
    precision    `ConvertPrecision`: a model in another precision

`managers` has `Sequential` and `PassManager`, those of onnx_ir with the records of the passes in their results; derive
your own passes from `RewritePass` to have their records included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.rewrite_pass import RewritePass
    from castsmith.passes.fold import FoldConstants
    from castsmith.passes.managers import PassManager, Sequential
    from castsmith.passes.place import PlaceCasts
    from castsmith.passes.precision import ConvertPrecision
    from castsmith.passes.promote import InsertPromoteTypes, ResolvePromoteTypes
    from castsmith.passes.shapes import FoldShapes
    from castsmith.passes.simplify import SimplifyCasts


__all__ = [
    "ConvertPrecision",
    "FoldConstants",
    "FoldShapes",
    "InsertPromoteTypes",
    "PassManager",
    "PlaceCasts",
    "ResolvePromoteTypes",
    "RewritePass",
    "Sequential",
    "SimplifyCasts",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "castsmith.ir.rewrite_pass": ("RewritePass",),
            "castsmith.passes.fold": ("FoldConstants",),
            "castsmith.passes.managers": ("PassManager", "Sequential"),
            "castsmith.passes.place": ("PlaceCasts",),
            "castsmith.passes.precision": ("ConvertPrecision",),
            "castsmith.passes.promote": ("InsertPromoteTypes", "ResolvePromoteTypes"),
            "castsmith.passes.shapes": ("FoldShapes",),
            "castsmith.passes.simplify": ("SimplifyCasts",),
        },
    )
