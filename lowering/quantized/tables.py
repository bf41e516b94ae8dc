"""The operators of vendors that have a replacement in standard ones, with the opset that each replacement needs."""

from __future__ import annotations

from dataclasses import dataclass

from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.lowering.quantized.microsoft import dequantize_linear, matmul_nbits, quantize_linear
from castsmith.lowering.quantized.operands import Lower, refusing
from castsmith.lowering.quantized.tensorrt import (
    DOMAIN,
    dequantize,
    quantize_float8,
    quantize_fp4_dynamically,
    quantize_int4,
)


@dataclass(frozen=True)
class VendorLowering:
    """The lowering of an operator.

    Attributes:
        lower: The lowering.
        opset: The oldest opset with the operators of the replacement, 0 if any has them. The model is moved to that
            opset if no other node changes its meaning.
    """

    lower: Lower
    opset: int


_MICROSOFT = {
    "QuantizeLinear": (quantize_linear, 21),
    "DequantizeLinear": (dequantize_linear, 21),
    "MatMulNBits": (matmul_nbits, 0),
}
_TENSORRT = {
    "TRT_FP8QuantizeLinear": (quantize_float8, 21),
    "TRT_FP8DequantizeLinear": (dequantize, 21),
    "TRT_INT4QuantizeLinear": (quantize_int4, 21),
    "TRT_INT4DequantizeLinear": (dequantize, 21),
    "DequantizeLinear": (dequantize, 23),
    "TRT_FP4DynamicQuantize": (quantize_fp4_dynamically, 23),
}
LOWERINGS: dict[str, VendorLowering] = {
    f"{domain}.{name}": VendorLowering(refusing(lower), opset)
    for domain, rows in ((CONTRIB_DOMAIN, _MICROSOFT), (DOMAIN, _TENSORRT))
    for name, (lower, opset) in rows.items()
}
"""The lowerings by operator name, with its domain, as in ONNX text."""
