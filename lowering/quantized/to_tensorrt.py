"""QuantizeLinear and DequantizeLinear as the operators of the domain trt, the inverse of `tensorrt`.

    QuantizeLinear, DequantizeLinear of float8e4m3fn    TRT_FP8QuantizeLinear, TRT_FP8DequantizeLinear
    of int4                                             TRT_INT4QuantizeLinear, TRT_INT4DequantizeLinear
    DequantizeLinear of float4e2m1                      trt.DequantizeLinear

There is no operator for a QuantizeLinear to float4e2m1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.table import LINEAR
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.lowering.operators.scene import Scene
from castsmith.lowering.quantized.operands import FLOATS, operand
from castsmith.lowering.quantized.scene import constant_array, whole_number
from castsmith.lowering.quantized.tensorrt import DOMAIN
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement

_QUANTIZE = "QuantizeLinear"
_STEM = {DataType.FLOAT8E4M3FN: "TRT_FP8", DataType.INT4: "TRT_INT4", DataType.FLOAT4E2M1: ""}


def quantization(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return the replacement of a QuantizeLinear or DequantizeLinear; None for other types and operators."""
    quantizes = node.op_type == _QUANTIZE
    x, scale = node.inputs[0], node.inputs[1]
    codes = scene.type_of(node.outputs[0] if quantizes else x)
    if x is None or scale is None or codes is None or codes not in _STEM:
        return None
    _require_form(node, scene, codes)
    scale_type, gives = scene.type_of(scale), scene.type_of(node.outputs[0])
    if scale_type not in FLOATS or scale_type != (scene.type_of(x) if quantizes else gives):
        raise ModelError(f"{DOMAIN} has no {node.op_type} whose scales have a different type from the numbers")
    layout, name = _layout(node), f"{_STEM[codes]}{node.op_type}"
    if codes == DataType.FLOAT8E4M3FN and "block_size" in layout:
        raise ModelError(f"{DOMAIN} has no blocks of float8e4m3fn")
    build = ReplacementBuilder(node)
    y = build.typed(name, [x, scale], gives or DataType.UNDEFINED, **layout)
    build.nodes[0].domain = DOMAIN
    y.shape = node.outputs[0].shape
    reason = f"{name} is {node.op_type} of {type_name(codes)}"
    return as_replacement(build, USE_TENSORRT.code, reason, y)


USE_TENSORRT = NodeRule(
    "use-tensorrt",
    (
        "QuantizeLinear and DequantizeLinear of float8 and int4, and DequantizeLinear of float4, become TensorRT's, "
        "of the domain trt, as NVIDIA ModelOpt writes them."
    ),
    why="The option `vendor` requests it: TensorRT's operators do not depend on the opset.",
    example=(
        "- q = QuantizeLinear <output_dtype = float8e4m3fn> (x, scale)\n+ q = trt.TRT_FP8QuantizeLinear (x, scale)"
    ),
    advice="If it is skipped, the reason names the form that TensorRT lacks, such as zero points.",
    silence="Leave out --vendor.",
    operators=LINEAR,
    apply=quantization,
)


def _require_form(node: onnx_ir.Node, scene: Scene, codes: DataType) -> None:
    """Raise ModelError if TensorRT has no such form of the operator."""
    zero = operand(node, 2)
    points = constant_array(zero)
    if zero is not None and (points is None or np.any(points.astype(np.float64) != 0)):
        raise ModelError("TensorRT supports only zero points that are constant zeros")
    if not whole_number(node, "saturate", 1):
        raise ModelError("TensorRT always saturates")
    if node.op_type == _QUANTIZE and codes == DataType.FLOAT4E2M1:
        raise ModelError(f"{DOMAIN} has no QuantizeLinear to float4e2m1")
    if whole_number(node, "precision", 0) not in (0, int(scene.type_of(node.inputs[1]) or 0)):
        raise ModelError("TensorRT has no attribute precision")
    if codes == DataType.INT4 and constant_array(_source(node)) is None:
        raise ModelError("in TensorRT int4 is for constant weights")


def _source(node: onnx_ir.Node) -> onnx_ir.Value | None:
    """Return what a node dequantizes, or what was quantized before it."""
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    return producer.inputs[0] if producer is not None and producer.op_type.endswith(_QUANTIZE) else value


def _layout(node: onnx_ir.Node) -> dict[str, Any]:
    """Return the attributes `axis` and `block_size`; with one scale they have no meaning, and are left out."""
    scale, block = node.inputs[1], whole_number(node, "block_size", 0)
    if not block and scale is not None and scale.shape is not None and scale.shape.rank() == 0:
        return {}
    attributes = {"axis": whole_number(node, "axis", 1)}
    return {**attributes, "block_size": block} if block else attributes
