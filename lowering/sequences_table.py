"""Encoding by one look-up in 65536 codes, for targets with BitCast: the fastest, for 64 KiB more in the model."""

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


def encode_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: Policy) -> onnx_ir.Value:
    """The uint8 codes of the format `to`, of at most 8 bits, for a float tensor; a double goes the way of bitcast.

    The upper 16 bits of a float, with a 1 OR-ed into their last where any lower bit is set, are the value rounded to
    odd with 8 significant bits. Rounding those to 4 or fewer gives what rounding the float would: what was above,
    below or on a tie still is. So the codec's codes of the 65536 floats whose lower half is zero are all there is.

        x                   upper, sticky  the float it stands for  e4m3fn
        1.0625              0x3f88         1.0625, a tie            0x38 = 1.0
        1.0625 + 2**-20     0x3f89         1.0703125                0x39 = 1.125
        NaN 0xff800001      0xff81         NaN, negative            0xff
    """
    if x.dtype != DataType.FLOAT:
        e8m0 = element_type(to).specials is Specials.E8M0
        return (encode_scale_bits if e8m0 else encode_bitcast)(build, x, to, policy)
    table = build.constant(encode_array(_floats(), to, policy), f"float_to_{type_name(to)}")
    return build.look_up(table, _index(build, x))


def round_by_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: Policy) -> onnx_ir.Value:
    """What a Cast of the float tensor to `to` and back gives, by the same look-up: the codes in the table, decoded."""
    codes = encode_array(_floats(), to, policy).view(to.numpy())
    table = build.constant(cast(codes, DataType.FLOAT), f"float_as_{type_name(to)}")
    return build.look_up(table, _index(build, x))


def _floats() -> npt.NDArray[np.float32]:
    return (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)


def _index(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    word = build.cast(x, DataType.UINT32, "BitCast")
    sticky = build.op("Min", build.op("BitwiseAnd", word, 0xFFFF), 1)
    upper = build.op("BitShift", word, 16, direction="RIGHT")
    return build.op("BitwiseOr", upper, sticky)
