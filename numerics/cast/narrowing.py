"""Numbers to and from the codes of a type, each with a single rounding.

A number from a type of at most 16 bits is held exactly in a type that numpy computes with. A wider one is rounded to
odd before it is rounded to a narrower target: the last bit of an inexact number is set, so that the second rounding
still distinguishes the two sides of a tie. (Boldo and Melquiond, "When double rounding is odd", 2005: two bits more
than the target are enough.)

A NaN converted between float16, bfloat16, float and double becomes quiet and keeps its sign and the topmost bits of
its payload, as IEEE 754-2019 section 6.2.3 requires.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_dtype, code_mask, decode_table, encode_table
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.types import ElementType, Kind

Words = npt.NDArray[np.uint32]

# float16 to and from float by integer arithmetic, because numpy's own takes 60 ns for each number that underflows.
# These are codes of float without a sign; NaNs become infinity or NaN, which the callers correct.

# 2**-14, the smallest normal number of float16: below it, adding 1/2 in float rounds to the multiple of 2**-24 that the
# code of a subnormal counts, and leaves the count in the low bits.
_SMALLEST_NORMAL = np.uint32(0x3880_0000)
_EXPONENTS = np.uint32(0x3800_0000)  # the difference of the exponent biases, 112, in the exponent's bits
_HALF = np.uint32(0x3F00_0000)  # 1/2
_SIGN, _INFINITY = np.uint32(0x8000_0000), np.uint32(0x7C00)


def half_of_float(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return the codes of float16 nearest to `values`, ties to even, NaN excepted; shaped as `values`."""
    bits = values.view(np.uint32)
    size = bits & ~_SIGN
    rounded = size >> np.uint32(13)
    rounded &= np.uint32(1)
    rounded += size
    rounded += np.uint32(0xFFF) - _EXPONENTS  # wraps for subnormals, which the next step replaces
    rounded >>= np.uint32(13)
    np.minimum(rounded, _INFINITY, out=rounded)
    subnormal = size < _SMALLEST_NORMAL
    if subnormal.any():
        counted = (size.view(np.float32) + np.float32(0.5)).view(np.uint32)
        np.subtract(counted, _HALF, out=rounded, where=subnormal)
    size ^= bits
    size >>= np.uint32(16)
    rounded |= size
    return rounded.astype(np.uint16)


def float_of_half(codes: npt.NDArray[np.uint16], out: Words) -> None:
    """Write the codes of the float numbers that the float16 `codes` stand for to `out`, NaN with its payload."""
    np.bitwise_and(codes, np.uint16(0x7FFF), out=out, casting="safe", dtype=np.uint32)
    subnormal = out < np.uint32(0x400)
    special = out >= _INFINITY
    counted = (out | _HALF).view(np.float32) - np.float32(0.5) if subnormal.any() else None
    out <<= np.uint32(13)
    out += _EXPONENTS
    if special.any():
        out[special] += _EXPONENTS
    if counted is not None:
        np.copyto(out, counted.view(np.uint32), where=subnormal)
    sign = codes & np.uint16(0x8000)
    out |= sign.astype(np.uint32) << np.uint32(16)


_QUIET_BIT = np.uint32(0x0040_0000)
_ALL_FIT = 2**24
_BELOW_TIES = np.uint32(0x0FFF)


def widen(codes: Array, row: ElementType) -> Array:
    """Return the numbers that `codes` stand for, exactly: bool, an integer type, float32 or float64."""
    if is_native(row):
        return codes.view(row.dtype.numpy())
    if row.bits <= 8:
        return decode_table(row.dtype).take(codes, mode="clip")
    bits = np.empty(codes.shape, np.uint32)
    widen_half(codes, row, bits)
    return bits.view(np.float32)


def widen_half(codes: Array, row: ElementType, out: npt.NDArray[np.uint32]) -> None:
    """Write the codes of the float32 numbers that the float16 or bfloat16 `codes` stand for to `out`."""
    if row.dtype is DataType.FLOAT16:
        float_of_half(codes, out)
    else:
        np.copyto(out.view(np.float32), codes.view(ml_dtypes.bfloat16))
    if _holds_nan(out.view(np.float32)):
        out[np.isnan(out.view(np.float32))] |= _QUIET_BIT


def look_up(table: Array, codes: Array, out: Array) -> None:
    """Write the entries of `table` at `codes`, each below the table's length, to `out`, which has the table's dtype."""
    table.take(codes, out=out, mode="clip")


def is_native(row: ElementType) -> bool:
    """True if numpy computes with the type as stored: integers of whole bytes, float and double."""
    return (row.bits >= 8 and row.kind is Kind.INTEGER) or row.dtype in (DataType.FLOAT, DataType.DOUBLE)


def narrow(values: Array, row: ElementType, policy: Policy) -> Array:
    """Return the codes of `values` (any dtype that `widen` returns), rounded once to `row`; shaped as `values`."""
    if row.kind is Kind.BOOLEAN:
        return (values != 0).view(np.uint8)
    if row.kind is Kind.INTEGER:
        return _to_integer(values, row)
    if row.dtype in (DataType.FLOAT, DataType.DOUBLE):
        return values.astype(row.dtype.numpy()).view(code_dtype(row))
    odd = round_to_odd_at_ties(values)
    if row.dtype is DataType.FLOAT16:
        return _repair_nan(half_of_float(odd), odd, quiet=0x7E00, dropped_bits=13)
    if row.dtype is DataType.BFLOAT16:
        return _repair_nan(odd.astype(ml_dtypes.bfloat16).view(np.uint16), odd, quiet=0x7FC0, dropped_bits=16)
    return encode_table(row.dtype, policy).take(_table_index(odd.view(np.uint32)), mode="clip")


