"""com.example.ScaledFloat8Cast (x, scale) in standard operators."""

import onnx_ir
from onnx_ir import DataType

from castsmith import Refusal
from castsmith.lowering import NodeBuilder, Replacement

FLOAT8 = DataType.FLOAT8E4M3FN


def lower(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | Refusal | None:
    """x / scale as float8e4m3fn."""
    x, scale = node.inputs
    if x is None or scale is None or x.dtype is None:
        return build.refuse("the type of x is not known")
    if build.opset < 19:
        return build.refuse("Cast to float8e4m3fn needs opset 19")
    elements = build.known(scale)
    if elements is not None and not elements.all():
        return build.refuse("the scale must not be 0", witness="scale = 0")
    quotient = build.op("Div", x, build.cast(scale, x.dtype))
    y = build.cast(quotient, FLOAT8)
    return build.replace(y, reason="x / scale, then the cast")
