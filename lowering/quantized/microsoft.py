"""Operators of the domain com.microsoft as standard ones.

Source: their documents in ONNX Runtime 1.32, and where these are silent, its CPU kernels, measured: QuantizeLinear of
float16 divides in float; DequantizeLinear to float16 rounds the difference to float16 before it multiplies; without
`axis` both use one scale. MatMulNBits is DequantizeLinear in blocks along K, and MatMul.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.records import Effect
from castsmith.lowering.builder import FIRST_WITH_ROUND, dtype_of, need_opset
from castsmith.lowering.encodings.integer import clamped, number
from castsmith.lowering.node_builder import NodeBuilder
from castsmith.lowering.quantized.operands import (
    integers,
    operand,
    required,
    required_float,
    scalar,
    shaped,
)
from castsmith.numerics.quantize.packed import unpacked
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement

_BYTES = (DataType.UINT8, DataType.INT8)
_WORDS = (DataType.UINT16, DataType.INT16)
_FIRST_AXIS, _FIRST_HALVES, _FIRST_WITH_ALL = 13, 19, 21
_FIRST_BLOCKS = {2: 25, 4: 21}
_SIGNED = {2: DataType.INT2, 4: DataType.INT4}
_UNSIGNED = {2: DataType.UINT2, 4: DataType.UINT4}
_INT8_ACTIVATIONS = 4


def quantize_linear(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write QuantizeLinear as the standard one, or as division, rounding and a clamp where the opset lacks the type."""
    x, scale, zero = required_float(node, 0), required_float(node, 1), operand(node, 2)
    to = DataType.UINT8 if zero is None else dtype_of(required(node, 2))
    x, scale = build.cast(x, DataType.FLOAT), build.cast(scale, DataType.FLOAT)
    if build.opset >= (_FIRST_AXIS if to in _BYTES else _FIRST_WITH_ALL):
        scale, zero, axis = _granularity(node, build, scale, zero)
        y = build.op("QuantizeLinear", x, scale, *([] if zero is None else [zero]), **axis)
        y.type = onnx_ir.TensorType(to)
    else:
        if to not in (*_BYTES, *_WORDS):
            need_opset(build.opset, _FIRST_WITH_ALL, type_name(to))
        need_opset(build.opset, FIRST_WITH_ROUND, "Round")
        total = number(build, build.op("Round", build.op("Div", x, _spread(node, build, x, scale))))
        if zero is not None:
            total = build.op("Add", total, _spread(node, build, x, build.cast(zero, DataType.FLOAT)))
        y = build.cast(clamped(build, total, to), to)
    return build.replace(y, reason="QuantizeLinear of com.microsoft in standard operators")


