"""com.example.ScaledFloat8Cast (x, scale), an operator of Acme's exporter, in standard operators."""

import onnx_ir
from onnx_ir import DataType

from castsmith import Refusal
from castsmith.lowering import NodeBuilder, Replacement

FIRST_OPSET_WITH_FLOAT8 = 19


def lower(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | Refusal | None:
    """x / scale as float8e4m3fn."""
    x, scale = node.inputs
    if x is None or scale is None or x.dtype is None or not x.dtype.is_floating_point():
        return build.refuse("x must be floating point")
    if build.opset < FIRST_OPSET_WITH_FLOAT8:
        return build.refuse(f"Cast to float8e4m3fn needs opset {FIRST_OPSET_WITH_FLOAT8}")
    elements = build.known(scale)
    if elements is not None and not elements.all():
        return build.refuse("the scale must not be 0", witness="scale = 0")
    quotient = build.op("Div", x, build.cast(scale, x.dtype))  # numbers become constants, results get their types
    return build.replace(build.cast(quotient, DataType.FLOAT8E4M3FN), reason="x / scale, then the cast")
