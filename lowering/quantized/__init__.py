"""Operators of ONNX Runtime and of TensorRT for quantized formats, written as standard ones, and the other way.

`LOWERINGS` has each by its name in ONNX text: lowerings of lower-custom, for targets that do not run the operator
itself. `UseVendor` is the pass that writes standard operators in those of a vendor, on request.

    microsoft    com.microsoft: QuantizeLinear, DequantizeLinear, MatMulNBits in standard operators
    tensorrt     trt: the operators that NVIDIA ModelOpt exports, in standard operators
    use          the pass for the other way
    nbits        MatMul with a dequantized weight as MatMulNBits
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.quantized.tables import LOWERINGS, VendorLowering
    from castsmith.lowering.quantized.use import UseVendor

__all__ = ["LOWERINGS", "UseVendor", "VendorLowering"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, {"tables": ("LOWERINGS", "VendorLowering"), "use": ("UseVendor",)})
