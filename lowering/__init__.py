"""Legalization of a model for a target: targets, and the passes that need one; each is an onnx_ir pass.

`load_target` reads a target. Imported on first use: a model without a target does not need it.

    pipeline      `optimize`: all passes, until none finds anything
    conversion    `convert`: a model in another precision; `accuracy` measures its error
    results       `Result` and `ConvertResult`
    net           `net_rewrites`: the rewrites of one place composed, for people
    registry      the passes by name, in order
    check         `castsmith.check`
    encodings     casts to and from types that a target lacks, as operators that it has
    float8        `LowerFloat8`: types of at most 8 bits as codes
    widen         `WidenFloats`: 16-bit floats and double computed in float
    narrow        `NarrowTypes`: int64 as int32, double as float
    opset         `LegalizeVersion`: another opset or IR version
    casts         `LowerCasts`: casts that a target computes otherwise
    qonnx         `LowerTrunc`, `LowerQuant`
    custom        `LowerCustom`: your own operators, by functions of your own
    quantized     operators of ONNX Runtime and TensorRT for quantized formats as standard ones, and `UseVendor`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.rewriting import Replacement
    from castsmith.ir.targets import Target, TargetError, load_target, target_names
    from castsmith.lowering.casts import LowerCasts
    from castsmith.lowering.custom import LowerCustom, Lowering, NodeBuilder
    from castsmith.lowering.float8 import LowerFloat8
    from castsmith.lowering.narrow import NarrowTypes
    from castsmith.lowering.opset import LegalizeVersion
    from castsmith.lowering.qonnx import LowerQuant, LowerTrunc
    from castsmith.lowering.quantized import UseVendor
    from castsmith.lowering.widen import WidenFloats


__all__ = [
    "LegalizeVersion",
    "LowerCasts",
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
    "UseVendor",
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
            "castsmith.lowering.casts": ("LowerCasts",),
            "castsmith.lowering.custom": ("LowerCustom", "Lowering", "NodeBuilder"),
            "castsmith.lowering.float8": ("LowerFloat8",),
            "castsmith.lowering.narrow": ("NarrowTypes",),
            "castsmith.lowering.opset": ("LegalizeVersion",),
            "castsmith.lowering.qonnx": ("LowerQuant", "LowerTrunc"),
            "castsmith.lowering.quantized": ("UseVendor",),
            "castsmith.lowering.widen": ("WidenFloats",),
        },
    )
