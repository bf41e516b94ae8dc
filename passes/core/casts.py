"""The cast before a value, and known values that make a cast exact which is not so for all values of its type."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Range, Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.casts import CastNode, read_cast
from castsmith.numerics.types import Kind, element_type

CastStep = tuple[onnx_ir.Value, DataType, CastNode]
"""The value before a cast, its type, and the cast."""

_NARROW_FLOAT = 8
"""Bits of the floating-point types in which an integer may become NaN or saturate, by the settings of the cast."""


def cast_before(value: onnx_ir.Value | None, inference: Inference) -> CastStep | None:
    """Return the value before the cast that makes `value`, its type, and the cast; None if there is no cast."""
    producer = None if value is None else value.producer()
    return None if producer is None else cast_of(producer, inference)


def cast_of(node: onnx_ir.Node, inference: Inference) -> CastStep | None:
    """Return the value that the node casts, its type, and the cast; None if it is no cast or its types are unknown."""
    value = node.inputs[0] if node.inputs else None
    meaning = read_cast(node, inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None)
    source = inference.type_of(value)
    if value is None or meaning is None or meaning.to is None or source is None:
        return None
    return value, source, meaning


def harmless(range_: Range, start: DataType, first: CastNode, last: CastNode) -> bool:
    """True if casting integers of the range on from the middle type is casting them from `start`.

    The middle type holds every one of them, so both casts are of the same numbers. They follow one rule where both
    are of integers, where the target holds all of the range, where it is bool, and where it is a floating-point type
    of more than 8 bits: an integer rounds, or overflows, as the same number does.
    """
    if not (range_.fits(start) and range_.fits(first.target)):
        return False
    row = element_type(last.target)
    whole = max(element_type(start).kind, element_type(first.target).kind) <= Kind.INTEGER and row.kind <= Kind.INTEGER
    wide_float = row.kind is Kind.FLOATING and row.bits > _NARROW_FLOAT
    return whole or range_.fits(last.target) or row.kind is Kind.BOOLEAN or wide_float


def held(value: onnx_ir.Value, ranges: Ranges, source: DataType, to: DataType) -> bool:
    """True if the value is known to be integers that the cast from `source` does not change."""
    range_ = ranges.get(value)
    return range_ is not None and range_.fits(source) and range_.fits(to)
