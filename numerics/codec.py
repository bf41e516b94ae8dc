"""The numbers that the codes of narrow types stand for, worked out from the rows by exact arithmetic.

Codes are unsigned integers as stored: one per byte for types of at most 8 bits, in the low bits of the byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.types import ElementType, Kind, Specials, element_type

Array = npt.NDArray[Any]


def code_dtype(row: ElementType) -> np.dtype[Any]:
    """The unsigned integer type that holds one stored element of `row`, in native byte order."""
    return np.dtype(f"u{row.dtype.numpy().itemsize}")


def code_mask(row: ElementType) -> int:
    """The bits of a stored element that belong to its value."""
    return 2**row.bits - 1


@lru_cache(maxsize=32)
def magnitudes(dtype: DataType) -> npt.NDArray[np.float64]:
    """The finite values of the codes without a sign bit, in order of code, which is the order of value.

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
    """The number that each of the 256 bytes stands for, bits above the type's width ignored.

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
    known = magnitudes(row.dtype).astype(np.float32)
    values = np.full(2**unsigned_bits, np.nan, np.float32)
    values[: known.size] = known
    if row.has_infinity:
        values[known.size] = np.inf
    bits = values.view(np.uint32)[codes & (2**unsigned_bits - 1)]
    if row.signed:
        bits |= (codes >> unsigned_bits).astype(np.uint32) << 31
    if row.specials is Specials.FNUZ:
        bits[codes == nan_code(row)] = 0xFFC00000
    return bits.view(np.float32)


def nan_code(row: ElementType) -> int:
    """The code without a sign that a NaN becomes: quiet where the type can tell.

    Types without NaN take zero's code; see `encode_table` for its sign.
    """
    if row.specials is Specials.FNUZ:
        return 1 << (row.bits - 1)
    if row.specials is Specials.IEEE:
        quiet_bit = 1 << (row.mantissa_bits - 1)
        return ((2**row.exponent_bits - 1) << row.mantissa_bits) | quiet_bit
    return 2 ** (row.exponent_bits + row.mantissa_bits) - 1 if row.has_nan else 0
