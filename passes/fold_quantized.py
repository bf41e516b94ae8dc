"""Which DequantizeLinear of a constant is part of a quantized operator, and so is not folded unless asked for.

A runtime reads `DequantizeLinear (x), DequantizeLinear (w) -> Conv -> QuantizeLinear` as one convolution of integers.
With the weight in float that reading is gone: the model is slower, and ONNX Runtime quantizes such a weight anew,
to other values.
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.schemas import DEFAULT_DOMAINS


def belongs_to_quantized_operator(node: onnx_ir.Node) -> bool:
    """Whether what the DequantizeLinear gives meets, at some operator, what another one gives that is not constant."""
    return _dequantizes(node) and any(
        _dequantizes(producer) and constant_tensor(producer.inputs[0]) is None
        for consumer in node.outputs[0].consumers()
        for operand in consumer.inputs
        if operand is not None and (producer := operand.producer()) is not None and producer is not node
    )


def _dequantizes(node: onnx_ir.Node) -> bool:
    return node.op_type == "DequantizeLinear" and node.domain in DEFAULT_DOMAINS
