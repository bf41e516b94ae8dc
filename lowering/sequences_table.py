"""Encoding by one look-up in a table of at most 16384 codes, for targets with BitCast: the fastest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import Policy, encode_array
from castsmith.lowering.sequences_bitcast import encode_bitcast
from castsmith.lowering.sequences_scale import encode_scale_bits
from castsmith.numerics.cast import cast
from castsmith.numerics.types import Specials, element_type, type_name

_FLOAT = element_type(DataType.FLOAT)


def encode_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: Policy) -> onnx_ir.Value:
    """The uint8 codes of the format `to`, of at most 8 bits, for a float tensor; a double goes the way of bitcast.

    With p mantissa bits in the format, the sign, the exponent and p + 2 bits of the mantissa of a float, a 1 OR-ed into
    the last of them where any lower bit is set, are the value rounded to odd. Rounding that to p bits gives what
    rounding the float would: what was above, below or on a tie still is. So the codec's codes of the 2**(p + 11) floats
    whose other bits are zero are all there is: 16 KiB for p = 3, 8 KiB for p = 2.

        x                   upper 14, sticky  the float it stands for  e4m3fn
        1.0625              0x0fe2            1.0625, a tie            0x38 = 1.0
        1.0625 + 2**-20     0x0fe3            1.09375                  0x39 = 1.125
        NaN 0xff800001      0x3fe1            NaN, negative            0xff
    """
    if x.dtype != DataType.FLOAT:
        e8m0 = element_type(to).specials is Specials.E8M0
        return (encode_scale_bits if e8m0 else encode_bitcast)(build, x, to, policy)
    table = build.constant(encode_array(_floats(to), to, policy), f"float_to_{type_name(to)}")
    return build.look_up(table, _index(build, x, to))


def round_by_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: Policy) -> onnx_ir.Value:
    """What a Cast of the float tensor to `to` and back gives, by the same look-up: the codes in the table, decoded."""
    codes = encode_array(_floats(to), to, policy).view(to.numpy())
    table = build.constant(cast(codes, DataType.FLOAT), f"float_as_{type_name(to)}")
    return build.look_up(table, _index(build, x, to))


def _shift(to: DataType) -> int:
    """How many low bits of a float only matter as to whether any is set."""
    row = element_type(to)
    # float8e8m0 goes on where a float is subnormal, and has one bit of its mantissa less.
    guards = 2 if row.min_exponent >= _FLOAT.min_exponent else 3
    return _FLOAT.mantissa_bits - row.mantissa_bits - guards


def _floats(to: DataType) -> npt.NDArray[np.float32]:
    return (np.arange(2 ** (32 - _shift(to)), dtype=np.uint32) << _shift(to)).view(np.float32)


def _index(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    word = build.cast(x, DataType.UINT32, "BitCast")
    sticky = build.op("Min", build.op("BitwiseAnd", word, 2 ** _shift(to) - 1), 1)
    upper = build.op("BitShift", word, _shift(to), direction="RIGHT")
    return build.op("BitwiseOr", upper, sticky)
