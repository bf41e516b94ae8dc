"""Operators that only move elements: the inputs that carry them, and the number of elements read and written.

A cast of every element before such an operator equals a cast after it. Zeros that Pad and Trilu
insert are the same number in every type.
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.passes.place.sizes import Sizes

PASSED = operators(lambda row: row.cast_passes and not row.ordered)
"""Operators that a cast may be moved across."""


def data_inputs(node: onnx_ir.Node) -> list[int] | None:
    """Return the indices of the inputs whose elements the node moves; None if it does anything else."""
    if node.op_type not in PASSED or node.domain not in DEFAULT_DOMAINS:
        return None
    row = traits_of("", node.op_type)
    if any(attribute.is_ref() for attribute in node.attributes.data.values()) or not row.holds(node):
        return None
    wanted = range(len(node.inputs)) if row.elements is None else row.elements
    return [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]


def moves_input(node: onnx_ir.Node, index: int) -> bool:
    """True if a node that moves elements moves those of this input; fast even for nodes with many inputs."""
    indexes = traits_of("", node.op_type).elements
    return indexes is None or index in indexes


def elements_moved(node: onnx_ir.Node, indexes: list[int], sizes: Sizes) -> int:
    """Return the elements that the node reads and writes; 0 for one that a runtime removes or does in place."""
    if traits_of("", node.op_type).moves is Moves.KEEP:
        return 0
    written = sum(sizes.of(output) for output in node.outputs)
    if traits_of("", node.op_type).moves is Moves.SELECT:
        return 2 * written
    return written + sum(sizes.of(value) for index in indexes if (value := node.inputs[index]) is not None)
