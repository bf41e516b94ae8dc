"""Numbers to and from the codes of a type, each with a single rounding.

A number from a type of at most 16 bits is held exactly in a type that numpy computes with. A wider one is rounded to
odd in float first, so that the second rounding still distinguishes the two sides of a tie. (Boldo and Melquiond, "When
double rounding is odd", 2005.)

A NaN converted between float16, bfloat16, float and double becomes quiet and keeps its sign and the topmost bits of
its payload, as IEEE 754-2019 section 6.2.3 requires.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_dtype, code_mask, decode_table, encode_table
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.types import ElementType, Kind

_QUIET_BIT, _BFLOAT16_QUIET = np.uint32(0x0040_0000), np.uint32(0x7FC0)
_Floats = npt.NDArray[np.float32]

# float16 from float by a sum, since numpy takes 90 ns for each number that underflows, and 6 ns for others where the
# sum takes 4. These are codes of float without a sign.

_SMALLEST_NORMAL = np.uint32(0x3880_0000)  # 2**-14; smaller numbers of float16 are its multiples of 2**-24
_TOO_LARGE = np.uint32(0x4780_0000)  # 2**16: above the largest number of float16, and no rounding carries into it
_INFINITY = np.uint32(0x7F80_0000)

# Takes the code of 2**k to that of 2**(k + 13) plus 2048 times its last bit, which is worth as much as the last bit of
# float16 at 2**k. 2048 is even, so that ties remain ties, and is -((127 - 1) << 10) in 16 bits.
_POWER = np.uint32((13 << 23) + 2048)
_SIGN = np.uint32(0x8000_0000)
_HALF_INFINITY, _HALF_QUIET = np.uint32(0x7C00), np.uint32(0x7E00)
_DROPPED = np.uint32(13)
"""Bits of the mantissa of float that float16 does not have."""


def widen(codes: Array, row: ElementType) -> Array:
    """Return the numbers that `codes` stand for, exactly: bool, an integer type, float32 or float64."""
    if is_native(row):
        return codes.view(row.dtype.numpy())
    if row.bits <= 8:
        return decode_table(row.dtype).take(codes, mode="clip")
    if row.dtype is DataType.FLOAT16:
        return _float_of_half().take(codes, mode="clip")
    bits = codes.reshape(-1).astype(np.uint32) << np.uint32(16)
    return _quiet(bits.view(np.float32)).reshape(codes.shape)


@lru_cache(maxsize=1)
def _float_of_half() -> _Floats:
    """Return the number that each of the 65536 codes of float16 stands for; NaN is quiet and keeps its payload."""
    with np.errstate(all="ignore"):
        return _quiet(np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32))


def _quiet(numbers: _Floats) -> _Floats:
    """Make every NaN a quiet one."""
    numbers.view(np.uint32)[np.isnan(numbers)] |= _QUIET_BIT
    return numbers


def is_native(row: ElementType) -> bool:
    """True if numpy computes with the type as stored: integers of whole bytes, float and double."""
    return (row.bits >= 8 and row.kind is Kind.INTEGER) or row.dtype in (DataType.FLOAT, DataType.DOUBLE)


def narrow(values: Array, row: ElementType, policy: Policy) -> Array:
    """Return the codes of `values` (any dtype that `widen` returns), rounded once to `row`; shaped as `values`."""
    return _narrowed(values.reshape(-1), row, policy).reshape(values.shape)


def _narrowed(values: Array, row: ElementType, policy: Policy) -> Array:
    if row.kind is Kind.BOOLEAN:
        return (values != 0).view(np.uint8)
    if row.kind is Kind.INTEGER:
        return _to_integer(values, row)
    if row.dtype in (DataType.FLOAT, DataType.DOUBLE):
        return values.astype(row.dtype.numpy()).view(code_dtype(row))
    odd = _rounded_to_odd(values)
    if row.dtype is DataType.FLOAT16:
        return _half_of_float(odd)
    if row.dtype is DataType.BFLOAT16:
        return _bfloat16_of_float(odd)
    return encode_table(row.dtype, policy).take(_table_index(odd.view(np.uint32)), mode="clip")


def _rounded_to_odd(values: Array) -> _Floats:
    """Return float32 numbers that round to a type of at most 22 significant bits as `values` do.

    A number between two floats becomes the one whose last bit is 1. NaN keeps its sign.
    """
    if values.dtype == np.float32:
        return values
    exact = _integer_to_odd_double(values) if values.dtype.kind in "iu" else values
    nearest = exact.astype(np.float32)
    even = np.flatnonzero(((nearest < exact) | (nearest > exact)) & (nearest.view(np.uint32) & 1 == 0))
    if even.size:
        towards = np.where(exact[even] > nearest[even], np.float32(np.inf), np.float32(-np.inf))
        nearest[even] = np.nextafter(nearest[even], towards)
    return nearest


def _integer_to_odd_double(values: Array) -> npt.NDArray[np.float64]:
    """Return integers in float64, rounded to odd if they need more than its 53 bits."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # Floor division leaves a remainder that is never negative, so OR-ing it in rounds to odd under either sign.
    odd = (values >> 11) | ((values & 0x7FF) != 0)
    fits = (values >> 53) == 0 if values.dtype.kind == "u" else (values >> 53) == (values >> 63)
    return np.where(fits, values.astype(np.float64), odd.astype(np.float64) * 2048)


