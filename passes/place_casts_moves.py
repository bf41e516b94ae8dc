"""Operators that only move elements: which inputs carry them, and how many elements are read and written.

A cast of every element before such an operator, or of every element after it, is the same. Zeros that Pad brings in
by itself are the same number in every type.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.passes.place_casts_sizes import Sizes

_DATA: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"), (0,)),
    **dict.fromkeys(("Slice", "Split", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"), (0,)),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), (0,)),
    "Pad": (0, 2),
    "Where": (1, 2),
    "Concat": None,
}
"""The inputs that carry elements, by operator; None: all."""

_READS_WHAT_IT_WRITES = frozenset({"Slice", "Gather", "GatherElements", "GatherND"})


def data_inputs(node: onnx_ir.Node) -> list[int] | None:
    """The indexes of the inputs whose elements the node moves; None where it does anything else."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in _DATA:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.data.values()):
        return None
    indexes = _DATA[node.op_type]
    wanted = range(len(node.inputs)) if indexes is None else indexes
    return [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]


def elements_moved(node: onnx_ir.Node, indexes: list[int], sizes: Sizes) -> int:
    """The elements that the node reads and writes."""
    written = sum(sizes.of(output) for output in node.outputs)
    if node.op_type in _READS_WHAT_IT_WRITES:
        return 2 * written
    return written + sum(sizes.of(value) for index in indexes if (value := node.inputs[index]) is not None)
