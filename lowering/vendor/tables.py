"""The operators of vendors that have a replacement in standard ones, with the opset that each replacement needs."""

from __future__ import annotations

from dataclasses import dataclass

from castsmith.ir.ops import CONTRIB_DOMAIN
from castsmith.lowering.vendor.microsoft import dequantize_linear, matmul_nbits, quantize_linear
from castsmith.lowering.vendor.operands import Lower, refusing
from castsmith.lowering.vendor.tensorrt import (
    DOMAIN,
    dequantize,
    dequantize_mxfp8,
    quantize_float8,
    quantize_fp4_dynamically,
    quantize_int4,
    quantize_mxfp8,
    quantize_mxfp8_dynamically,
)


@dataclass(frozen=True)
class VendorLowering:
    """The lowering of an operator, and the oldest opset with the operators of its replacement, 0 if any has them.

    The model is moved to that opset if no other node changes its meaning.
    """

    lower: Lower
    opset: int = 0


_MICROSOFT = {
    "QuantizeLinear": VendorLowering(refusing(quantize_linear)),
    "DequantizeLinear": VendorLowering(refusing(dequantize_linear)),
    "MatMulNBits": VendorLowering(refusing(matmul_nbits)),
}
_TENSORRT = {
    "TRT_FP8QuantizeLinear": VendorLowering(refusing(quantize_float8), 21),
    "TRT_FP8DequantizeLinear": VendorLowering(refusing(dequantize), 21),
    "TRT_INT4QuantizeLinear": VendorLowering(refusing(quantize_int4), 21),
    "TRT_INT4DequantizeLinear": VendorLowering(refusing(dequantize), 21),
    "DequantizeLinear": VendorLowering(refusing(dequantize), 23),
    "TRT_MXFP8QuantizeLinear": VendorLowering(refusing(quantize_mxfp8), 24),
    "TRT_MXFP8DequantizeLinear": VendorLowering(refusing(dequantize_mxfp8), 24),
    "TRT_MXFP8DynamicQuantize": VendorLowering(refusing(quantize_mxfp8_dynamically), 24),
    "TRT_FP4DynamicQuantize": VendorLowering(refusing(quantize_fp4_dynamically), 23),
}
LOWERINGS: dict[str, VendorLowering] = {
    f"{domain}.{name}": each
    for domain, rows in ((CONTRIB_DOMAIN, _MICROSOFT), (DOMAIN, _TENSORRT))
    for name, each in rows.items()
}
"""The lowerings by operator name, with its domain, as in ONNX text."""
