"""Encoding by one look-up in a table of at most 16384 codes, for targets with BitCast: the fastest."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder, dtype_of
from castsmith.lowering.encodings.bitcast import encode_bitcast
from castsmith.lowering.encodings.ladder import by_sums
from castsmith.lowering.formats import NarrowPolicy, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import require
from castsmith.numerics.types import Specials, element_type, type_name

# float8e8m0 is a power of two without sign or zero. `up` and `down` take the next power of two on that side and
# `nearest` breaks ties upward; numbers outside 2**-127 to 2**127 give the end of the range, or NaN without saturation.
# A negative number gives NaN, -0 the same as 0.

_NAN, _LARGEST, _BIAS = 255, 254, 127
_BELOW = 26
"""Numbers above 1 are divided by this power of two, so that no intermediate result overflows."""


def encode_scale_ladder(build: Builder, x: onnx_ir.Value, _to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the codes by the nearest power of two, for opsets before BitCast.

    x is scaled by 2**-26, or by 2**101 up to 1, so that sums round it to the nearest power of two, ties upward. The
    logarithm of that is an integer, so it need only be right to half a unit. Then x is compared with the power. A
    double is rounded as a float, which may take it to a tie, and compared as a double.

        x           t           power    log2 + 26 or 153
        3.0         3 * 2**-26  2**-24   129, and t is below the power: 128 for `down`
        2**-127     2**-26      2**-26   0
        2**-149     2**-26      2**-26   0: t is at least the power of the code 0
    """
    require(x.dtype in (DataType.FLOAT, DataType.DOUBLE), f"rounding of {x.dtype} by a table")
    row, first = element_type(DataType.FLOAT8E8M0), 2.0**-_BELOW
    largest = float(row.max)
    large = build.op("Greater", x, 1.0)
    scale = build.op("Where", large, first, first * 2.0**_BIAS, dtype=x.dtype)
    scaled = build.op("Mul", build.op("Min", x, largest * 1.5), scale)
    t = build.op("Max", scaled, first)
    power = by_sums(build, build.cast(t, DataType.FLOAT), row)
    # The half makes the Cast to integer round.
    zero = build.op("Where", large, _BIAS + _BELOW + 0.5, _BELOW + 0.5, dtype=DataType.FLOAT)
    code = build.op("Add", build.op("Mul", build.op("Log", power), 1 / math.log(2)), zero)
    power = build.cast(power, dtype_of(x))
    if policy.round_mode == "up":
        code = build.op("Add", code, build.cast(build.op("Greater", t, power), DataType.FLOAT))
    elif policy.round_mode == "down" or x.dtype == DataType.DOUBLE:
        bound = power if policy.round_mode == "down" else build.op("Mul", power, 0.75)
        code = build.op("Sub", code, build.cast(build.op("Less", t, bound), DataType.FLOAT))
    code = build.op("Min", code, float(_LARGEST))
    # The smallest number is subnormal in float, so a runtime may take it for 0, but not the scaled one.
    below = build.op("Less", x, 0.0) if policy.saturate else build.op("Less", scaled, first)
    wrong = build.op("Or", build.op("IsNaN", x), below)
    if not policy.saturate:
        wrong = build.op("Or", wrong, build.op("Greater", x, largest))
    return build.cast(build.op("Where", wrong, float(_NAN), code), DataType.UINT8)


_FLOAT = element_type(DataType.FLOAT)


def encode_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the uint8 codes of the format `to`, of at most 8 bits, for a float tensor; a double is encoded by bitcast.

    With p mantissa bits in the format, the sign, the exponent and p + 2 bits of the mantissa of a float, the last of
    them set if any lower bit is, are the value rounded to odd. Rounding that to p bits gives the same as rounding the
    float: a value above, below or on a tie stays so. The codec's codes of the 2**(p + 11) floats whose other bits are
    zero are therefore sufficient: 16 KiB for p = 3, 8 KiB for p = 2.

        x                   upper 14, sticky  the corresponding float  e4m3fn
        1.0625              0x0fe2            1.0625, a tie            0x38 = 1.0
        1.0625 + 2**-20     0x0fe3            1.09375                  0x39 = 1.125
        NaN 0xff800001      0x3fe1            NaN, negative            0xff
    """
    if x.dtype != DataType.FLOAT:
        e8m0 = element_type(to).specials is Specials.E8M0
        return (encode_scale_ladder if e8m0 else encode_bitcast)(build, x, to, policy)
    table = build.constant(encode_array(_floats(to), to, policy), f"float_to_{type_name(to)}")
    return build.look_up(table, _index(build, x, to))


def round_by_table(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the result of a Cast of the float tensor to `to` and back, by the same look-up with decoded codes."""
    codes = encode_array(_floats(to), to, policy).view(to.numpy())
    table = build.constant(cast(codes, DataType.FLOAT), f"float_as_{type_name(to)}")
    return build.look_up(table, _index(build, x, to))


def _shift(to: DataType) -> int:
    """Return the number of low bits of a float that matter only as one sticky bit."""
    row = element_type(to)
    # float8e8m0 also covers subnormal floats, and has one mantissa bit less.
    guards = 2 if row.min_exponent >= _FLOAT.min_exponent else 3
    return _FLOAT.mantissa_bits - row.mantissa_bits - guards


def _floats(to: DataType) -> npt.NDArray[np.float32]:
    return (np.arange(2 ** (32 - _shift(to)), dtype=np.uint32) << _shift(to)).view(np.float32)


def _index(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    word = build.cast(x, DataType.UINT32, "BitCast")
    sticky = build.op("Min", build.op("BitwiseAnd", word, 2 ** _shift(to) - 1), 1)
    upper = build.op("BitShift", word, _shift(to), direction="RIGHT")
    return build.op("BitwiseOr", upper, sticky)
