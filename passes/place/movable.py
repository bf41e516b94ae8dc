"""Operators that only move elements: the inputs that carry them, and the number of elements read and written.

A cast of every element before such an operator equals a cast after it. Zeros that Pad and Trilu
insert are the same number in every type. Max, Min, MaxPool and Sign depend on the order of elements: they
commute with casts that preserve it, without NaN, for which the standard does not define their result,
and without zeros of both signs (`castsmith.passes.place.choices`).

Integer arithmetic (Add, Mul, CumSum ...) counts too, where the ranges of its operands and results show that no type
wraps: then it gives the same numbers in every integer type that holds them.
"""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.types import Kind, element_type
from castsmith.passes.place.sizes import Sizes

PASSED = operators(lambda row: row.cast_passes)
"""Operators that a cast may be moved across."""

ORDER = operators(lambda row: row.cast_passes and row.ordered)
"""Those of them that depend on the order of elements."""

ARITHMETIC = operators(lambda row: row.modular)
"""Operators that compute with integers, the same in every type that holds them."""


def data_inputs(node: onnx_ir.Node) -> list[int] | None:
    """Return the indices of the inputs whose elements the node moves; None if it does anything else."""
    if node.op_type not in PASSED or node.domain not in DEFAULT_DOMAINS:
        return None
    row = traits_of("", node.op_type)
    if any(attribute.is_ref() for attribute in node.attributes.data.values()) or not row.holds(node):
        return None
    wanted = range(len(node.inputs)) if row.elements is None else row.elements
    return [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]


def integer_inputs(node: onnx_ir.Node, inference: Inference, ranges: Ranges) -> list[int] | None:
    """Return the indices of the operands of integer arithmetic that cannot overflow; None of any other node."""
    if node.op_type not in ARITHMETIC or node.domain not in DEFAULT_DOMAINS or len(node.outputs) != 1:
        return None
    row, dtype = traits_of("", node.op_type), inference.type_of(node.outputs[0])
    if dtype is None or element_type(dtype).kind is not Kind.INTEGER:
        return None
    if any(attribute.is_ref() or attribute.name in (row.types or ()) for attribute in node.attributes.data.values()):
        return None
    wanted = range(len(node.inputs)) if row.elements is None else row.elements
    indexes = [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]
    if any(inference.type_of(node.inputs[index]) != dtype for index in indexes):
        return None
    range_, whole = ranges.get(node.outputs[0]), element_type(dtype)
    return None if range_ is None or (range_.low, range_.high) == (whole.min, whole.max) else indexes


def all_fit(node: onnx_ir.Node, indexes: list[int], dtype: DataType, ranges: Ranges) -> bool:
    """True if the integer type holds all elements of the operands and of the result."""
    if element_type(dtype).kind is not Kind.INTEGER:
        return False
    values = [node.outputs[0], *(value for index in indexes if (value := node.inputs[index]) is not None)]
    ranges_ = [ranges.get(value) for value in values]
    return all(range_ is not None and range_.fits(dtype) for range_ in ranges_)


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
