"""Inclusion of element types: every value of one type is a value of another.

Derived from the rows of `castsmith.numerics.types` alone. Values are compared as values: -0 and +0 differ, infinities
count, and NaN is one value (ONNX gives its payload no meaning).
"""

from __future__ import annotations

from functools import cache

from onnx_ir import DataType

from castsmith.numerics.types import ElementType, Kind, Specials, element_type


@cache
def embeds(a: DataType, b: DataType) -> bool:
    """True if each value of `a`, -0, infinity and NaN included, is a value of `b`.

    A type embeds in itself. String and complex types embed in no other type, since Cast converts them by text or not
    at all.

    Raises:
        ElementTypeError: A type is not an ONNX element type.
    """
    source, target = element_type(a), element_type(b)
    if a == b:
        return True
    if max(source.kind, target.kind) > Kind.FLOATING or source.kind > target.kind:
        return False
    if not target.min <= source.min <= source.max <= target.max:
        return False
    return target.kind is not Kind.FLOATING or _float_holds(source, target)


def has_zero(row: ElementType) -> bool:
    """True if +0 is a value of the type: true of all types except float8e8m0."""
    return row.specials is not Specials.E8M0


def _float_holds(source: ElementType, target: ElementType) -> bool:
    return (
        significant_bits(source) <= target.precision
        and (source.kind is not Kind.FLOATING or source.quantum >= target.quantum)
        and has_zero(source) <= has_zero(target)
        and source.has_negative_zero <= target.has_negative_zero
        and source.has_infinity <= target.has_infinity
        and source.has_nan <= target.has_nan
    )


def significant_bits(row: ElementType) -> int:
    """Return the largest number of significant bits that a value of the type needs.

    The sign bit of an integer does not count: -2**(bits-1) is a power of two.
    """
    if row.kind is Kind.FLOATING:
        return row.precision
    return row.bits - row.signed
