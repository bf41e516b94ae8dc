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
    inlining      calls of functions replaced by the nodes of the functions
    narrow        `NarrowTypes`: int64 as int32, double as float
    opset         `LegalizeVersion`: another opset or IR version
    rescale       `Rescale`: a float16 model scaled so that its values fit
    casts         `LowerCasts`: casts that a target computes otherwise
    qonnx         `LowerTrunc`, `LowerQuant`
    custom        `LowerCustom`: your own operators, by functions of your own
    quantized     operators of ONNX Runtime and TensorRT for quantized formats as standard ones, and `UseVendor`
"""

import lazy_loader

from castsmith.passes.core.rewriting import Replacement
from castsmith.targets.statements import TargetError
from castsmith.targets.target import Target, load_target, target_names

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["Replacement", "Target", "TargetError", "load_target", "target_names"]
