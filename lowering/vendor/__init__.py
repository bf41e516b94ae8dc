"""Operators of ONNX Runtime and of TensorRT for quantized formats, written as standard ones: lowerings of lower-custom.

`LOWERINGS` has each by its name in ONNX text, for targets that do not run the operator itself.

    microsoft    com.microsoft: QuantizeLinear, DequantizeLinear, MatMulNBits
    tensorrt     trt: the operators that NVIDIA ModelOpt exports
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.vendor.tables import LOWERINGS, VendorLowering

__all__ = ["LOWERINGS", "VendorLowering"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, {"tables": ("LOWERINGS", "VendorLowering")})