def dequantize_linear(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write DequantizeLinear as the standard one, or as a difference and a product where they differ."""
    x, scale, zero = required(node, 0), required_float(node, 1), operand(node, 2)
    stored, gives = dtype_of(x), dtype_of(scale)
    first = _FIRST_AXIS if stored in (*_BYTES, DataType.INT32) else _FIRST_WITH_ALL
    first = first if gives == DataType.FLOAT else max(first, _FIRST_HALVES)
    if build.opset >= first and not (stored in _WORDS and gives != DataType.FLOAT):
        scale, zero, axis = _granularity(node, build, scale, zero)
        y = build.op("DequantizeLinear", x, scale, *([] if zero is None else [zero]), **axis)
        y.type = onnx_ir.TensorType(gives)
    else:
        if stored not in (*_BYTES, *_WORDS):
            need_opset(build.opset, first, f"DequantizeLinear of {type_name(stored)}")
        y = build.cast(x, DataType.FLOAT)
        if zero is not None:
            y = build.op("Sub", y, _spread(node, build, x, build.cast(zero, DataType.FLOAT)))
        y = build.op("Mul", build.cast(y, gives), _spread(node, build, x, scale))
    return build.replace(y, reason="DequantizeLinear of com.microsoft in standard operators")


def _granularity(
    node: onnx_ir.Node, build: NodeBuilder, scale: onnx_ir.Value, zero: onnx_ir.Value | None
) -> tuple[onnx_ir.Value, onnx_ir.Value | None, dict[str, Any]]:
    """Return scale and zero point in the form of the standard: scalars if they are of the whole tensor."""
    if "axis" in node.attributes:
        return scale, zero, {"axis": node.attributes.get_int("axis", 0)}
    return scalar(build, scale), None if zero is None else scalar(build, zero), {}


def _spread(node: onnx_ir.Node, build: NodeBuilder, x: onnx_ir.Value, value: onnx_ir.Value) -> onnx_ir.Value:
    """Return scale or zero point in a shape that broadcasts against x."""
    if "axis" not in node.attributes:
        return scalar(build, value)
    if x.shape is None:
        raise ModelError("the rank of the input is unknown")
    axis = node.attributes.get_int("axis", 0)
    after = -axis - 1 if axis < 0 else x.shape.rank() - axis - 1
    return shaped(build, value, [-1] + [1] * after)


def matmul_nbits(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write MatMulNBits as the product with its weights, dequantized."""
    a, packed, scales = required_float(node, 0), required(node, 1), required_float(node, 2)
    depth, width, block, bits = (_known(node, name) for name in ("K", "N", "block_size", "bits"))
    if node.attributes.get_int("weight_prepacked", 0):
        raise ModelError("the weights are packed for one execution provider")
    if operand(node, 4) is not None:
        raise ModelError("g_idx, which orders the blocks, has no replacement")
    if bits not in (2, 4, 8):
        raise ModelError(f"weights of {bits} bits have no replacement")
    if packed.shape is None or 0 in packed.shape:
        raise ModelError("the shape of the packed weights is unknown, or 0, which omits the product")
    blocks, zero = -(-depth // block), operand(node, 3)
    size = _Size(depth, width, block, bits, blocks)
    scales = shaped(build, scales, [width, blocks])
    weight = _blocked(node, build, size, packed, scales)
    if weight is None:
        need_opset(build.opset, FIRST_WITH_ROUND, "MatMulNBits")
        weight = _transposed(build, _computed(build, size, packed, scales, zero))
    y = build.op("MatMul", a, weight)
    y.shape = None if a.shape is None else onnx_ir.Shape([*a.shape[:-1], width])
    bias = operand(node, 5)
    y = y if bias is None else build.op("Add", y, bias)
    reason = "the weights dequantized as the operator states, and MatMul"
    if node.attributes.get_int("accuracy_level", 0) == _INT8_ACTIVATIONS:
        reason += "; accuracy_level 4 allows a kernel to round the input to int8, which MatMul does not"
    return build.replace(y, reason=reason, effect=Effect.AS_DEFINED)


@dataclass(frozen=True)
class _Size:
    """The numbers of a MatMulNBits."""

    depth: int
    width: int
    block: int
    bits: int
    blocks: int


def _known(node: onnx_ir.Node, name: str) -> int:
    value = node.attributes.get_int(name, 4 if name == "bits" else 0)
    if not value or value < 1:
        raise ModelError(f"attribute {name} of MatMulNBits is missing or not positive")
    return value


def _blocked(
    node: onnx_ir.Node, build: NodeBuilder, size: _Size, packed: onnx_ir.Value, scales: onnx_ir.Value
) -> onnx_ir.Value | None:
    """Return the weights as a DequantizeLinear in blocks of constant codes, (K, N); None if that form is impossible."""
    codes, zero, first = build.known(packed), operand(node, 3), _FIRST_BLOCKS.get(size.bits)
    points = None if zero is None or zero.dtype != DataType.UINT8 else build.known(zero)
    if codes is None or first is None or build.opset < first or (zero is not None and points is None):
        return None
    numbers = unpacked(codes.reshape(size.width, -1), size.bits)[:, : size.depth].T
    operands = [_transposed(build, scales)]
    if points is None:
        stored = (numbers.astype(np.int8) - 2 ** (size.bits - 1)).astype(_SIGNED[size.bits].numpy())
    else:
        stored = numbers.astype(_UNSIGNED[size.bits].numpy())
        points = unpacked(points.reshape(size.width, -1), size.bits)[:, : size.blocks].T
        operands.append(build.constant(points.astype(stored.dtype), "zero_points"))
    weight = build.op("DequantizeLinear", build.constant(stored, "codes"), *operands, axis=0, block_size=size.block)
    weight.type, weight.shape = scales.type, onnx_ir.Shape([size.depth, size.width])
    return weight


def _transposed(build: NodeBuilder, value: onnx_ir.Value) -> onnx_ir.Value:
    y = build.op("Transpose", value, perm=[1, 0])
    y.shape = None if value.shape is None else onnx_ir.Shape([value.shape[1], value.shape[0]])
    return y


def _computed(
    build: NodeBuilder, size: _Size, packed: onnx_ir.Value, scales: onnx_ir.Value, zero: onnx_ir.Value | None
) -> onnx_ir.Value:
    """Return the weights as arithmetic on the bytes, (N, K)."""
    dtype = dtype_of(scales)
    numbers = _digits(build, size, packed, [size.width, size.blocks, size.block])
    if zero is None:
        numbers = build.op("Sub", build.cast(numbers, dtype), float(2 ** (size.bits - 1)))
    else:
        if dtype_of(zero) == DataType.UINT8:
            points = _digits(build, size, zero, [size.width, -1])
            points = _first(build, points, size.blocks)
        else:
            points = zero
        points = build.cast(shaped(build, points, [size.width, size.blocks, 1]), dtype)
        numbers = build.op("Sub", build.cast(numbers, dtype), points)
    values = build.op("Mul", numbers, shaped(build, scales, [size.width, size.blocks, 1]))
    return _first(build, shaped(build, values, [size.width, size.blocks * size.block]), size.depth)


def _digits(build: NodeBuilder, size: _Size, packed: onnx_ir.Value, shape: list[int]) -> onnx_ir.Value:
    """Return the codes in float, in the shape: each byte divided by powers of two, what is above them subtracted."""
    rest = build.cast(shaped(build, packed, [size.width, -1, 1]), DataType.FLOAT)
    base, digits = float(2**size.bits), list[onnx_ir.Value]()
    for _ in range(8 // size.bits - 1):
        above = build.op("Floor", build.op("Mul", rest, 1 / base))
        digits.append(build.op("Sub", rest, build.op("Mul", above, base)))
        rest = above
    digits.append(rest)
    y = digits[0] if len(digits) == 1 else build.op("Concat", *digits, axis=-1 if build.opset >= 11 else 2)
    y.shape = None
    return shaped(build, y, shape)


def _first(build: NodeBuilder, value: onnx_ir.Value, count: int) -> onnx_ir.Value:
    """Return the first `count` columns."""
    if value.shape is not None and value.shape[-1] == count:
        return value
    bounds = [build.constant(integers([bound]), name) for name, bound in (("start", 0), ("end", count), ("axes", 1))]
    y = build.op("Slice", value, *bounds)
    y.shape = None if value.shape is None else onnx_ir.Shape([value.shape[0], count])
    return y
