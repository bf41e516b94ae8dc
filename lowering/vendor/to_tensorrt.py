"""QuantizeLinear and DequantizeLinear as the operators of the domain trt, the inverse of `tensorrt`.

    QuantizeLinear, DequantizeLinear of float8e4m3fn    TRT_FP8QuantizeLinear, TRT_FP8DequantizeLinear
    of int4                                             TRT_INT4QuantizeLinear, TRT_INT4DequantizeLinear
    of float8e4m3fn, in blocks of 32 of float8e8m0      TRT_MXFP8QuantizeLinear, TRT_MXFP8DequantizeLinear
    DequantizeLinear of float4e2m1                      trt.DequantizeLinear
    scales that are computed as the lowering of TRT_MXFP8DynamicQuantize or TRT_FP4DynamicQuantize writes them, with the
    QuantizeLinear that uses them                       that operator

TRT_FP4QDQ, which no runtime has, is never written.

Constant scales of float8e8m0 become bytes, as ModelOpt declares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor, drop_if_unused
from castsmith.ir.errors import ModelError
from castsmith.ir.ops import DEFAULT_DOMAINS, traits_of
from castsmith.ir.records import Effect
from castsmith.ir.rewriting import Replacement
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.vendor.operands import FLOATS, operand
from castsmith.lowering.vendor.scene import Scene, constant_array, producer_of, whole_number
from castsmith.lowering.vendor.tensorrt import DOMAIN, FP4_BLOCK, LARGEST, MXFP8_BLOCK, in_blocks
from castsmith.numerics.types import type_name

RULE = "use-tensorrt"
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_MXFP8, _FP4 = "TRT_MXFP8DynamicQuantize", "TRT_FP4DynamicQuantize"
_STEM = {DataType.FLOAT8E4M3FN: "TRT_FP8", DataType.INT4: "TRT_INT4", DataType.FLOAT4E2M1: ""}


def quantization(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return the replacement of a QuantizeLinear or DequantizeLinear; None for other types and operators."""
    if node.op_type not in (_QUANTIZE, _DEQUANTIZE) or node.domain not in DEFAULT_DOMAINS:
        return None
    quantizes = node.op_type == _QUANTIZE
    x, scale = node.inputs[0], node.inputs[1]
    codes = scene.type_of(node.outputs[0] if quantizes else x)
    if x is None or scale is None or codes is None or codes not in _STEM:
        return None
    of_scale, gives = _scale_type(scale, scene), scene.type_of(node.outputs[0])
    _require_form(node, scene, codes)
    layout = _layout(node)
    made = list[onnx_ir.Value]()
    build = Builder(new_constants(made, f"{scale.name}_"))
    if of_scale == DataType.FLOAT8E8M0:
        name, layout = _mxfp8_form(node, codes, layout)
        if not quantizes:
            layout["output_dtype"] = int(gives or DataType.UNDEFINED)
        scale = _as_bytes(scale, build)
    else:
        if of_scale not in FLOATS or of_scale != (scene.type_of(x) if quantizes else gives):
            raise ModelError(f"{DOMAIN} has no {node.op_type} with scales of another type than the numbers")
        if codes == DataType.FLOAT8E4M3FN and "block_size" in layout:
            raise ModelError(f"blocks of float8e4m3fn in {DOMAIN} have scales of float8e8m0")
        name = f"{_STEM[codes]}{node.op_type}"
    y = build.typed(name, [x, scale], gives or DataType.UNDEFINED, **layout)
    return _replaced(node, build, made, [y], Effect.BIT_EXACT, f"{name} is {node.op_type} of {type_name(codes)}")


def _replaced(
    node: onnx_ir.Node,
    build: Builder,
    made: list[onnx_ir.Value],
    outputs: list[onnx_ir.Value],
    effect: Effect,
    reason: str,
) -> Replacement:
    for each in build.nodes:
        each.domain = DOMAIN
    for old, new in zip(node.outputs, outputs, strict=True):
        new.name, new.shape = old.name, old.shape
    return Replacement(RULE, reason, tuple(build.nodes), tuple(made), outputs=tuple(outputs), effect=effect)


