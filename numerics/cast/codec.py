"""Rounding to a type of at most 8 bits by one table look-up; the tables are computed by exact arithmetic.

Codes are unsigned integers as stored: one per byte for types of at most 8 bits, in the low bits of the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.types import ElementType, Kind, Specials, element_type

Array = npt.NDArray[Any]
Conversion = Callable[[Array], Array]
"""Returns the codes of the target for those of the source, both one-dimensional."""


def code_dtype(row: ElementType) -> np.dtype[Any]:
    """Return the unsigned integer dtype that holds one stored element of `row`, in native byte order."""
    return np.dtype(f"u{row.dtype.numpy().itemsize}")


def code_mask(row: ElementType) -> int:
    """Return the mask of the bits of a stored element that belong to its value."""
    return 2**row.bits - 1


@lru_cache(maxsize=32)
def magnitudes(dtype: DataType) -> npt.NDArray[np.float64]:
    """Return the finite values of the codes without a sign bit, in order of code, which is the order of value.

    Exact: float64 holds every value of a type of at most 8 bits.
    """
    row = element_type(dtype)
    codes = np.arange(2 ** (row.exponent_bits + row.mantissa_bits), dtype=np.int64)
    exponent, mantissa = codes >> row.mantissa_bits, codes & (2**row.mantissa_bits - 1)
    has_subnormals = row.specials is not Specials.E8M0
    normal = (exponent > 0) | (not has_subnormals)
    significand = mantissa + (normal << row.mantissa_bits)
    scale = np.maximum(exponent, int(has_subnormals)) - row.bias - row.mantissa_bits
    values = np.ldexp(significand.astype(np.float64), scale)
    return values[values <= float(row.max)]


@lru_cache(maxsize=32)
def decode_table(dtype: DataType) -> Array:
    """Return the number that each of the 256 bytes stands for; bits above the type's width are ignored.

    Values are bool, int8, uint8, or float32 (exact; NaN is quiet, its sign the top bit of the code).
    """
    row = element_type(dtype)
    codes = np.arange(256, dtype=np.uint8)
    if row.kind is Kind.BOOLEAN:
        return codes != 0
    codes &= code_mask(row)
    if row.kind is Kind.INTEGER:
        unused = 8 - row.bits
        return (codes << unused).view(np.int8) >> unused if row.signed else codes
    return _decode_floats(row, codes)


def _decode_floats(row: ElementType, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    unsigned_bits = row.bits - row.signed
    least = magnitudes(row.dtype).astype(np.float32)
    values = np.full(2**unsigned_bits, np.nan, np.float32)
    values[: least.size] = least
    if row.has_infinity:
        values[least.size] = np.inf
    bits = values.view(np.uint32)[codes & (2**unsigned_bits - 1)]
    bits |= (codes >> unsigned_bits).astype(np.uint32) << 31
    if row.specials is Specials.FNUZ:
        bits[codes == nan_code(row)] = 0xFFC00000
    return bits.view(np.float32)


def nan_code(row: ElementType) -> int:
    """Return the code without a sign that a NaN becomes: a quiet NaN if the type distinguishes it.

    Types without NaN use the code of zero; see `encode_table` for its sign.
    """
    if row.specials is Specials.FNUZ:
        return 1 << (row.bits - 1)
    if row.specials is Specials.IEEE:
        quiet_bit = 1 << (row.mantissa_bits - 1)
        return ((2**row.exponent_bits - 1) << row.mantissa_bits) | quiet_bit
    return 2 ** (row.exponent_bits + row.mantissa_bits) - 1 if row.has_nan else 0


_INFINITY_INDEX = 0x7F80
"""The top 16 bits of float32 infinity; every larger index without a sign is a NaN."""


@lru_cache(maxsize=64)
def encode_table(dtype: DataType, policy: Policy) -> npt.NDArray[np.uint8]:
    """Return the code of each float32, indexed by its top 16 bits with every lower bit OR-ed into the last of them.

    That index rounds to odd. A target of at most 3 mantissa bits has neither a value nor a tie at an odd index, so the
    index represents all numbers that map to it. Shape (65536,).

    A NaN without a sign becomes -0 in float4e2m1 and float6, and one with a sign +0. The standard leaves both open; the
    result agrees with ml_dtypes and the ONNX backend node tests.
    """
    row = element_type(dtype)
    positive = _encode_positive(row, policy)
    if row.specials is Specials.E8M0:
        return np.concatenate([positive, _encode_negative_e8m0(row, positive)])
    sign = 1 << (row.bits - 1)
    negative = positive | np.uint8(sign)
    if row.specials is Specials.FNUZ:
        negative[positive == 0] = 0
    if not row.has_nan:
        positive[_INFINITY_INDEX + 1 :], negative[_INFINITY_INDEX + 1 :] = sign, 0
    return np.concatenate([positive, negative])


def _encode_positive(row: ElementType, policy: Policy) -> npt.NDArray[np.uint8]:
    indices = np.arange(2**15, dtype=np.uint32)
    numbers = (indices << 16).view(np.float32)[:_INFINITY_INDEX].astype(np.float64)
    nan, top = nan_code(row), magnitudes(row.dtype).size - 1
    codes = np.full(2**15, nan, np.uint8)
    if row.specials is Specials.E8M0:
        codes[:_INFINITY_INDEX] = _round_e8m0(row, numbers, policy)
        codes[_INFINITY_INDEX] = top if policy.saturate else nan
        return codes
    overflow = top + 1  # infinity, or the NaN of a type without it
    rounded = _round_to_even(row, numbers)
    codes[:_INFINITY_INDEX] = np.where(rounded > top, top if policy.saturate else overflow, rounded)
    codes[_INFINITY_INDEX] = top if policy.infinity_saturates else overflow
    return codes


def _round_to_even(row: ElementType, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the codes of the nearest magnitudes; one past the last code for values that round beyond the maximum."""
    values = magnitudes(row.dtype)
    next_value = 2 * values[-1] - values[-2]
    values = np.append(values, next_value)
    ties = (values[:-1] + values[1:]) / 2
    below, above = np.searchsorted(ties, numbers, "left"), np.searchsorted(ties, numbers, "right")
    return np.where(below % 2 == 0, below, above)


def _round_e8m0(row: ElementType, numbers: npt.NDArray[np.float64], policy: Policy) -> npt.NDArray[np.intp]:
    """Return the codes by the schema's table, which compares x itself, not x rounded, with the extremes."""
    values = magnitudes(row.dtype)
    if policy.round_mode == "up":
        codes = np.searchsorted(values, numbers, "left")
    elif policy.round_mode == "down":
        codes = np.searchsorted(values, numbers, "right") - 1
    else:
        codes = np.searchsorted((values[:-1] + values[1:]) / 2, numbers, "right")
    if policy.saturate:
        return np.clip(codes, 0, values.size - 1)
    return np.where((numbers < values[0]) | (numbers > values[-1]), nan_code(row), codes)


def _encode_negative_e8m0(row: ElementType, positive: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    codes = np.full_like(positive, nan_code(row))
    codes[0] = positive[0]
    return codes
