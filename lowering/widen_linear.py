"""QuantizeLinear and DequantizeLinear of float16 and bfloat16 in float, each rounding where the schema has it."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.rewriting import Replacement
from castsmith.ir.targets import Target
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.float8_casts import Context
from castsmith.lowering.float8_linear import expand_dequantize, expand_quantize
from castsmith.lowering.float8_needs import Types
from castsmith.lowering.sequences import Sequence
from castsmith.numerics.types import CODED_TYPES, type_name


def expand_linear(node: onnx_ir.Node, target: Target, types: Types, opset: int, dtype: DataType) -> Replacement:
    """Divide, round to the type, add, saturate; or take off, multiply, round. Raises ModelError where that has no exact
    sequence: to a type of which codes are made, which is for lower-float8."""
    quantized = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    kept = None if quantized is None else types.get(quantized, quantized.dtype)
    if kept is None or (kept in CODED_TYPES and node.op_type == "QuantizeLinear"):
        raise ModelError(f"QuantizeLinear of {type_name(dtype)} to {'?' if kept is None else type_name(kept)}")
    constants: list[onnx_ir.Value] = []
    build = Builder(new_constants(constants, f"{node.outputs[0].name}_"))
    expand = expand_quantize if node.op_type == "QuantizeLinear" else expand_dequantize
    y = expand(build, node, Context(types, frozenset(), Sequence.LADDER, opset))
    y.name = node.outputs[0].name
    reason = f"{target.name} has no {node.op_type} of {type_name(dtype)} at opset {opset}: in float, step by step"
    return Replacement("widen", reason, tuple(build.nodes), tuple(constants), outputs=(y,))
