"""Operators that only move elements: which inputs carry them, and how many elements are read and written.

A cast of every element before such an operator, or of every element after it, is the same. Zeros that Pad and Trilu
bring in by themselves are the same number in every type. Max, Min, MaxPool and Sign go by the order of elements: they
commute with casts that keep it, where there is neither NaN, of which the standard does not say what becomes of it
there, nor a zero of each sign (`castsmith.passes.place.choices`).
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops import DEFAULT_DOMAINS, Moves, operators, traits_of
from castsmith.passes.place.sizes import Sizes

_PASSED = operators(lambda row: row.cast_passes)
"""Operators that a cast may be taken through."""

ORDER = operators(lambda row: row.cast_passes and row.ordered)
"""Those of them that go by the order of elements."""


def data_inputs(node: onnx_ir.Node) -> list[int] | None:
    """The indexes of the inputs whose elements the node moves; None where it does anything else."""
    if node.op_type not in _PASSED or node.domain not in DEFAULT_DOMAINS:
        return None
    row = traits_of("", node.op_type)
    if any(attribute.is_ref() for attribute in node.attributes.data.values()) or not row.holds(node):
        return None
    wanted = range(len(node.inputs)) if row.elements is None else row.elements
    return [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]


def moves_input(node: onnx_ir.Node, index: int) -> bool:
    """Whether a node that moves elements moves those of this input; asked of one input, however many there are."""
    indexes = traits_of("", node.op_type).elements
    return indexes is None or index in indexes


def elements_moved(node: onnx_ir.Node, indexes: list[int], sizes: Sizes) -> int:
    """The elements that the node reads and writes; none for one that a runtime removes or does in place."""
    if traits_of("", node.op_type).moves is Moves.KEEP:
        return 0
    written = sum(sizes.of(output) for output in node.outputs)
    if traits_of("", node.op_type).moves is Moves.SELECT:
        return 2 * written
    return written + sum(sizes.of(value) for index in indexes if (value := node.inputs[index]) is not None)
