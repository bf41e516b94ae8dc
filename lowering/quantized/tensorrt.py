"""Operators of the domain trt, which NVIDIA ModelOpt exports for TensorRT, as standard ones.

Sources: the importers of onnx-tensorrt for TensorRT 10.15 (operands, attributes, defaults), ModelOpt's export, and
"Quantization Schemes" of TensorRT's documentation (the formulas); TensorRT was not run. QuantizeLinear and
DequantizeLinear to and from float8e4m3fn and int4 are those of the standard, which saturates as TensorRT clips.

TensorRT does not document how TRT_FP4DynamicQuantize computes scales. Here, as in the models of TensorRT Edge-LLM:
scale = (amax / 6) / global, as float8e4m3fn, and x / (scale * global) as float4e2m1.

Where a scale of float8e4m3fn is 0, all products with it are 0: the codes are those for a scale of 1.
"""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.records import Effect
from castsmith.lowering.builder import dtype_of, need_opset
from castsmith.lowering.node_builder import NodeBuilder
from castsmith.lowering.quantized.operands import (
    integers,
    read_as,
    required,
    required_float,
    scalar,
)
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement

DOMAIN = "trt"

_FP4_BLOCK = 16
_LARGEST = {DataType.FLOAT8E4M3FN: 448.0, DataType.FLOAT4E2M1: 6.0}
_FIRST = {
    DataType.FLOAT8E4M3FN: 21,
    DataType.INT4: 21,
    DataType.INT8: 21,
    DataType.FLOAT4E2M1: 23,
}
"""The first opset with these types, and with `output_dtype` and `block_size`."""


