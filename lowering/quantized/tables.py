"""The operators of vendors that have a replacement in standard ones, with the opset that each replacement needs."""

from __future__ import annotations

from dataclasses import dataclass

from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.lowering.quantized.microsoft import dequantize_linear, matmul_nbits, quantize_linear
from castsmith.lowering.quantized.operands import Lower, refusing


@dataclass(frozen=True)
class VendorLowering:
    """The lowering of an operator.

    Attributes:
        lower: The lowering.
        opset: The oldest opset with the operators of the replacement, 0 if any has them. The model is moved to that
            opset if no other node changes its meaning.
    """

    lower: Lower
    opset: int = 0


LOWERINGS = {
    f"{CONTRIB_DOMAIN}.QuantizeLinear": VendorLowering(refusing(quantize_linear), 21),
    f"{CONTRIB_DOMAIN}.DequantizeLinear": VendorLowering(refusing(dequantize_linear), 21),
    f"{CONTRIB_DOMAIN}.MatMulNBits": VendorLowering(refusing(matmul_nbits)),
}
"""The lowerings by operator name, with its domain, as in ONNX text."""
