"""Numbers to and from the codes of a type, each with a single rounding.

A number from a type of at most 16 bits is held exactly in a type that numpy computes with. What is wider is rounded to
odd on its way to a narrower target: the last bit of a number that was not exact is set, so that the rounding which
follows sees on which side of a tie it was. (Boldo and Melquiond, "When double rounding is odd", 2005: two bits more
than the target are enough.)

A NaN that passes between float16, bfloat16, float and double becomes quiet and keeps its sign and the topmost bits of
its payload, as IEEE 754-2019 section 6.2.3 has it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.codec import Array, code_dtype, code_mask, decode_table
from castsmith.numerics.encoding import encode_table
from castsmith.numerics.opsets import Policy
from castsmith.numerics.types import ElementType, Kind

_QUIET_BIT = np.uint32(0x0040_0000)


def widen(codes: Array, row: ElementType) -> Array:
    """The numbers that `codes` (any shape, unsigned) stand for, exactly: bool, an integer type, float32 or float64."""
    if row.bits <= 8:
        return decode_table(row.dtype).take(codes, mode="clip")
    if row.dtype is DataType.BFLOAT16:
        return _quiet((codes.astype(np.uint32) << 16).view(np.float32))
    if row.dtype is DataType.FLOAT16:
        return _quiet(codes.view(np.float16).astype(np.float32))
    return codes.view(row.dtype.numpy())


def narrow(values: Array, row: ElementType, policy: Policy) -> Array:
    """The codes, shaped as `values`, of the numbers `values` (any type that `widen` gives) rounded once to `row`."""
    if row.kind is Kind.BOOLEAN:
        return (values != 0).view(np.uint8)
    if row.kind is Kind.INTEGER:
        return _to_integer(values, row)
    if row.dtype in (DataType.FLOAT, DataType.DOUBLE):
        return values.astype(row.dtype.numpy()).view(code_dtype(row))
    odd = round_to_odd(values)
    if row.dtype is DataType.FLOAT16:
        return _repair_nan(odd.astype(np.float16).view(np.uint16), odd, quiet=0x7E00, dropped_bits=13)
    if row.dtype is DataType.BFLOAT16:
        return _repair_nan(odd.astype(ml_dtypes.bfloat16).view(np.uint16), odd, quiet=0x7FC0, dropped_bits=16)
    return encode_table(row.dtype, policy).take(_table_index(odd.view(np.uint32)), mode="clip")


def round_to_odd(values: Array) -> npt.NDArray[np.float32]:
    """`values` in float32: exact where they fit, else the neighbour whose last bit is set. NaN keeps its sign."""
    if values.dtype == np.float32:
        return values
    if values.dtype.kind in "biu" and values.dtype.itemsize <= 2:
        return values.astype(np.float32)
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
    """Integers in float64, rounded to odd where they need more than its 53 bits."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # Floor division leaves a remainder that is never negative, so OR-ing it in rounds to odd under either sign.
    odd = (values >> 11) | ((values & 0x7FF) != 0)
    fits = (values >> 53) == 0 if values.dtype.kind == "u" else (values >> 53) == (values >> 63)
    return np.where(fits, values.astype(np.float64), odd.astype(np.float64) * 2048)


def _table_index(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """The top 16 bits of each float32 with the lower 16 OR-ed into the last: a low half that is not zero carries."""
    index = bits & np.uint32(0xFFFF)
    index += np.uint32(0xFFFF)
    index |= bits
    index >>= np.uint32(16)
    return index.astype(np.intp)


def _to_integer(values: Array, row: ElementType) -> Array:
    """Integers wrap; floating-point numbers lose their fraction, are held within the range, and NaN becomes 0."""
    storage = code_dtype(row)
    if values.dtype.kind == "f":
        values = _truncate(values.astype(np.float64), row)
    wrapped = values.astype(storage)
    return wrapped & storage.type(code_mask(row)) if row.bits < 8 else wrapped


def _truncate(values: npt.NDArray[np.float64], row: ElementType) -> Array:
    values = np.where(np.isnan(values), 0.0, values)
    low, high = float(row.min), float(row.max)
    if row.bits < 64:
        return np.clip(values, low, high).astype(np.int64)
    # float64 has no 2**63 - 1: `high` is one more than the maximum.
    above = values >= high
    whole = np.maximum(np.where(above, 0.0, values), low).astype(row.dtype.numpy())
    whole[above] = int(row.max)
    return whole


def _quiet(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    nan = np.isnan(values)
    if nan.any():
        values.view(np.uint32)[nan] |= _QUIET_BIT
    return values


def _repair_nan(
    codes: npt.NDArray[np.uint16], values: npt.NDArray[np.float32], *, quiet: int, dropped_bits: int
) -> npt.NDArray[np.uint16]:
    """Give NaNs the payload that the module promises: numpy leaves some signalling, ml_dtypes drops the payload."""
    nan = np.isnan(values)
    if nan.any():
        bits: npt.NDArray[Any] = values.view(np.uint32)[nan]
        payload = (bits & np.uint32(0x7F_FFFF)) >> np.uint32(dropped_bits)
        codes[nan] = ((bits >> np.uint32(16)) & np.uint32(0x8000)) | np.uint32(quiet) | payload
    return codes
