"""What makes a model legal for a target: the targets, and the passes that work towards one; each is an onnx_ir pass."""

from castsmith.lowering.float8 import LowerFloat8
from castsmith.lowering.quant import LowerQuant
from castsmith.lowering.targets import Target, TargetError, load_target, target_names
from castsmith.lowering.trunc import LowerTrunc
from castsmith.lowering.version import LegalizeVersion
from castsmith.lowering.widen import WidenFloats

__all__ = [
    "LegalizeVersion",
    "LowerFloat8",
    "LowerQuant",
    "LowerTrunc",
    "Target",
    "TargetError",
    "WidenFloats",
    "load_target",
    "target_names",
]
