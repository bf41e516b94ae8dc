"""A second, slow definition of Cast in exact rational arithmetic, which shares no code and no table with the first.

The rows below are written out from the format documents, and the tables of special values from the Cast schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt


class Float(NamedTuple):
    """`top`, `inf`, `nan`: codes without sign of the largest number and the specials, None if the type lacks it."""

    dtype: type
    sign: bool
    exponent: int
    mantissa: int
    bias: int
    top: int
    inf: int | None
    nan: int | None


class Int(NamedTuple):
    dtype: type
    low: int
    high: int
    bits: int


FLOATS = {
    "float4e2m1": Float(ml_dtypes.float4_e2m1fn, True, 2, 1, 1, 0x7, None, None),
    "float6e2m3": Float(ml_dtypes.float6_e2m3fn, True, 2, 3, 1, 0x1F, None, None),
    "float6e3m2": Float(ml_dtypes.float6_e3m2fn, True, 3, 2, 3, 0x1F, None, None),
    "float8e4m3fn": Float(ml_dtypes.float8_e4m3fn, True, 4, 3, 7, 0x7E, None, 0x7F),
    "float8e4m3fnuz": Float(ml_dtypes.float8_e4m3fnuz, True, 4, 3, 8, 0x7F, None, 0x80),
    "float8e5m2": Float(ml_dtypes.float8_e5m2, True, 5, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8e5m2fnuz": Float(ml_dtypes.float8_e5m2fnuz, True, 5, 2, 16, 0x7F, None, 0x80),
    "float8e8m0": Float(ml_dtypes.float8_e8m0fnu, False, 8, 0, 127, 0xFE, None, 0xFF),
    "float16": Float(np.float16, True, 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "bfloat16": Float(ml_dtypes.bfloat16, True, 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float": Float(np.float32, True, 8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
    "double": Float(np.float64, True, 11, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000),
}
INTS = {
    "bool": Int(np.bool_, 0, 1, 1),
    "int2": Int(ml_dtypes.int2, -2, 1, 2),
    "uint2": Int(ml_dtypes.uint2, 0, 3, 2),
    "int4": Int(ml_dtypes.int4, -8, 7, 4),
    "uint4": Int(ml_dtypes.uint4, 0, 15, 4),
    "int8": Int(np.int8, -128, 127, 8),
    "uint8": Int(np.uint8, 0, 255, 8),
    "int16": Int(np.int16, -(2**15), 2**15 - 1, 16),
    "uint16": Int(np.uint16, 0, 2**16 - 1, 16),
    "int32": Int(np.int32, -(2**31), 2**31 - 1, 32),
    "uint32": Int(np.uint32, 0, 2**32 - 1, 32),
    "int64": Int(np.int64, -(2**63), 2**63 - 1, 64),
    "uint64": Int(np.uint64, 0, 2**64 - 1, 64),
}
TYPES = (*INTS, *FLOATS)
WIDE_TYPES = ("int32", "uint32", "int64", "uint64", "float", "double")
NARROW_TYPES = tuple(name for name in TYPES if name not in WIDE_TYPES)
PAYLOAD_TYPES = ("float16", "bfloat16", "float", "double")
FLOAT8_TYPES = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")


class Number(NamedTuple):
    """`kind` is "number", "inf" or "nan"; `size` is the magnitude; `payload` a NaN's, as a fraction of the mantissa."""

    negative: bool
    kind: str
    size: Fraction
    payload: Fraction = Fraction(0)


@dataclass(frozen=True)
class Settings:
    saturate: bool = True
    round_mode: str = "up"
    opset: int = 28


# The schema's tables for float8: rows Inf and [x] > FLT_MAX, columns as FLOAT8_TYPES. The negative rows mirror them.
SATURATING_BEFORE_24 = {"inf": ("MAX", "NaN", "MAX", "NaN"), "over": ("MAX", "MAX", "MAX", "MAX")}
SATURATING_FROM_24 = {"inf": ("MAX", "MAX", "MAX", "MAX"), "over": ("MAX", "MAX", "MAX", "MAX")}
NOT_SATURATING = {"inf": ("NaN", "NaN", "Inf", "NaN"), "over": ("NaN", "NaN", "Inf", "NaN")}
E8M0_MIN, E8M0_MAX = Fraction(1, 2**127), Fraction(2**127)


def unsigned(name: str) -> np.dtype[np.unsignedinteger]:
    """The unsigned type as wide as one stored element."""
    row = FLOATS.get(name) or INTS[name]
    return np.dtype(f"u{np.dtype(row.dtype).itemsize}")


