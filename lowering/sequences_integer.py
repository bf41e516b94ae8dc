"""Encoding the integers below 8 bits: int4, uint4, int2 and uint2, as two's complement in the low bits of a byte."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.numerics.types import Kind, element_type


def encode_integer(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """The uint8 codes of `x` in the integer type `to`: integers wrap, floats are cut off toward zero.

    Exact wherever the schema defines the result. Elsewhere as the codec: out of range gives the nearest end, NaN 0.

        int4    x     7.9  -7.9  100  NaN    (int32) 23   -1
                code  0x7  0x9   0x7  0x0            0x7  0xf
    """
    assert x.dtype is not None
    row = element_type(to)
    whole = x
    if element_type(x.dtype).kind is Kind.FLOATING:
        wide = x if x.dtype in (DataType.FLOAT, DataType.DOUBLE) else build.cast(x, DataType.FLOAT)
        whole = build.cast(clamped(build, number(build, wide), to), DataType.INT32)
    return build.op("BitwiseAnd", build.cast(whole, DataType.UINT8), 2**row.bits - 1)


def number(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """`x`, NaN as 0."""
    return build.op("Where", build.op("IsNaN", x), 0.0, x)


def clamped(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """`x`, which is no NaN, within the range of the integer type."""
    row = element_type(to)
    return build.op("Max", build.op("Min", x, float(row.max)), float(row.min))
