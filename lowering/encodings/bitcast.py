"""Encoding by integer arithmetic on the bits, for targets with BitCast (opset 26): every code exact, NaN signs too."""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder, dtype_of
from castsmith.lowering.formats import NarrowPolicy, corners, sign_bit
from castsmith.numerics.errors import require
from castsmith.numerics.types import ElementType, element_type


def encode_bitcast(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the uint8 codes of the signed format `to`, of at most 8 bits, for a float or double tensor.

    Exact for every bit pattern of the source, NaN included. Needs BitCast, BitShift and the bitwise operators; there
    is no floating-point operation that a compiler could contract, re-associate or flush.
    """
    row, corner = element_type(to), corners(to, policy)
    word, mantissa_bits, source = word_of(build, x)
    magnitude = build.op("BitwiseAnd", word, 0x7FFFFFFF)
    code = _rounded_code(build, magnitude, mantissa_bits, source, row)
    code = build.op("Min", code, corner.overflow)
    infinity = (2**source.exponent_bits - 1) << mantissa_bits
    last_number = infinity if corner.infinity == corner.overflow else infinity - 1
    code = build.op("Where", build.op("Greater", magnitude, last_number), corner.nan, code)
    sign = build.op("BitwiseAnd", build.op("BitShift", word, 32 - row.bits, direction="RIGHT"), sign_bit(row))
    if not row.has_negative_zero:
        sign = build.op("Where", build.op("Equal", code, 0), code, sign)
    # Formats without NaN give -0 for NaN, and +0 for -NaN.
    return build.cast(build.op("BitwiseOr" if row.has_nan else "BitwiseXor", code, sign), DataType.UINT8)


def word_of(build: Builder, x: onnx_ir.Value) -> tuple[onnx_ir.Value, int, ElementType]:
    """Return the value in a uint32, the number of mantissa bits, and the row that locates its exponent.

    A double keeps its upper word, with its lower one OR-ed into the last bit. That is rounding to odd with 21 bits: a
    value between two representable ones becomes the odd one, so that later rounding to 4 bits or fewer still
    distinguishes the sides of a tie, and gives the same as rounding the double itself.
    """
    if dtype_of(x) == DataType.FLOAT:
        row = element_type(dtype_of(x))
        return build.cast(x, DataType.UINT32, "BitCast"), row.mantissa_bits, row
    require(dtype_of(x) == DataType.DOUBLE, f"rounding on the bits of {dtype_of(x).name}")
    row = element_type(dtype_of(x))
    bits = build.cast(x, DataType.UINT64, "BitCast")
    upper = build.cast(build.op("BitShift", bits, 32, direction="RIGHT"), DataType.UINT32)
    lower = build.cast(build.op("BitwiseAnd", bits, 0xFFFFFFFF), DataType.UINT32)
    return build.op("BitwiseOr", upper, build.op("Min", lower, 1)), row.mantissa_bits - 32, row


def _rounded_code(
    build: Builder, magnitude: onnx_ir.Value, mantissa_bits: int, source: ElementType, row: ElementType
) -> onnx_ir.Value:
    """Return the code of the magnitude rounded to nearest even, continuing past the largest code.

    With m and p mantissa bits, the significand (implicit bit at m) is shifted right until its last bit is worth one
    step of the format: by m - p in a normal binade, by one more for each binade below. From p + 2 more on the result
    is 0, whatever the significand. The rounded significand still has its implicit bit at p, which counts as the first
    exponent, so adding (binades above the first) << p gives the code; a carry out of the significand lands right too.

        float to e4m3fn    x       exponent  shift  rounded  above   code
                           1.0     127       20     0b1000   6       0x38
                           1.9375  127       20     0b10000  6       0x40  = 2.0, by carry
                           2**-9   118       23     0b0001   0       0x01  the smallest
                           2**-10  117       24     0b0000   0       0x00  a tie, to even
    """
    p, m = row.mantissa_bits, mantissa_bits
    first = row.min_exponent + source.bias
    exponent = build.op("BitShift", magnitude, m, direction="RIGHT")
    significand = build.op("BitwiseOr", build.op("BitwiseAnd", magnitude, 2**m - 1), 2**m)
    normal = build.op("Max", exponent, first)
    below = build.op("Min", build.op("Sub", normal, exponent), p + 2)
    shift = build.op("Add", below, m - p)
    unit_code = build.constant(np.array(1, np.uint32))
    unit = build.op("BitShift", unit_code, build.op("Sub", shift, 1), direction="LEFT")
    odd = build.op("BitwiseAnd", build.op("BitShift", significand, shift, direction="RIGHT"), 1)
    nudged = build.op("Add", significand, build.op("Sub", build.op("Add", unit, odd), 1))
    rounded = build.op("BitShift", nudged, shift, direction="RIGHT")
    above = build.op("BitShift", build.op("Sub", normal, first), p, direction="LEFT")
    return build.op("Add", rounded, above)