def _require_form(node: onnx_ir.Node, scene: Scene, codes: DataType) -> None:
    """Raise ModelError if TensorRT has no such form of the operator."""
    zero = operand(node, 2)
    points = constant_array(zero)
    if zero is not None and (points is None or np.any(points.astype(np.float64) != 0)):
        raise ModelError("TensorRT takes no zero points but constant zeros")
    if not whole_number(node, "saturate", 1):
        raise ModelError("TensorRT always saturates")
    if node.op_type == _QUANTIZE and codes == DataType.FLOAT4E2M1:
        raise ModelError(f"{DOMAIN} has no QuantizeLinear to float4e2m1 but {_FP4}, which computes the scales")
    if whole_number(node, "precision", 0) not in (0, int(scene.type_of(node.inputs[1]) or 0)):
        raise ModelError("TensorRT has no attribute precision")
    if codes == DataType.INT4 and constant_array(_source(node)) is None:
        raise ModelError("in TensorRT int4 is for constant weights")


def _source(node: onnx_ir.Node) -> onnx_ir.Value | None:
    """Return what a node dequantizes, or what was quantized before it."""
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    quantized = node.op_type == _DEQUANTIZE and producer is not None and producer.op_type.endswith(_QUANTIZE)
    return producer.inputs[0] if producer is not None and quantized else value


def _layout(node: onnx_ir.Node) -> dict[str, Any]:
    """Return the attributes `axis` and `block_size`; with one scale they have no meaning, and are left out."""
    scale, block = node.inputs[1], whole_number(node, "block_size", 0)
    if not block and scale is not None and scale.shape is not None and scale.shape.rank() == 0:
        return {}
    found = {"axis": whole_number(node, "axis", 1)}
    return {**found, "block_size": block} if block else found


