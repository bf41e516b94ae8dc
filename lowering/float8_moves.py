"""Operators that only move elements about, or never look at them: they act on codes just as they do on values."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import MOVES
from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.targets import Target
from castsmith.lowering.builder import Builder
from castsmith.lowering.float8_casts import Context

DETOURS = frozenset({"OneHot", "Trilu"})
"""Those that runtimes often lack for uint8 and have for float, in which codes are whole numbers."""


def takes_detour(node: onnx_ir.Node, target: Target) -> bool:
    """Whether the codes go through the node as floats, since the target cannot take them as they are."""
    return node.domain in DEFAULT_DOMAINS and node.op_type in DETOURS and node.op_type in target.operators_without_uint8


def expand_detour(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """The same node on the codes as floats, and back."""
    inputs = [
        value if value is None or context.type_of(value) not in context.coded else build.cast_codes(value)
        for value in node.inputs
    ]
    moved = onnx_ir.Node("", node.op_type, inputs, list(node.attributes.values()))
    moved.outputs[0].type, moved.outputs[0].shape = onnx_ir.TensorType(DataType.FLOAT), node.outputs[0].shape
    build.nodes.append(moved)
    return build.cast(moved.outputs[0], DataType.UINT8)


def refuses_to_move(node: onnx_ir.Node, target: Target) -> str | None:
    """Why the node cannot act on codes in place of values; None where it can."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in MOVES:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        return f"{name} computes with values kept as codes, and no exact sequence for it is known"
    if node.attributes.get_string("reduction", "none") != "none":
        return f"{node.op_type} with a reduction computes with values kept as codes"
    if node.op_type in target.operators_without_uint8:
        return f"{target.name} has no {node.op_type} of uint8, in which the codes are kept"
    return None
