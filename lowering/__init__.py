"""What makes a model legal for a target: the targets, and the passes that work towards one; each is an onnx_ir pass."""

from castsmith.ir.rewriting import Replacement
from castsmith.lowering.custom import LowerCustom
from castsmith.lowering.custom_builder import Lowering, NodeBuilder
from castsmith.lowering.float8 import LowerFloat8
from castsmith.lowering.quant import LowerQuant
from castsmith.lowering.targets import Target, TargetError, load_target, target_names
from castsmith.lowering.trunc import LowerTrunc
from castsmith.lowering.version import LegalizeVersion
from castsmith.lowering.widen import WidenFloats

__all__ = [
    "LegalizeVersion",
    "LowerCustom",
    "LowerFloat8",
    "LowerQuant",
    "LowerTrunc",
    "Lowering",
    "NodeBuilder",
    "Replacement",
    "Target",
    "TargetError",
    "WidenFloats",
    "load_target",
    "target_names",
]
