"""What makes a model legal for a target: the targets, and the passes that work towards one; each is an onnx_ir pass.

Imported when first used: a model that is for no target in particular needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castsmith.ir.rewriting import Replacement
    from castsmith.ir.targets import Target, TargetError, load_target, target_names
    from castsmith.lowering.custom import LowerCustom
    from castsmith.lowering.custom_builder import Lowering, NodeBuilder
    from castsmith.lowering.float8 import LowerFloat8
    from castsmith.lowering.narrow import NarrowTypes
    from castsmith.lowering.quant import LowerQuant
    from castsmith.lowering.trunc import LowerTrunc
    from castsmith.lowering.version import LegalizeVersion
    from castsmith.lowering.widen import WidenFloats

_HOMES = {
    "LegalizeVersion": "castsmith.lowering.version",
    "LowerCustom": "castsmith.lowering.custom",
    "LowerFloat8": "castsmith.lowering.float8",
    "LowerQuant": "castsmith.lowering.quant",
    "LowerTrunc": "castsmith.lowering.trunc",
    "Lowering": "castsmith.lowering.custom_builder",
    "NarrowTypes": "castsmith.lowering.narrow",
    "NodeBuilder": "castsmith.lowering.custom_builder",
    "Replacement": "castsmith.ir.rewriting",
    "Target": "castsmith.ir.targets",
    "TargetError": "castsmith.ir.targets",
    "WidenFloats": "castsmith.lowering.widen",
    "load_target": "castsmith.ir.targets",
    "target_names": "castsmith.ir.targets",
}

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


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'castsmith.lowering' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
