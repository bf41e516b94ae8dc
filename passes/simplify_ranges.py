"""Where what is known of the values makes a chain of casts exact that is not so for all values of its types."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import CastNode
from castsmith.ir.ranges_integer import Range, Ranges
from castsmith.numerics.types import Kind, element_type

_NARROW_FLOAT = 8


def harmless(known: Range, start: DataType, first: CastNode, last: CastNode) -> bool:
    """Whether casting integers of the range on from the middle type is casting them from `start`.

    The middle type holds every one of them, so both casts are of the same numbers. They follow one rule where both
    are of integers, where the target holds all of the range, where it is bool, and where it is a floating-point type
    of more than 8 bits: an integer rounds, or overflows, as the same number does.
    """
    assert first.to is not None
    assert last.to is not None
    if not (known.fits(start) and known.fits(first.to)):
        return False
    row = element_type(last.to)
    whole = max(element_type(start).kind, element_type(first.to).kind) <= Kind.INTEGER and row.kind <= Kind.INTEGER
    wide_float = row.kind is Kind.FLOATING and row.bits > _NARROW_FLOAT
    return whole or known.fits(last.to) or row.kind is Kind.BOOLEAN or wide_float


def held(values: Iterable[onnx_ir.Value], ranges: Ranges, source: DataType, meaning: CastNode) -> bool:
    """Whether all the values are known to be integers which the cast from `source` leaves as they are."""
    known = [ranges.get(value) for value in values]
    return all(
        each is not None and each.fits(source) and meaning.to is not None and each.fits(meaning.to) for each in known
    )
