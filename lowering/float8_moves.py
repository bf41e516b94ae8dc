"""Operators that only move elements about, or never look at them: they act on codes just as they do on values."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.lowering.targets import Target

MOVES = frozenset({
    "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace",
    "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "OneHot", "Optional",
    "OptionalGetElement", "OptionalHasElement", "Pad", "Reshape", "ReverseSequence", "Scan", "Scatter",
    "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze",
    "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
"""Zeros that Pad, Trilu, CenterCropPad, Compress and ConstantOfShape bring in are +0, whose code is 0 in every type."""


def refuses_to_move(node: onnx_ir.Node, target: Target) -> str | None:
    """Why the node cannot act on codes in place of values; None where it can."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in MOVES:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        return f"{name} computes with float8 values, and no exact sequence for it is known"
    if node.attributes.get_string("reduction", "none") != "none":
        return f"{node.op_type} with a reduction computes with float8 values"
    if node.op_type in target.operators_without_uint8:
        return f"{target.name} has no {node.op_type} of uint8, in which the codes are kept"
    return None
