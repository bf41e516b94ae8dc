"""Encoding by ordinary arithmetic, for opsets before BitCast: exact products of powers of two, and one Round."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder, at_least
from castsmith.lowering.codes import Policy, corners, sign_bit, top_exponent
from castsmith.numerics.types import ElementType, element_type


def encode_ladder(build: Builder, x: onnx_ir.Value, to: DataType, policy: Policy) -> onnx_ir.Value:
    """The uint8 codes of the signed format `to`, of at most 8 bits, for a float or double tensor.

    Exact for every number, both zeros and both infinities; a NaN gives the POSITIVE NaN code, since no operator before
    BitCast can see a NaN's sign. Every product is by a power of two and exact, no product feeds an addition, and no
    constant meets another, so contraction to FMA, re-association and flushed float subnormals change nothing.
    Only Abs, Min, Mul, Round, Add, Where, comparisons, IsNaN and Cast are used, all in the source's own type.
    """
    assert x.dtype in (DataType.FLOAT, DataType.DOUBLE), x.dtype
    row, corner = element_type(to), corners(to, policy)
    magnitude = build.op("Abs", x)
    code = build.op("Min", _rounded_code(build, magnitude, row), float(corner.overflow))
    if corner.infinity != corner.overflow:
        infinite = build.op("Equal", magnitude, float("inf"))
        code = build.op("Where", infinite, float(corner.infinity), code)
    signed = build.op("Where", _is_negative(build, x, code, row), build.op("Add", code, float(sign_bit(row))), code)
    if not row.has_negative_zero:
        # The NaN of these types is code 128, which has no sign: -NaN, and overflow to it, must not become 256.
        signed = build.op("Where", build.op("Equal", code, float(corner.nan)), code, signed)
    return build.cast(build.op("Where", build.op("IsNaN", x), float(corner.nan), signed), DataType.UINT8)


def _rounded_code(build: Builder, magnitude: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """The code of the magnitude rounded to nearest even, as a float, running on past the largest code.

    t = |x| / 2**emin is brought into [0, 2) by dividing it by 2**k for k = ..., 8, 4, 2, 1 wherever t >= 2**k; the
    sum of the k is how many binades x lies above the first normal one. Then t * 2**p, with p mantissa bits, counts
    steps of the format, and Round gives the significand with its implicit bit worth one exponent, as in the code.

        e4m3fn, emin -6, p 3:   x       t * 2**6  rungs taken  t     Round(8t)  code
                                1.0     64        4, 2         1     8          8 + 8 * 6 = 0x38
                                1.9375  124       4, 2         1.9.. 16         16 + 8 * 6 = 0x40
                                2**-9   0.125                  0.125 1          0x01
                                464     29696     8, 4, 2      1.8.. 14 (tie)   14 + 8 * 14 = 0x7e
    """
    binades = top_exponent(row) + 1 - row.min_exponent
    clamped = build.op("Min", magnitude, 2.0 ** (top_exponent(row) + 1))
    t = build.op("Mul", clamped, 2.0**-row.min_exponent)
    total: onnx_ir.Value | None = None
    for k in _rungs(binades):
        above = at_least(build, t, 2.0**k)
        t = build.op("Mul", t, build.op("Where", above, 2.0**-k, 1.0, dtype=t.dtype))
        step = build.op("Where", above, float(k << row.mantissa_bits), 0.0, dtype=t.dtype)
        total = step if total is None else build.op("Add", total, step)
    assert total is not None
    return build.op("Add", build.op("Round", build.op("Mul", t, 2.0**row.mantissa_bits)), total)


def _rungs(binades: int) -> list[int]:
    """Powers of two, falling, whose sum reaches `binades`: 15 -> 8, 4, 2, 1."""
    return [2**bit for bit in reversed(range(binades.bit_length()))]


def _is_negative(build: Builder, x: onnx_ir.Value, code: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Where the sign bit of the code must be set. A negative zero shows by its reciprocal, negative infinity.

    For a type without negative zero, where the code is 0 the bit must stay clear: then x < 0 and code > 0.
    """
    below = build.op("Less", x, 0.0)
    if not row.has_negative_zero:
        return build.op("And", below, build.op("Greater", code, 0.0))
    return build.op("Or", below, build.op("Less", build.op("Reciprocal", x), 0.0))
