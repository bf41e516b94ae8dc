"""QuantizeLinear and DequantizeLinear as those of com.microsoft, for targets whose newest opset lacks the types.

Only of float, which both compute alike: of float16 they round in other places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.table import LINEAR
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement
from castsmith.lowering.operators.scene import Scene
from castsmith.lowering.quantized.operands import operand
from castsmith.lowering.quantized.scene import require_kernel, whole_number
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement

_FIRST, _FIRST_AXIS, _FIRST_WITH_ALL = 10, 13, 21
_OF_ALL_OPSETS = (DataType.UINT8, DataType.INT8, DataType.INT32)
_TYPES = (*_OF_ALL_OPSETS, DataType.UINT16, DataType.INT16, DataType.UINT4, DataType.INT4)


def quantization(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return the replacement of a QuantizeLinear or DequantizeLinear that the target lacks at its newest opset."""
    quantizes = node.op_type == "QuantizeLinear"
    x, scale, zero = node.inputs[0], node.inputs[1], operand(node, 2)
    codes = scene.type_of(node.outputs[0] if quantizes else x)
    if x is None or scale is None or codes is None or codes not in _TYPES:
        return None
    axis = _axis(node, scale)
    first = _FIRST_WITH_ALL if codes not in _OF_ALL_OPSETS else _FIRST if axis is None else _FIRST_AXIS
    if scene.target.newest_opset >= first:
        return None
    name = f"{CONTRIB_DOMAIN}.{node.op_type}"
    _require_float(node, scene, x if quantizes else scale, scale)
    require_kernel(node, name, DataType.FLOAT, scene)
    if whole_number(node, "block_size", 0):
        raise ModelError(f"{name} has no blocks")
    build = ReplacementBuilder(node)
    if zero is None and quantizes and codes != DataType.UINT8:
        zero = _zeros(scale, codes, build)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    inputs = [x, scale] if zero is None else [x, scale, zero]
    y = build.typed(node.op_type, inputs, codes if quantizes else DataType.FLOAT, **attributes)
    build.nodes[-1].domain = CONTRIB_DOMAIN
    y.shape = node.outputs[0].shape
    reason = f"{scene.target} takes opset {scene.target.newest_opset}; {type_name(codes)} needs {first}, or this"
    return as_replacement(build, USE_MICROSOFT_QDQ.code, reason, y)


USE_MICROSOFT_QDQ = NodeRule(
    "use-microsoft-qdq",
    "A QuantizeLinear or DequantizeLinear of a type that the target's opset lacks becomes that of com.microsoft.",
    why="The option `vendor` requests it: below opset 21 the standard has no 16-bit integers and no int4 there.",
    example=(
        "- q = QuantizeLinear <output_dtype = uint16> (x, scale)\n+ q = com.microsoft.QuantizeLinear (x, scale, zero)"
    ),
    advice="If it is skipped, the reason names the form that com.microsoft lacks, such as blocks.",
    silence="Leave out --vendor.",
    operators=LINEAR,
    apply=quantization,
)


def _axis(node: onnx_ir.Node, scale: onnx_ir.Value) -> int | None:
    """Return the axis of several scales; None for one. Raises ModelError if their number is unknown."""
    if scale.shape is None or scale.shape.rank() > 1:
        if whole_number(node, "block_size", 0):
            return 0
        raise ModelError(f"the rank of the scale {scale.name} is unknown, or above 1")
    if scale.shape.rank() == 0 or scale.shape[0] == 1:
        return None
    return whole_number(node, "axis", 1)


def _require_float(node: onnx_ir.Node, scene: Scene, x: onnx_ir.Value, scale: onnx_ir.Value) -> None:
    dtypes = {scene.type_of(x), scene.type_of(scale)}
    for name in ("output_dtype", "precision"):
        if name == "precision" or node.op_type == "DequantizeLinear":
            dtypes.add(DataType(whole_number(node, name, 0)))
    unsupported = dtypes - {DataType.FLOAT, DataType.UNDEFINED}
    if unsupported:
        raise ModelError(f"{CONTRIB_DOMAIN}.{node.op_type} rounds other types than float in another place")


def _zeros(scale: onnx_ir.Value, dtype: DataType, build: Builder) -> onnx_ir.Value:
    """Return zero points that state the type, of the shape of the scale."""
    shape = present(scale.shape, "the shape of a scale of a known rank")
    if not shape.is_static():
        raise ModelError(f"the number of scales in {scale.name} is unknown")
    return build.constant(np.zeros(shape.numpy(), dtype.numpy()), "zero_point")
