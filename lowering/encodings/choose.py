"""Casts to and from the types of at most 8 bits as operators on uint8 codes; one entry point each way.

`encode` makes codes from a tensor of any numeric type, `decode` makes a tensor of any numeric type from codes.
"""

from __future__ import annotations

import enum

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import Builder, dtype_of
from castsmith.lowering.encodings.bitcast import encode_bitcast
from castsmith.lowering.encodings.integer import EXACT_IN_FLOAT, WIDE_INTEGERS, encode_integer, wide
from castsmith.lowering.encodings.ladder import encode_ladder
from castsmith.lowering.encodings.table import encode_scale_ladder, encode_table
from castsmith.lowering.formats import NarrowPolicy, all_codes, encode_array, top_exponent
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import CODED_TYPES, Kind, Specials, element_type, type_name


class Encoding(enum.Enum):
    """An encoding: how codes are made from floats."""

    BITCAST = "bitcast"
    TABLE = "table"
    LADDER = "ladder"


NEEDS_BITCAST = frozenset({Encoding.BITCAST, Encoding.TABLE})
"""Encodings that keep a NaN's sign, and need opset 26."""
DOUBLE_IS_FLOAT = "double-is-float"
"""The one hazard that an encoding does not withstand: ladder, also that of float8e8m0, then rounds a double twice."""
_ENCODERS = {
    Encoding.BITCAST: encode_bitcast,
    Encoding.TABLE: encode_table,
    Encoding.LADDER: encode_ladder,
}


def encode(
    build: Builder,
    x: onnx_ir.Value,
    to: DataType,
    policy: NarrowPolicy,
    sequence: Encoding,
    stored: DataType | None = None,
) -> onnx_ir.Value:
    """Return the uint8 codes of `x` in the type `to`, with one rounding whatever the type of `x`.

    If `x` is uint8 and holds codes, `stored` is their type: then a table of 256 entries gives the result.

    Raises:
        ModelError: The source has no exact encoding (string, complex).
    """
    if stored is not None:
        return decode(build, x, stored, to, policy)
    row = element_type(to)
    if not can_encode(x.dtype, to):
        source = "an unknown type" if x.dtype is None else type_name(x.dtype)
        raise ModelError(f"a cast from {source} to {type_name(to)} has no exact encoding")
    if row.kind is Kind.INTEGER:
        return encode_integer(build, x, to)
    scales = row.specials is Specials.E8M0 and sequence is not Encoding.TABLE
    encoder = encode_scale_ladder if scales else _ENCODERS[sequence]
    return encoder(build, _as_float(build, x, to), to, policy)


def decode(
    build: Builder, codes: onnx_ir.Value, stored: DataType, to: DataType, policy: NarrowPolicy | None = None
) -> onnx_ir.Value:
    """Return the values of the codes of the type `stored`, cast to `to`: a table of 256 entries made by the codec.

    For a type `to` of at most 8 bits the values are its uint8 codes. Exact for every code; where the standard leaves
    the result undefined (NaN to an integer) the table holds the result of the codec.

    Raises:
        ModelError: `to` is string or complex.
    """
    if element_type(to).kind > Kind.FLOATING:
        raise ModelError(f"a cast from {type_name(stored)} to {type_name(to)} has no exact encoding")
    name = f"{type_name(stored)}_to_{type_name(to)}"
    if to in CODED_TYPES:
        return build.look_up(build.constant(encode_array(all_codes(stored), to, policy or NarrowPolicy()), name), codes)
    return build.look_up(build.constant(cast(all_codes(stored), to), name), codes)


def can_encode(source: DataType | None, to: DataType) -> bool:
    """True if `encode` supports a tensor of this type and codes of `to`, one of CODED_TYPES."""
    exact = source in EXACT_IN_FLOAT or source in WIDE_INTEGERS or source == DataType.DOUBLE
    return to in CODED_TYPES and (exact or source in CODED_TYPES)


def _as_float(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """Return the number in float or double, in a form that the cast to `to` does not distinguish from it.

    An integer of 32 or 64 bits is first clamped to +-2**k, the first power of two beyond the largest value of the
    format: a number outside overflows like the bound, and inside a float holds every integer exactly. Not for
    float8e8m0, whose range is wider than theirs.
    """
    if dtype_of(x) not in WIDE_INTEGERS or element_type(to).specials is Specials.E8M0:
        return wide(build, x)
    bound = 2 ** (top_exponent(element_type(to)) + 1)
    clamped = build.op("Min", x, bound)
    if element_type(dtype_of(x)).signed:
        clamped = build.op("Max", clamped, -bound)
    return build.cast(clamped, DataType.FLOAT)
