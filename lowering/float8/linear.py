"""QuantizeLinear and DequantizeLinear on uint8 codes: per tensor, per axis and blocked.

QuantizeLinear divides in one type (the attribute `precision`, or the type of the scale), then casts; to an integer it
rounds to even, adds the zero point and saturates. A float16 or bfloat16 quotient is that of float, rounded: float has
more than twice their precision and two bits, so the two roundings equal one. DequantizeLinear
multiplies in the type of its output in the same way; a product of 5 and 11 bits even fits in a float. A zero point of
zero is left out, as in runtimes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import FIRST_WITH_ROUND, Builder, need_opset
from castsmith.lowering.encodings.choose import encode
from castsmith.lowering.encodings.integer import clamped, encode_integer, number
from castsmith.lowering.float8.casts import Context, Encoded, decoded, required_operand
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.quantize.schema import division_type
from castsmith.numerics.types import Kind, element_type, type_name

_COMPUTES_IN = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)


def expand_quantize(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Expand QuantizeLinear: divide, round to the stated precision, encode."""
    x, scale = required_operand(node, 0), required_operand(node, 1)
    to = context.type_of(node.outputs[0])
    stated = DataType(node.attributes.get_int("precision", 0)) or None
    precision = division_type(context.type_of(x), context.type_of(scale), stated)
    if precision not in _COMPUTES_IN or not context.type_of(x).is_floating_point():
        raise ModelError(
            f"division of {type_name(context.type_of(x))} in {type_name(precision)} has no exact replacement"
        )
    wide = build.cast(build.cast(x, precision), DataType.FLOAT)
    by = _spread(build, node, _values(build, scale, context, precision), x)
    quotient = build.cast(build.op("Div", wide, build.cast(by, DataType.FLOAT)), precision)
    quotient = build.cast(quotient, DataType.FLOAT)
    if element_type(to).kind is Kind.INTEGER:
        need_opset(context.opset, FIRST_WITH_ROUND, "Round")
        total = _with_zero_point(build, node, "Add", number(build, build.op("Round", quotient)), x, context)
        return encode_integer(build, total, to) if to in context.coded else _saturated(build, total, to)
    quotient = _with_zero_point(build, node, "Add", quotient, x, context, precision)
    if to not in context.coded:
        return _cast_as_stated(build, node, quotient, to)
    policy = NarrowPolicy(node.attributes.get_int("saturate", 1) == 1, context.opset)
    context.encoded[node.outputs[0]] = Encoded(quotient, to, policy)
    return encode(build, quotient, to, policy, context.sequence)


def _cast_as_stated(build: Builder, node: onnx_ir.Node, quotient: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """Return the quotient in the type, by a Cast that saturates if the node does."""
    rounded = build.cast(quotient, to)
    saturate = node.attributes.get("saturate")
    if saturate is not None:
        build.nodes[-1].attributes["saturate"] = saturate
    return rounded


def expand_dequantize(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Expand DequantizeLinear: decode, multiply, round to the type of the output."""
    x, scale = required_operand(node, 0), required_operand(node, 1)
    gives, quantized = context.type_of(node.outputs[0]), context.type_of(x)
    if gives not in _COMPUTES_IN or quantized == DataType.INT32:
        raise ModelError(f"a product of {type_name(quantized)} in {type_name(gives)} has no exact replacement")
    values = _values(build, x, context, DataType.FLOAT)
    precision = None if element_type(quantized).kind is Kind.INTEGER else gives
    values = _with_zero_point(build, node, "Sub", values, x, context, precision)
    by = _spread(build, node, _values(build, scale, context, gives), x)
    return build.cast(build.op("Mul", values, build.cast(by, DataType.FLOAT)), gives)


def _values(build: Builder, value: onnx_ir.Value, context: Context, to: DataType) -> onnx_ir.Value:
    """Return the numbers of the value, codes or not, in the type `to`."""
    stored = context.type_of(value)
    return decoded(build, value, to, context) if stored in context.coded else build.cast(value, to)


def _with_zero_point(
    build: Builder,
    node: onnx_ir.Node,
    op_type: str,
    y: onnx_ir.Value,
    x: onnx_ir.Value,
    context: Context,
    precision: DataType | None = None,
) -> onnx_ir.Value:
    """Return y with the zero point added or subtracted in float.

    A constant of zero is left out, as in runtimes, although by the schema's formula it would turn a -0 of floats into
    +0; a zero point known only at run time is added as the formula says.

    Args:
        build: The builder.
        node: The QuantizeLinear or DequantizeLinear.
        op_type: Add or Sub.
        y: A number in float.
        x: What is quantized or dequantized.
        context: The context of the expansion.
        precision: Of a floating-point zero point, the type to which the result is rounded once. The result with one of
            integers is exact, or so large that it saturates anyway.
    """
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant_tensor(zero)
    if zero is None or (tensor is not None and not np.any(tensor.numpy().astype(np.float32))):
        return y
    if precision is None and context.type_of(zero).bitwidth > 16:
        raise ModelError(f"a zero point of {type_name(context.type_of(zero))} has no exact replacement")
    moved = build.op(op_type, y, _spread(build, node, _values(build, zero, context, DataType.FLOAT), x))
    return moved if precision is None else build.cast(build.cast(moved, precision), DataType.FLOAT)


def _saturated(build: Builder, total: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    if to.bitwidth > 16:
        raise ModelError(f"quantization to {type_name(to)} has no exact replacement")
    return build.cast(clamped(build, total, to), to)


def _spread(build: Builder, node: onnx_ir.Node, scale: onnx_ir.Value, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return the scale in a shape that broadcasts against x by its granularity."""
    if scale.shape is None:
        raise ModelError("the rank of the scale is unknown, so its granularity is unknown")
    rank = scale.shape.rank()
    if rank == 0 or (rank == 1 and scale.shape[0] == 1 and not node.attributes.get_int("block_size", 0)):
        return scale if rank == 0 else _reshaped(build, scale, [])
    if x.shape is None:
        raise ModelError("the rank of the input is unknown")
    axis = node.attributes.get_int("axis", 1)
    axis = axis + x.shape.rank() if axis < 0 else axis
    block = node.attributes.get_int("block_size", 0)
    if block and (block < 0 or rank != x.shape.rank() or not 0 <= axis < rank):
        raise ModelError(f"blocks of {block} along axis {axis} do not fit the scale and the input")
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
    """Return each scale repeated `block` times along the axis: a Gather by 0, 0, ..., 1, 1, ..., of input length."""
    length = shape[axis]
    if not isinstance(length, int):
        raise ModelError("the length of the blocked axis is unknown")
    index = build.constant(np.arange(length, dtype=np.int64) // block, "block")
    repeated = build.op("Gather", scale, index, axis=axis)
    repeated.shape = shape.copy()
    return repeated