def _mxfp8_form(node: onnx_ir.Node, codes: DataType, layout: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if codes != DataType.FLOAT8E4M3FN or layout.get("block_size") != MXFP8_BLOCK:
        raise ModelError(f"{DOMAIN} has scales of float8e8m0 for float8e4m3fn in blocks of {MXFP8_BLOCK} alone")
    return f"TRT_MXFP8{node.op_type}", layout


def _scale_type(scale: onnx_ir.Value, scene: Scene) -> DataType | None:
    """Return the type of scales; those of TRT_MXFP8DynamicQuantize are declared as bytes."""
    producer = scale.producer()
    if producer is not None and producer.domain == DOMAIN and producer.op_type == _MXFP8:
        return DataType.FLOAT8E8M0
    return scene.type_of(scale)


def _as_bytes(scale: onnx_ir.Value, build: Builder) -> onnx_ir.Value:
    """Return scales of float8e8m0 as TensorRT's importer takes them: constant bytes, or made by its own operator."""
    array = constant_array(scale)
    if array is not None:
        return build.constant(array.view(np.uint8), "bytes")
    producer = scale.producer()
    if producer is None or producer.op_type != _MXFP8:
        raise ModelError(f"the scales {scale.name} of float8e8m0 are neither constant nor made by {_MXFP8}")
    return scale


def dynamic(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return an operator that computes scales in place of the last node of the arithmetic that does.

    `quantized_dynamically` replaces the QuantizeLinear that uses the scales by the first output of that operator.
    """
    found = _mxfp8_scales(node) or _fp4_scales(node)
    if found is None:
        return None
    name, quantize, inputs, block = found
    x, axis = inputs[0], whole_number(quantize, "axis", 1)
    other = next((user for user, index in node.outputs[0].uses() if not _takes_scales(user, index)), None)
    if name == _MXFP8 and (other is not None or node.outputs[0].is_graph_output()):
        return None
    if not _are_maxima(node, x, axis, block) or scene.type_of(x) != DataType.FLOAT:
        return None
    if not all(each.attributes.get_int("saturate", 1) for each in (node, quantize)):
        return None
    wide = producer_of(x, "Cast")
    before = None if wide is None else wide.inputs[0]
    inputs[0] = before if before is not None and scene.type_of(before) in FLOATS else x
    attributes = {"axis": axis, "block_size": block}
    attributes |= {"output_dtype" if name == _MXFP8 else "scale_type": int(DataType.FLOAT8E4M3FN)}
    build = Builder(new_constants([]))
    made = onnx_ir.Node(
        DOMAIN, name, inputs, [onnx_ir.AttrInt64(key, value) for key, value in attributes.items()], num_outputs=2
    )
    build.nodes.append(made)
    codes, scales = made.outputs
    codes.type, codes.shape = onnx_ir.TensorType(scene.type_of(quantize.outputs[0]) or DataType.UNDEFINED), x.shape
    scales.type = onnx_ir.TensorType(DataType.UINT8 if name == _MXFP8 else DataType.FLOAT8E4M3FN)
    codes.name = f"{quantize.outputs[0].name}_codes"
    scene.spent += [value for value in (*node.inputs, *quantize.inputs) if value is not None]
    reason = f"these nodes compute the scales as Castsmith writes {name}"
    return _replaced(node, build, [], [scales], Effect.AS_DEFINED, reason)


def _takes_scales(user: onnx_ir.Node, index: int) -> bool:
    return index == 1 and user.op_type in (_QUANTIZE, _DEQUANTIZE) and user.domain in DEFAULT_DOMAINS


def quantized_dynamically(node: onnx_ir.Node, _: Scene) -> Replacement | None:
    """Return the codes that an operator from `dynamic` makes for a QuantizeLinear with its scales."""
    if node.op_type != _QUANTIZE or node.domain not in DEFAULT_DOMAINS or node.inputs[1] is None:
        return None
    made = _origin_of_scales(node.inputs[1])
    if made is None or made.op_type not in (_MXFP8, _FP4) or made.domain != DOMAIN:
        return None
    x, given = node.inputs[0], made.inputs[0]
    wide = producer_of(x, "Cast")
    same = given is x or (wide is not None and wide.inputs[0] is given)
    if not same or node.outputs[0].dtype not in (None, made.outputs[0].dtype) or _layout(node) != _layout_of(made):
        return None
    reason = f"{made.op_type} makes the codes too"
    return Replacement(RULE, reason, outputs=(made.outputs[0],), effect=Effect.AS_DEFINED)


def _layout_of(made: onnx_ir.Node) -> dict[str, Any]:
    return {name: made.attributes.get_int(name, 0) for name in ("axis", "block_size")}


def _mxfp8_scales(node: onnx_ir.Node) -> tuple[str, onnx_ir.Node, list[onnx_ir.Value], int] | None:
    """Match Cast (Div (maxima, 448)) to float8e8m0, rounded up, and the QuantizeLinear that uses it."""
    to = node.attributes.get_int("to", 0) if node.op_type == "Cast" and node.domain in DEFAULT_DOMAINS else 0
    mode = node.attributes.get("round_mode")
    if to != DataType.FLOAT8E8M0 or (mode is not None and mode.value != "up"):
        return None
    quantize = _quantizer(node.outputs[0], DataType.FLOAT8E4M3FN)
    x = None if quantize is None else quantize.inputs[0]
    if quantize is None or x is None or not _is_quotient(node.inputs[0], LARGEST[DataType.FLOAT8E4M3FN]):
        return None
    return _MXFP8, quantize, [x], MXFP8_BLOCK


def _fp4_scales(node: onnx_ir.Node) -> tuple[str, onnx_ir.Node, list[onnx_ir.Value], int] | None:
    """Match QuantizeLinear (Div (maxima, 6), global) to float8e4m3fn, and the QuantizeLinear that uses it."""
    if node.op_type != _QUANTIZE or node.domain not in DEFAULT_DOMAINS:
        return None
    whole = node.inputs[1]
    if whole is None or not _is_quotient(node.inputs[0], LARGEST[DataType.FLOAT4E2M1]):
        return None
    for dequantize, _ in node.outputs[0].uses():
        if dequantize.op_type != _DEQUANTIZE or dequantize.inputs[1] is not whole:
            continue
        for user, _ in dequantize.outputs[0].uses():
            quantize = _quantizer(user.outputs[0], DataType.FLOAT4E2M1)
            x = None if quantize is None else quantize.inputs[0]
            if quantize is not None and x is not None and _origin_of_scales(user.outputs[0]) is node:
                return _FP4, quantize, [x, whole], FP4_BLOCK
    return None


def _quantizer(scale: onnx_ir.Value, to: DataType) -> onnx_ir.Node | None:
    """Return the QuantizeLinear to the type whose scale the value is."""
    for user, index in scale.uses():
        made = DataType(user.attributes.get_int("output_dtype", 0)) if user.op_type == _QUANTIZE else None
        if index == 1 and made == to and user.domain in DEFAULT_DOMAINS and operand(user, 2) is None:
            return user
    return None


def _origin_of_scales(scale: onnx_ir.Value) -> onnx_ir.Node | None:
    """Return the node that makes scales, behind a DequantizeLinear and the Where that replaces scales of 0."""
    where = producer_of(scale, "Where")
    if where is None:
        return scale.producer()
    equal, one, used = producer_of(where.inputs[0], "Equal"), where.inputs[1], where.inputs[2]
    dequantize = None if used is None else used.producer()
    if equal is None or dequantize is None or not _is(one, 1.0) or dequantize.inputs[0] is None:
        return None
    if equal.inputs[0] is not used or not _is(equal.inputs[1], 0.0) or not dequantize.op_type.endswith(_DEQUANTIZE):
        return None
    return dequantize.inputs[0].producer()


def _is(value: onnx_ir.Value | None, number: float) -> bool:
    tensor = constant_tensor(value)
    return tensor is not None and tensor.size == 1 and float(tensor.numpy().reshape(())) == number


def _is_quotient(value: onnx_ir.Value | None, divisor: float) -> bool:
    division = producer_of(value, "Div")
    return division is not None and _is(division.inputs[1], divisor)


def _are_maxima(node: onnx_ir.Node, x: onnx_ir.Value, axis: int, block: int) -> bool:
    """True if the node's quotient is of the largest magnitudes of blocks of x, as the lowering computes them."""
    division = producer_of(node.inputs[0], "Div")
    value = None if division is None else division.inputs[0]
    joined = producer_of(value, "Reshape")
    largest = producer_of(value if joined is None else joined.inputs[0], "ReduceMax")
    if largest is None or largest.attributes.get_int("keepdims", 1):
        return False
    parts = producer_of(largest.inputs[0], "Reshape")
    magnitudes = None if parts is None else producer_of(parts.inputs[0], "Abs")
    if parts is None or magnitudes is None or magnitudes.inputs[0] is not x or x.shape is None:
        return False
    shape, axes = constant_array(parts.inputs[1]), constant_array(operand(largest, 1))
    if shape is None or axes is None:
        return False
    last = axis in (-1, x.shape.rank() - 1)
    wanted, reduced = _blocks(x.shape, axis, block) if joined is None else ([-1, block], 1)
    return list(shape) == wanted and list(axes) == [reduced] and (joined is None or last)


def _blocks(shape: onnx_ir.Shape, axis: int, block: int) -> tuple[list[int], int]:
    dims = [dim if isinstance(dim, int) else -1 for dim in shape]
    at = axis % len(dims) if dims else 0
    return in_blocks(dims, at, block) if dims else [], at + 1


def sweep(values: list[onnx_ir.Value]) -> None:
    """Remove the arithmetic that made these values, as far as nothing uses it any longer."""
    left = list(values)
    while left:
        value = left.pop()
        node = value.producer()
        inputs = [] if node is None else [operand for operand in node.inputs if operand is not None]
        drop_if_unused(value)
        if node is None or value.uses() or value.is_graph_output():
            continue
        if node.graph is not None and (_only_computes(node) or node.op_type.endswith(_DEQUANTIZE)):
            node.graph.remove(node, safe=True)
        if node.graph is None:
            left += inputs


def _only_computes(node: onnx_ir.Node) -> bool:
    """True for an operator of the standard that draws no numbers and runs no graphs."""
    row = traits_of(node.domain, node.op_type)
    return node.domain in DEFAULT_DOMAINS and not row.random and not row.runs_graphs