def _half_of_float(values: _Floats) -> npt.NDArray[np.uint16]:
    """Return the codes of float16 nearest to `values`, ties to even; NaN is quiet and keeps the top of its payload.

    A number is added to another, 2**13 times its own power of two, which rounds it to float16: the low bits of the sum
    count the last bits of float16 in the number, and those of the other's exponent stand for the exponent. No number
    needs a case of its own unless it is too large.
    """
    bits = values.view(np.uint32)
    size = bits & ~_SIGN
    other = size & _INFINITY
    np.maximum(other, _SMALLEST_NORMAL, out=other)
    other += _POWER
    codes = (size.view(np.float32) + other.view(np.float32)).view(np.uint32)
    other >>= _DROPPED
    codes += other
    if size.max(initial=0) >= _TOO_LARGE:
        large = size >= _TOO_LARGE
        codes[large] = _half_of_large(size[large])
    sign = np.bitwise_and(bits, _SIGN, out=other)  # in the memory of numbers that are no longer needed
    sign >>= np.uint32(16)
    codes |= sign
    return codes.astype(np.uint16)


def _half_of_large(size: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the codes of float16 of numbers of at least 2**16 and of NaN, given as codes of float without a sign."""
    nan = _HALF_QUIET | ((size & np.uint32(0x7F_FFFF)) >> _DROPPED)
    return np.where(size > _INFINITY, nan, _HALF_INFINITY)


def _bfloat16_of_float(values: _Floats) -> npt.NDArray[np.uint16]:
    """Return the codes of bfloat16 nearest to `values`; ml_dtypes drops the payload of NaN."""
    codes, nan = values.astype(ml_dtypes.bfloat16).view(np.uint16), np.isnan(values)
    if nan.any():
        codes[nan] = (values.view(np.uint32)[nan] >> np.uint32(16)) | _BFLOAT16_QUIET
    return codes


def _table_index(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the top 16 bits of each float32, the last bit set if any lower bit is set."""
    return (bits | ((bits & np.uint32(0xFFFF)) + np.uint32(0xFFFF))) >> np.uint32(16)


def _to_integer(values: Array, row: ElementType) -> Array:
    """Convert to an integer type: integers wrap, floating-point numbers are truncated and clamped, NaN becomes 0."""
    storage = code_dtype(row)
    if values.dtype.kind == "f":
        values = _truncated(values, np.dtype(f"i{storage.itemsize}") if row.signed else storage, row)
    wrapped = values.astype(storage)
    return wrapped & storage.type(code_mask(row)) if row.bits < 8 else wrapped


def _truncated(values: Array, target: np.dtype[Any], row: ElementType) -> Array:
    """Return float or double `values` in the integer dtype `target`, in the range of the type.

    What numpy makes of a number out of range depends on the machine.
    """
    low, end = values.dtype.type(float(row.min)), values.dtype.type(2.0 ** (row.bits - row.signed))
    inside: Array = np.clip(values, low, np.nextafter(end, low))
    inside[np.isnan(values)] = 0
    whole = inside.astype(target)
    whole[values >= end] = int(row.max)
    return whole