def narrow_into(out: Array, values: Array, row: ElementType, policy: Policy) -> None:
    """Write what `narrow` returns to `out`, without an array in between where numpy or ml_dtypes converts alike."""
    is_float = values.dtype.kind == "f"
    if is_float and row.kind is Kind.INTEGER and row.bits >= 8 and _are_within(values, row):
        np.copyto(out.view(_stored(row)), values, casting="unsafe")
    elif row.dtype is DataType.BFLOAT16 and (values.dtype == np.float32 or _fit(values)):
        np.copyto(out.view(ml_dtypes.bfloat16), values, casting="unsafe")
        if is_float and _holds_nan(values):
            _repair_nan(out, values, quiet=0x7FC0, dropped_bits=16)
    else:
        np.copyto(out, narrow(values, row, policy))


def round_to_odd_at_ties(values: Array) -> npt.NDArray[np.float32]:
    """Return float32 numbers that round to every type of at most 11 significant bits as `values` do.

    Values and ties of such a type are float32 numbers whose last 12 bits are zero. Rounding to nearest is wrong only
    if it reaches one of these from another number, so rounding those cases to odd is enough. NaN keeps its sign.
    """
    if values.dtype == np.float32:
        return values
    nearest = values.astype(np.float32)
    if not _fit(values):
        bits = nearest.view(np.uint32)
        suspects = np.flatnonzero((bits & _BELOW_TIES) == 0)
        if suspects.size:
            bits[suspects] = _round_to_odd(values.reshape(-1)[suspects]).view(np.uint32)
    return nearest


def _fit(values: Array) -> bool:
    """True if `values` are integers, or bool, that float32 always represents exactly."""
    if values.dtype.kind == "f" or values.dtype.itemsize <= 2:
        return values.dtype.kind != "f"
    return bool(values.max(initial=0) <= _ALL_FIT and values.min(initial=0) >= -_ALL_FIT)


def _round_to_odd(values: Array) -> npt.NDArray[np.float32]:
    """Return `values` of 32 bits or more in float32: exact, or the neighbour whose last bit is set."""
    double = _integer_to_odd_double(values) if values.dtype.kind in "iu" else values
    nearest = double.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32)
    move = (back != double) & (bits & 1 == 0) & ~np.isnan(double)
    away_from_zero = np.abs(back) > np.abs(double)
    bits += move
    bits -= (move & away_from_zero) * np.uint32(2)
    return nearest


def _integer_to_odd_double(values: Array) -> npt.NDArray[np.float64]:
    """Return integers in float64, rounded to odd if they need more than its 53 bits."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # Floor division leaves a remainder that is never negative, so OR-ing it in rounds to odd under either sign.
    odd = (values >> 11) | ((values & 0x7FF) != 0)
    fits = (values >> 53) == 0 if values.dtype.kind == "u" else (values >> 53) == (values >> 63)
    return np.where(fits, values.astype(np.float64), odd.astype(np.float64) * 2048)


def _table_index(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return the top 16 bits of each float32, the last bit set if any lower bit is set."""
    index = bits & np.uint32(0xFFFF)
    index += np.uint32(0xFFFF)
    index |= bits
    index >>= np.uint32(16)
    return index.astype(np.intp)


def _to_integer(values: Array, row: ElementType) -> Array:
    """Convert to an integer type: integers wrap, floating-point numbers are truncated and clamped, NaN becomes 0."""
    storage = code_dtype(row)
    if values.dtype.kind == "f":
        values = _truncate(values, row)
    wrapped = values.astype(storage, copy=False)
    return wrapped & storage.type(code_mask(row)) if row.bits < 8 else wrapped


def _stored(row: ElementType) -> np.dtype[Any]:
    """Return the integer dtype that stores `row`."""
    return np.dtype(f"i{code_dtype(row).itemsize}") if row.signed else code_dtype(row)


def _are_within(values: npt.NDArray[np.floating[Any]], row: ElementType) -> bool:
    """True if no number is NaN, or out of range for the integer type `row`."""
    low, end = values.dtype.type(row.min), values.dtype.type(row.max + 1)
    return bool(values.min(initial=0) >= low and values.max(initial=0) < end)


def _truncate(values: npt.NDArray[np.floating[Any]], row: ElementType) -> Array:
    """Truncate to integers of the dtype that stores `row`.

    The bounds are zero or powers of two, exact in every source type.
    """
    stored = _stored(row)
    if _are_within(values, row):
        return values.astype(stored)
    low, end = values.dtype.type(row.min), values.dtype.type(row.max + 1)
    whole = np.clip(values, low, np.nextafter(end, low)).astype(stored)
    whole[values >= end] = int(row.max)
    whole[np.isnan(values)] = 0
    return whole


def _holds_nan(values: npt.NDArray[np.floating[Any]]) -> bool:
    """True if a number is NaN: the maximum, which takes less time than asking each, is NaN then."""
    return bool(np.isnan(values.max(initial=0)))


def _repair_nan(
    codes: npt.NDArray[np.uint16], values: npt.NDArray[np.float32], *, quiet: int, dropped_bits: int
) -> npt.NDArray[np.uint16]:
    """Set the payload of NaNs as the module documents: numpy leaves some signalling, ml_dtypes drops the payload."""
    nan = np.isnan(values)
    if nan.any():
        bits: npt.NDArray[Any] = values.view(np.uint32)[nan]
        payload = (bits & np.uint32(0x7F_FFFF)) >> np.uint32(dropped_bits)
        codes[nan] = ((bits >> np.uint32(16)) & np.uint32(0x8000)) | np.uint32(quiet) | payload
    return codes