def array_of(name: str, codes: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """The array of type `name` whose stored elements are `codes`."""
    row = FLOATS.get(name) or INTS[name]
    return np.asarray(codes, unsigned(name)).view(row.dtype)


def all_codes(name: str) -> range:
    """Every code of a type of at most 16 bits."""
    if name in INTS:
        return range(2 ** INTS[name].bits)
    row = FLOATS[name]
    return range(2 ** (row.sign + row.exponent + row.mantissa))


@cache
def all_numbers(name: str) -> tuple[Number, ...]:
    """Return the numbers that `all_codes` stand for."""
    return tuple(decode(name, code) for code in all_codes(name))


def decode(name: str, code: int) -> Number:
    """Return the number that one code stands for."""
    if name in INTS:
        row = INTS[name]
        value = code - 2**row.bits if code > row.high else code
        return Number(value < 0, "number", Fraction(abs(value)))
    return _decode_float(FLOATS[name], code)


def _decode_float(row: Float, code: int) -> Number:
    sign_bit = 1 << (row.exponent + row.mantissa) if row.sign else 0
    negative, size = bool(code & sign_bit), code & ~sign_bit
    if code == row.nan or (row.nan != sign_bit and size > (row.top if row.inf is None else row.inf)):
        return Number(negative, "nan", Fraction(0), Fraction(size % 2**row.mantissa, 2**row.mantissa))
    if size == row.inf:
        return Number(negative, "inf", Fraction(0))
    exponent, mantissa = divmod(size, 2**row.mantissa)
    if exponent == 0 and row.sign:
        return Number(negative, "number", Fraction(mantissa) * Fraction(2) ** (1 - row.bias - row.mantissa))
    significand = 2**row.mantissa + mantissa
    return Number(negative, "number", significand * Fraction(2) ** (exponent - row.bias - row.mantissa))


def encode(x: Number, name: str, settings: Settings, *, keep_payload: bool) -> int:
    """The code of `x` in the type `name`; `keep_payload` says that a NaN comes from a type whose payload counts."""
    if name == "bool":
        return int(x.kind != "number" or x.size != 0)
    if name in INTS:
        return _to_integer(x, INTS[name]) % 2 ** INTS[name].bits
    row = FLOATS[name]
    if name == "float8e8m0":
        return _to_e8m0(x, settings)
    sign = (1 << (row.exponent + row.mantissa)) * x.negative
    if x.kind == "nan":
        return _nan(x, name, sign, keep_payload=keep_payload)
    size = None if x.kind == "inf" else round_even(x.size, row)
    if size is not None and size <= row.top:
        return size if size == 0 and row.nan == 0x80 else size | sign
    outcome = _out_of_range(name, "inf" if x.kind == "inf" else "over", settings)
    if outcome == "NaN":
        assert row.nan is not None
        return row.nan | sign
    size = row.top if outcome == "MAX" else row.inf
    assert size is not None
    return size | sign


def _out_of_range(name: str, what: str, settings: Settings) -> str:
    if name in FLOAT8_TYPES:
        saturating = SATURATING_FROM_24 if settings.opset >= 24 else SATURATING_BEFORE_24
        return (saturating if settings.saturate else NOT_SATURATING)[what][FLOAT8_TYPES.index(name)]
    return "MAX" if FLOATS[name].inf is None else "Inf"


def _nan(x: Number, name: str, sign: int, *, keep_payload: bool) -> int:
    row = FLOATS[name]
    if row.nan is None:
        return 0 if x.negative else 1 << (row.exponent + row.mantissa)
    if keep_payload and name in PAYLOAD_TYPES:
        return row.nan | sign | int(x.payload * 2**row.mantissa)
    return row.nan | sign


def _to_integer(x: Number, row: Int) -> int:
    """Undefined elements: the nearest extreme, and 0 for NaN."""
    if x.kind == "nan":
        return 0
    if x.kind == "inf":
        return row.low if x.negative else row.high
    whole = x.size.numerator // x.size.denominator
    return max(-whole, row.low) if x.negative else min(whole, row.high)


def floor_log2(size: Fraction) -> int:
    """The exponent e with 2**e <= size < 2**(e + 1)."""
    top, bottom = size.numerator, size.denominator
    guess = top.bit_length() - bottom.bit_length()
    return guess if (top << max(-guess, 0)) >= (bottom << max(guess, 0)) else guess - 1


def round_even(size: Fraction, row: Float) -> int:
    """The code without sign nearest to `size`, ties to even, as if the exponent had no end."""
    top, bottom = size.numerator, size.denominator
    if top == 0:
        return 0
    exponent = max(floor_log2(size), 1 - row.bias)
    shift = row.mantissa - exponent
    top, bottom = (top << shift, bottom) if shift >= 0 else (top, bottom << -shift)
    units, rest = divmod(top, bottom)
    units += 2 * rest > bottom or (2 * rest == bottom and units % 2)
    return units + ((exponent + row.bias - 1) << row.mantissa)


def _to_e8m0(x: Number, settings: Settings) -> int:
    if x.kind == "nan" or (x.negative and (x.kind == "inf" or x.size != 0)):
        return 0xFF
    if x.kind == "inf" or x.size > E8M0_MAX:
        return 0xFE if settings.saturate else 0xFF
    if x.size < E8M0_MIN:
        return 0 if settings.saturate else 0xFF
    exponent = floor_log2(x.size)
    top, bottom = x.size.numerator << max(-exponent, 0), x.size.denominator << max(exponent, 0)
    up = {"up": top > bottom, "down": False, "nearest": 2 * top >= 3 * bottom}[settings.round_mode]
    return exponent + up + 127


def cast_codes(source: str, target: str, numbers: list[Number] | tuple[Number, ...], settings: Settings) -> list[int]:
    """The codes of `numbers`, which are of the type `source`, cast to the type `target`."""
    if source in INTS and target in INTS and target != "bool":
        bits = INTS[target].bits
        return [(-int(x.size) if x.negative else int(x.size)) % 2**bits for x in numbers]
    keep = source in PAYLOAD_TYPES
    return [encode(x, target, settings, keep_payload=keep) for x in numbers]