def quantize_float8(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write TRT_FP8QuantizeLinear."""
    return _quantize(node, build, DataType.FLOAT8E4M3FN)


def quantize_int4(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write TRT_INT4QuantizeLinear."""
    return _quantize(node, build, DataType.INT4)


def _quantize(node: onnx_ir.Node, build: NodeBuilder, to: DataType) -> Replacement:
    x, scale = required_float(node, 0), required_float(node, 1)
    _same_type(x, scale)
    y = _quantized(build, x, scale, to, _layout(node))
    return build.replace(y, reason=f"{node.op_type} is QuantizeLinear to {type_name(to)}")


def dequantize(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write TRT_FP8DequantizeLinear, TRT_INT4DequantizeLinear or DequantizeLinear of the domain trt."""
    x, scale = required(node, 0), required_float(node, 1)
    if node.op_type == "TRT_FP8DequantizeLinear":
        x = read_as(build, x, DataType.FLOAT8E4M3FN)
    stored = dtype_of(x)
    if stored not in _FIRST:
        raise ModelError(
            f"input 0 of {node.op_type} is {type_name(stored)}, expected one of {', '.join(map(type_name, _FIRST))}"
        )
    need_opset(build.opset, _FIRST[stored], f"DequantizeLinear of {type_name(stored)}")
    y = build.op("DequantizeLinear", x, scale, **_layout(node))
    y.type = onnx_ir.TensorType(dtype_of(scale))
    return build.replace(y, reason=f"{node.op_type} of {DOMAIN} is DequantizeLinear")


def quantize_fp4_dynamically(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    """Write TRT_FP4DynamicQuantize, which computes scales of float8e4m3fn, given one of float."""
    need_opset(build.opset, _FIRST[DataType.FLOAT4E2M1], "float4e2m1")
    x, layout = build.cast(required_float(node, 0), DataType.FLOAT), _blocks(node, 1, _FP4_BLOCK)
    tensor_scale = scalar(build, build.cast(required_float(node, 1), DataType.FLOAT))
    if node.attributes.get_int("scale_type", int(DataType.FLOAT8E4M3FN)) != DataType.FLOAT8E4M3FN:
        raise ModelError("only scales of float8e4m3fn have a replacement")
    exact = build.op("Div", _block_maxima(build, x, layout), _LARGEST[DataType.FLOAT4E2M1])
    scale = _quantized(build, exact, tensor_scale, DataType.FLOAT8E4M3FN, {})
    used = build.op("DequantizeLinear", scale, tensor_scale)
    used.type = onnx_ir.TensorType(DataType.FLOAT)
    divisor = build.op("Where", build.op("Equal", used, 0.0), 1.0, used)
    y = _quantized(build, x, divisor, DataType.FLOAT4E2M1, layout)
    reason = "scales of amax / 6, quantized to float8e4m3fn, as TensorRT Edge-LLM models them; QuantizeLinear"
    return build.replace(y, scale, reason=reason, effect=Effect.AS_DEFINED)


def _quantized(
    build: NodeBuilder, x: onnx_ir.Value, scale: onnx_ir.Value, to: DataType, layout: dict[str, Any]
) -> onnx_ir.Value:
    need_opset(build.opset, _FIRST[to], f"QuantizeLinear to {type_name(to)}")
    y = build.op("QuantizeLinear", x, scale, output_dtype=int(to), **layout)
    y.type, y.shape = onnx_ir.TensorType(to), x.shape.copy() if x.shape is not None else None
    return y


def _block_maxima(build: NodeBuilder, x: onnx_ir.Value, layout: dict[str, Any]) -> onnx_ir.Value:
    """Return the largest absolute value of each block, in the shape of the scales."""
    axis, block, shape = layout["axis"], layout["block_size"], x.shape
    magnitudes, last = build.op("Abs", x), axis == -1 or (shape is not None and axis == shape.rank() - 1)
    if shape is None or not shape.is_static():
        if not last:
            raise ModelError("blocks of an axis that is not the last need a known shape")
        flat = _reshaped(build, magnitudes, build.constant(integers([-1, block]), "blocks"))
        largest = build.op("ReduceMax", flat, build.constant(integers([1]), "axes"), keepdims=0)
        size = build.op("Shape", x, end=-1)
        size.type = onnx_ir.TensorType(DataType.INT64)
        size.shape = None
        size = build.op("Concat", size, build.constant(integers([-1]), "rest"), axis=0)
        return _reshaped(build, largest, size)
    dims = list(shape.numpy())
    if not -len(dims) <= axis < len(dims):
        raise ModelError(f"axis {axis} is not one of the {len(dims)} of the input")
    axis += len(dims) if axis < 0 else 0
    if dims[axis] % block:
        raise ModelError(f"axis {axis} of length {dims[axis]} has no blocks of {block}")
    split = _in_blocks(dims, axis, block)
    parts = _reshaped(build, magnitudes, build.constant(integers(split), "blocks"))
    largest = build.op("ReduceMax", parts, build.constant(integers([axis + 1]), "axes"), keepdims=0)
    largest.shape = onnx_ir.Shape([*split[: axis + 1], *split[axis + 2 :]])
    return largest


def _in_blocks(dims: list[int], axis: int, block: int) -> list[int]:
    """Return the shape in which the axis, counted from the first one, is split into blocks."""
    return [*dims[:axis], dims[axis] // block, block, *dims[axis + 1 :]]


def _reshaped(build: NodeBuilder, x: onnx_ir.Value, shape: onnx_ir.Value) -> onnx_ir.Value:
    y = build.op("Reshape", x, shape)
    y.shape = None
    return y


def _layout(node: onnx_ir.Node) -> dict[str, Any]:
    """Return the attributes `axis` and `block_size`, if they are there."""
    return {name: node.attributes.get_int(name, 0) for name in ("axis", "block_size") if name in node.attributes}


def _blocks(node: onnx_ir.Node, axis: int, block: int) -> dict[str, Any]:
    """Return both attributes, with the defaults of the operator."""
    return {"axis": node.attributes.get_int("axis", axis), "block_size": node.attributes.get_int("block_size", block)}


def _same_type(x: onnx_ir.Value, scale: onnx_ir.Value) -> None:
    if x.dtype != scale.dtype:
        raise ModelError(f"{x.name} is {type_name(dtype_of(x))}, and its scale {type_name(dtype_of(scale))}")
