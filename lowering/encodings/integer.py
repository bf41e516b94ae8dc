"""Encoding of integers below 8 bits, and numbers of any type as floats wide enough for one later rounding."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import Builder, dtype_of
from castsmith.numerics.types import Kind, element_type, type_name

# int4, uint4, int2 and uint2 are two's complement in the low bits of a byte.


def encode_integer(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """Return the uint8 codes of `x` in the integer type `to`: integers wrap, floats are truncated.

    Exact wherever the schema defines the result. Elsewhere as the codec: out of range gives the nearest extreme, NaN 0.

        int4    x     7.9  -7.9  100  NaN    (int32) 23   -1
                code  0x7  0x9   0x7  0x0            0x7  0xf
    """
    row = element_type(to)
    integer = x
    if element_type(dtype_of(x)).kind is Kind.FLOATING:
        wide = x if dtype_of(x) in (DataType.FLOAT, DataType.DOUBLE) else build.cast(x, DataType.FLOAT)
        integer = build.cast(clamped(build, number(build, wide), to), DataType.INT32)
    if build.bitwise:
        integer = integer if integer is not x else build.cast(x, DataType.UINT8)  # the low bits of any integer
        return build.cast(build.op("BitwiseAnd", integer, 2**row.bits - 1), DataType.UINT8)
    integer = build.cast(integer, DataType.INT32)
    return build.cast(build.op("Mod", integer, 2**row.bits), DataType.UINT8)  # Mod has the sign of the divisor


def number(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return `x` with NaN replaced by 0."""
    return build.op("Where", build.op("IsNaN", x), 0.0, x)


def clamped(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """Return `x`, which has no NaN, clamped to the range of the integer type."""
    row = element_type(to)
    return build.op("Max", build.op("Min", x, float(row.max)), float(row.min))


EXACT_IN_FLOAT = frozenset({
    DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.BOOL, DataType.INT2, DataType.UINT2, DataType.INT4,
    DataType.UINT4, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16,
})  # fmt: skip
WIDE_INTEGERS = frozenset({DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64})
_DIGITS_OF_DOUBLE = 53
_CUT = 12


def rounds_since(source: DataType | None) -> tuple[int, str]:
    """Return the opset from which numbers of the type can be rounded in place, and the operator that needs it."""
    if source is not None and source in WIDE_INTEGERS and source.bitwidth == 64:
        return 12, f"Min of {type_name(source)}"
    return 11, "Clip with bounds as inputs"


def wide(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return the same numbers in float or double; integers that double does not hold are rounded to odd.

    A number rounded to odd with 42 digits or more stays on the same side of every number and every tie of a type of up
    to 40 digits, so rounding it to such a type gives the same as rounding the integer.

    Raises:
        ModelError: The type has no such form (string, complex).
    """
    if x.dtype in (DataType.FLOAT, DataType.DOUBLE):
        return x
    if x.dtype in EXACT_IN_FLOAT:
        return build.cast(x, DataType.FLOAT)
    dtype = dtype_of(x)
    if dtype not in WIDE_INTEGERS:
        raise ModelError(f"a cast from {type_name(dtype)} has no exact encoding")
    if dtype.bitwidth == 32:
        return build.cast(x, DataType.DOUBLE)
    return _rounded_to_odd(build, x)


def _rounded_to_odd(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return a 64-bit integer in double: from 2**53 on (2 * quotient by 2**12 + 1 if there is a rest) * 2**11.

    x                quotient by 2**12   what is left   2 * quotient + 1 or 0, times 2**11
    2**53 + 2**12    2**41 + 1           0              (2**42 + 2) * 2**11, exact
    2**62 + 1        2**50               1              (2**51 + 1) * 2**11, more than 2**62
    """
    signed = element_type(dtype_of(x)).signed
    bound = 2**_DIGITS_OF_DOUBLE
    near = build.op("Min", x, bound)
    quotient = build.op("Div", x, 2**_CUT)
    sticky = build.op("Min", build.op("Sub", x, build.op("Mul", quotient, 2**_CUT)), 1)
    if signed:
        near, sticky = build.op("Max", near, -bound), build.op("Max", sticky, -1)
    odd = build.cast(build.op("Add", build.op("Mul", quotient, 2), sticky), DataType.DOUBLE)
    far = build.op("Mul", odd, 2.0 ** (_CUT - 1))
    return build.op("Where", build.op("Equal", x, near), build.cast(near, DataType.DOUBLE), far)
