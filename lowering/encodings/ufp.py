"""Encoding and rounding in place by the unit in the first place: the fewest operators before BitCast.

For targets that compute each operator by itself, rounded to its type: contracted to FMA it would be wrong.
"""

from __future__ import annotations

import math

import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.lowering.encodings.ladder import encode_ladder, with_specials
from castsmith.lowering.formats import NarrowPolicy, corners, sign_bit, top_exponent
from castsmith.numerics.types import ElementType, element_type


def encode_ufp(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the uint8 codes of the signed format `to`, of at most 8 bits, for a float tensor; a double uses ladder.

    Exact for every number, both zeros and both infinities; a NaN gives the POSITIVE NaN code, since before BitCast no
    operator distinguishes a NaN's sign. With p mantissa bits, and step, the distance of two values around x, a power of
    two: code = |x / step| rounded + 2**p * log2(step / smallest step). The logarithm is an integer, so an approximation
    within 1 % of a unit is sufficient.
    """
    if x.dtype != DataType.FLOAT:
        # ONNX Runtime treats a factor of 1 - 2**-53 as 1 and removes it: it compares in float.
        return encode_ladder(build, x, to, policy)
    row, corner = element_type(to), corners(to, policy)
    steps, step = _steps(build, x, row, policy)
    per_binade, smallest = 2.0**row.mantissa_bits, row.min_exponent - row.mantissa_bits
    level = build.op("Mul", build.op("Log", step), per_binade / math.log(2.0))
    # The half makes the Cast to integer round if the logarithm is slightly inexact.
    code = build.op("Add", build.op("Abs", steps), build.op("Add", level, 0.5 - per_binade * smallest))
    negative = build.op("Less", build.op("Reciprocal", steps) if row.has_negative_zero else steps, 0.0)
    if corner.overflow == sign_bit(row):
        # The NaN of these types is code 128, which has no sign.
        negative = build.op("And", negative, build.op("Less", code, float(corner.overflow)))
    sign = build.op("Mul", build.cast(negative, DataType.FLOAT), float(sign_bit(row)))
    codes = build.cast(build.op("Add", code, sign), DataType.UINT8)
    no_number = build.op("IsNaN", x)
    if corner.infinity != corner.overflow:
        no_number = build.op("Or", no_number, build.op("Equal", build.op("Abs", x), float("inf")))
    return build.op("Where", no_number, corner.nan, codes)


def round_by_ufp(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the result of a Cast to the signed format `to` and back, for a float tensor; NaN is unchanged."""
    row = element_type(to)
    steps, step = _steps(build, x, row, policy)
    return with_specials(build, x, build.op("Mul", steps, step), to, policy, clipped=_saturates(to, policy))


def _steps(
    build: Builder, x: onnx_ir.Value, row: ElementType, policy: NarrowPolicy
) -> tuple[onnx_ir.Value, onnx_ir.Value]:
    """Return x, clipped to the largest value, in steps of the format rounded to nearest even; and the step.

    The unit in the first place of x, which is 2**floor(log2(|x|)), is |q - (1 - u) q| for q = (1 / 2u + 1) x and
    u = 2**-24 in arithmetic that rounds to nearest (Rump, Error estimation of floating-point summation and dot
    product, BIT 52, 2012, algorithm 3.6). Divided by 2**p it is the step, but for the subnormals, which have the
    smallest one. Both it and what follows are exact: a quotient by a power of two, and Round.

        e4m3fn, p 3:   x       unit    step    x / step  Round
                       1.07    1       0.125   8.56      9        1.125
                       -0.01   2**-7   2**-9   -5.12     -5       -5 * 2**-9
                       300     256     32      9.375     9        288
    """
    p, last = row.mantissa_bits, float(row.max)
    bound = last if _saturates(row.dtype, policy) else last + 2.0 ** (top_exponent(row) - p)
    cut = build.op("Clip", x, -bound, bound)
    scaled = build.op("Mul", cut, (2.0**23 + 1) * 2.0**-p)
    below = build.op("Mul", scaled, 1 - 2.0**-24)
    unit = build.op("Abs", build.op("Sub", scaled, below))
    step = build.op("Max", unit, 2.0 ** (row.min_exponent - p))
    return build.op("Round", build.op("Div", cut, step)), step


def _saturates(to: DataType, policy: NarrowPolicy) -> bool:
    corner = corners(to, policy)
    return corner.overflow == corner.largest
