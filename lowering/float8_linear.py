"""QuantizeLinear to float8 and DequantizeLinear from it, on uint8 codes: per tensor, per axis and blocked.

QuantizeLinear divides in one type (the attribute `precision`, else the type of the scale), then casts. A float16 or
bfloat16 quotient is that of float, rounded: float has more than twice their precision and two bits, so the second
rounding gives what one alone would. DequantizeLinear multiplies in the type of its output, likewise; there the product
of 4 and 11 bits even fits in a float. A zero point of zero is left out, as runtimes do; others are refused.
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import Policy
from castsmith.lowering.float8_casts import Context
from castsmith.lowering.sequences import decode, encode
from castsmith.numerics.types import type_name

_COMPUTES_IN = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)


def expand_quantize(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Divide, round to the stated precision, encode."""
    x, scale = _two_operands(node)
    _require_zero_point_zero(node)
    to = context.type_of(node.outputs[0])
    precision = DataType(node.attributes.get_int("precision", 0)) or context.type_of(scale)
    if precision not in _COMPUTES_IN or not context.type_of(x).is_floating_point():
        raise ModelError(f"division of {type_name(context.type_of(x))} in {type_name(precision)} has no exact sequence")
    wide = build.cast(build.cast(x, precision), DataType.FLOAT)
    by = _spread(build, node, build.cast(scale, precision), x)
    quotient = build.cast(build.op("Div", wide, build.cast(by, DataType.FLOAT)), precision)
    policy = Policy(node.attributes.get_int("saturate", 1) == 1, context.opset)
    return encode(build, quotient, to, policy, context.sequence)


def expand_dequantize(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Decode, multiply, round to the type of the output."""
    x, scale = _two_operands(node)
    _require_zero_point_zero(node)
    gives = context.type_of(node.outputs[0])
    if gives not in _COMPUTES_IN or context.type_of(scale) not in _COMPUTES_IN:
        raise ModelError(
            f"a product of {type_name(context.type_of(scale))} in {type_name(gives)} has no exact sequence"
        )
    values = decode(build, x, context.type_of(x), DataType.FLOAT)
    by = _spread(build, node, build.cast(scale, gives), x)
    return build.cast(build.op("Mul", values, build.cast(by, DataType.FLOAT)), gives)


def _spread(build: Builder, node: onnx_ir.Node, scale: onnx_ir.Value, x: onnx_ir.Value) -> onnx_ir.Value:
    """The scale in a shape that broadcasts against x as the granularity asks."""
    if scale.shape is None:
        raise ModelError("the rank of the scale is unknown, so the granularity is")
    rank = scale.shape.rank()
    if rank == 0 or (rank == 1 and scale.shape[0] == 1 and not node.attributes.get_int("block_size", 0)):
        return scale if rank == 0 else _reshaped(build, scale, [])
    if x.shape is None:
        raise ModelError("the rank of the input is unknown")
    axis = node.attributes.get_int("axis", 1)
    axis = axis + x.shape.rank() if axis < 0 else axis
    block = node.attributes.get_int("block_size", 0)
    if block:
        return _repeated(build, scale, x.shape, axis, block)
    if rank != 1 or not 0 <= axis < x.shape.rank():
        raise ModelError("the scale fits neither an axis nor blocks of the input")
    return _reshaped(build, scale, [-1] + [1] * (x.shape.rank() - axis - 1))


def _reshaped(build: Builder, scale: onnx_ir.Value, shape: list[int]) -> onnx_ir.Value:
    if shape == [-1]:
        return scale
    reshaped = build.op("Reshape", scale, build.constant(np.array(shape, np.int64), "shape"))
    reshaped.shape = onnx_ir.Shape([scale.shape[0] if dim == -1 and scale.shape else dim for dim in shape])
    return reshaped


def _repeated(build: Builder, scale: onnx_ir.Value, shape: onnx_ir.Shape, axis: int, block: int) -> onnx_ir.Value:
    """Each scale, `block` times along the axis: a Gather by 0, 0, ..., 1, 1, ..., as long as the input."""
    length = shape[axis]
    if not isinstance(length, int):
        raise ModelError("the length of the blocked axis is unknown")
    index = build.constant(np.arange(length, dtype=np.int64) // block, "block")
    assert scale.dtype is not None
    repeated = build.op("Gather", scale, index, axis=axis)
    repeated.shape = shape.copy()
    return repeated


def _require_zero_point_zero(node: onnx_ir.Node) -> None:
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    if zero_point is None:
        return
    tensor = constant_tensor(zero_point)
    if tensor is None or np.any(tensor.numpy().astype(np.float32) != 0):
        raise ModelError("the zero point is not known to be zero")


def _two_operands(node: onnx_ir.Node) -> tuple[onnx_ir.Value, onnx_ir.Value]:
    x, scale = node.inputs[0], node.inputs[1]
    if x is None or scale is None:
        raise ModelError("an input is missing")
    return x, scale
