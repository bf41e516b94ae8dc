"""Numbers to and from the codes of a type, each with a single rounding.

A number from a type of at most 16 bits is held exactly in a type that numpy computes with. A wider one is rounded to
float first, such that the second rounding still distinguishes the two sides of a tie: a float that is a tie of the
target, and is not the number, gives way to its neighbour. (A form of rounding to odd; Boldo and Melquiond, "When double
rounding is odd", 2005.)

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

from castsmith.numerics.cast.codec import Array, Workspace, code_dtype, code_mask, decode_table, encode_table
from castsmith.numerics.cast.integers import truncate
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.types import ElementType, Kind, element_type

_QUIET_BIT = np.uint32(0x0040_0000)
_TIE = -0x8000
"""The low half of the code of a float between two numbers of bfloat16, as a signed integer."""
_ALL_FIT = 2**24
_SIGN_16, _BFLOAT16_INFINITY, _BFLOAT16_QUIET = 0x8000, 0x7F80, np.uint32(0x7FC0)
_ALL_FIT_BFLOAT16 = 0x4B80
"""The code of 2**24 in bfloat16: integers below it are numbers of float."""
SMALL = 1 << 12
"""Integers of at most this magnitude are looked up: a table of them fits in the fastest cache."""
_Floats = npt.NDArray[np.float32]

# float16 from float by a sum, and to float by a product, since numpy takes 60 ns for each number that underflows.
# These are codes of float without a sign.

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
_HALF_BITS, _HALF_SCALE, _HALF_INFINITY_16 = np.uint32(0x8FFF_E000), np.float32(2.0**112), 0x7C00
_LEAST_FLOAT = np.array([1], np.uint32).view(np.float32)


def widen(codes: Array, row: ElementType) -> Array:
    """Return the numbers that `codes` stand for, exactly: bool, an integer type, float32 or float64."""
    if is_native(row):
        return codes.view(row.dtype.numpy())
    if row.bits <= 8:
        return decode_table(row.dtype).take(codes, mode="clip")
    if row.dtype is DataType.FLOAT16:
        numbers = np.empty(codes.shape, np.float32)
        widen_half(codes, numbers, Workspace())
        return numbers
    bits = codes.astype(np.uint32) << np.uint32(16)
    if _any_code_from(codes, _BFLOAT16_INFINITY + 1):
        bits[np.isnan(bits.view(np.float32))] |= _QUIET_BIT
    return bits.view(np.float32)


def widens_bfloat16(codes: npt.NDArray[np.uint16], out: npt.NDArray[np.floating[Any]]) -> bool:
    """Write the float or double numbers that the bfloat16 `codes` stand for to `out`; False if one is NaN."""
    if _any_code_from(codes, _BFLOAT16_INFINITY + 1):
        return False
    np.copyto(out, codes.view(ml_dtypes.bfloat16), casting="unsafe")
    return True


def widen_half(codes: npt.NDArray[np.uint16], out: npt.NDArray[np.floating[Any]], work: Workspace) -> None:
    """Write the float or double numbers that the float16 `codes` stand for to `out`.

    The code, moved to the place where float has its exponent and mantissa, is that of a number 2**112 times smaller.
    """
    if _any_code_from(codes, _HALF_INFINITY_16) or not _multiplies_subnormals():
        np.copyto(out, float_of_half().take(codes, mode="clip"))
        return
    numbers = out if out.dtype == np.float32 else work.words("nearest", codes.shape).view(np.float32)
    bits = numbers.view(np.uint32)
    np.copyto(bits, codes.view(np.int16), casting="unsafe")  # copies of the sign above it
    np.left_shift(bits, _DROPPED, out=bits)
    np.bitwise_and(bits, _HALF_BITS, out=bits)
    np.multiply(numbers, _HALF_SCALE, out=numbers)
    if numbers is not out:
        np.copyto(out, numbers)


def _multiplies_subnormals() -> bool:
    """True unless this thread takes subnormal numbers for zero, as some libraries make it do."""
    return bool((_LEAST_FLOAT * _HALF_SCALE)[0])


def _any_code_from(codes: npt.NDArray[np.uint16], first: int) -> bool:
    """True if a code of 16 bits, its sign removed, is `first` or above."""
    if not codes.size:
        return False
    largest = int(np.maximum.reduce(codes, axis=None))
    if largest < _SIGN_16:
        return largest >= first
    return largest >= _SIGN_16 + first or int(np.maximum.reduce(codes.view(np.int16), axis=None)) >= first


def look_up(table: Array, codes: Array, out: Array) -> None:
    """Write the entries of `table` at `codes`, each below the table's length, to `out`, which has the table's dtype."""
    table.take(codes, out=out, mode="clip")


def is_native(row: ElementType) -> bool:
    """True if numpy computes with the type as stored: integers of whole bytes, float and double."""
    return (row.bits >= 8 and row.kind is Kind.INTEGER) or row.dtype in (DataType.FLOAT, DataType.DOUBLE)


def narrow(values: Array, row: ElementType, policy: Policy) -> Array:
    """Return the codes of `values` (any dtype that `widen` returns), rounded once to `row`; shaped as `values`."""
    codes = np.empty(values.shape, code_dtype(row))
    narrow_into(codes, values, row, policy, Workspace())
    return codes


def narrow_into(out: Array, values: Array, row: ElementType, policy: Policy, work: Workspace) -> None:
    """Write what `narrow` returns to `out`."""
    if row.kind is Kind.BOOLEAN:
        np.not_equal(values, 0, out=out.view(np.bool_))
    elif row.kind is Kind.INTEGER:
        np.copyto(out, _to_integer(values, row))
    elif row.dtype in (DataType.FLOAT, DataType.DOUBLE):
        np.copyto(out.view(row.dtype.numpy()), values)
    elif row.dtype is DataType.BFLOAT16:
        _to_bfloat16(out, values, work)
    else:
        odd = round_to_odd_at_ties(values, work)
        if row.dtype is DataType.FLOAT16:
            np.copyto(out, half_of_float(odd, work), casting="unsafe")
        else:
            table = encode_table(row.dtype, policy)
            look_up(table, _table_index(odd.view(np.uint32), work), out)


def narrows_to_bfloat16(out: npt.NDArray[np.uint16], values: Array) -> bool:
    """Write the codes of bfloat16 nearest to `values`, integers or float, to `out`; False if some may be wrong.

    ml_dtypes rounds an integer to float first, which is one rounding too many if float does not hold it, and drops the
    payload of NaN.
    """
    np.copyto(out.view(ml_dtypes.bfloat16), values, casting="unsafe")
    if values.dtype.kind == "f":
        return not _holds_nan(values)
    return values.dtype.itemsize <= 2 or not _any_code_from(out, _ALL_FIT_BFLOAT16)


def _to_bfloat16(out: npt.NDArray[np.uint16], values: Array, work: Workspace) -> None:
    """Write the codes of bfloat16 nearest to `values` to `out`.

    ml_dtypes rounds twice, by way of float. What is a tie in float is looked at again, and NaN keeps its payload.
    """
    np.copyto(out.view(ml_dtypes.bfloat16), values, casting="unsafe")
    nearest = _nearest_float(values, work)
    bits, codes = nearest.reshape(-1).view(np.uint32), out.reshape(-1)
    low = work.words("low", bits.shape).view(np.int16)[: bits.size]
    np.copyto(low, bits, casting="unsafe")
    if np.minimum.reduce(low, initial=0) == _TIE:
        ties = np.flatnonzero(low == _TIE)
        _towards(bits, ties, values)
        tied = bits[ties]
        codes[ties] = (tied + np.uint32(0x7FFF) + ((tied >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    if _holds_nan(nearest):
        nan = np.flatnonzero(np.isnan(nearest))
        codes[nan] = (bits[nan] >> np.uint32(16)) | _BFLOAT16_QUIET


def _nearest_float(values: Array, work: Workspace) -> _Floats:
    """Return the floats nearest to `values`, in memory that may be written to."""
    nearest = work.words("nearest", values.shape).view(np.float32)
    np.copyto(nearest, values, casting="unsafe")
    return nearest


def round_to_odd_at_ties(values: Array, work: Workspace) -> _Floats:
    """Return float32 numbers that round to a type of at most 11 significant bits as `values` do.

    Values and ties of such a type are float32 numbers whose last 12 bits are zero. Rounding to nearest is wrong only if
    it reaches one of these from another number. The next float towards that number rounds as it does. NaN keeps its
    sign.
    """
    if values.dtype == np.float32:
        return values
    nearest = _nearest_float(values, work)
    if not _fit(values):
        bits = nearest.view(np.uint32)
        last = np.left_shift(bits, np.uint32(20), out=work.words("size", bits.shape))
        suspects = np.flatnonzero(last == 0)
        if suspects.size:
            _towards(bits, suspects, values)
    return nearest


def _towards(bits: npt.NDArray[np.uint32], where: npt.NDArray[np.intp], values: Array) -> None:
    """Change the floats `bits` at the flat indices `where` to the next one towards `values`, unless they are equal."""
    exact = values.reshape(-1)[where]
    if exact.dtype.kind == "f":  # most often all are equal
        unequal = np.flatnonzero(exact != bits.reshape(-1)[where].view(np.float32))
        if not unequal.size:
            return
        where, exact = where[unequal], exact[unequal]
    double = np.abs(_integer_to_odd_double(exact) if exact.dtype.kind in "iu" else exact)
    nearest = bits.reshape(-1)[where]
    size = np.abs(nearest.view(np.float32)).astype(np.float64)
    nearest += double > size
    nearest -= double < size
    bits.reshape(-1)[where] = nearest


def half_of_float(values: npt.NDArray[np.float32], work: Workspace) -> npt.NDArray[np.uint32]:
    """Return the codes of float16 nearest to `values`, ties to even; NaN is quiet and keeps the top of its payload.

    They are the low 16 bits; the others are arbitrary. A number is added to another, 2**13 times its own power of two,
    which rounds it to float16: the low bits of the sum count the last bits of float16 in the number, and those of the
    other's exponent stand for the exponent. No number needs a case of its own unless it is too large.
    """
    bits = values.view(np.uint32)
    size = np.bitwise_and(bits, ~_SIGN, out=work.words("size", bits.shape))
    large, of_large = None, None
    if np.maximum.reduce(size, axis=None, initial=0) >= _TOO_LARGE:
        large = size >= _TOO_LARGE
        of_large = _half_of_large(size[large])
    other = np.bitwise_and(size, _INFINITY, out=work.words("other", bits.shape))
    np.clip(other, _SMALLEST_NORMAL, _INFINITY, out=other)  # np.maximum with a number takes three times as long
    other += _POWER
    codes = size
    np.add(size.view(np.float32), other.view(np.float32), out=codes.view(np.float32))
    other >>= _DROPPED
    codes += other
    if large is not None:
        codes[large] = of_large
    sign = np.bitwise_and(bits, _SIGN, out=other)
    sign >>= np.uint32(16)
    codes |= sign
    return codes


def _half_of_large(size: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the codes of float16 of numbers of at least 2**16 and of NaN, given as codes of float without a sign."""
    nan = _HALF_QUIET | ((size & np.uint32(0x7F_FFFF)) >> _DROPPED)
    return np.where(size > _INFINITY, nan, _HALF_INFINITY)


@lru_cache(maxsize=1)
def float_of_half() -> npt.NDArray[np.float32]:
    """Return the number that each of the 65536 codes of float16 stands for; NaN is quiet and keeps its payload."""
    with np.errstate(all="ignore"):
        numbers = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    numbers.view(np.uint32)[np.isnan(numbers)] |= _QUIET_BIT
    return numbers


def _fit(values: Array) -> bool:
    """True if `values` are integers, or bool, that float32 always represents exactly."""
    if values.dtype.kind == "f" or values.dtype.itemsize <= 2:
        return values.dtype.kind != "f"
    return bool(values.max(initial=0) <= _ALL_FIT and values.min(initial=0) >= -_ALL_FIT)


def _integer_to_odd_double(values: Array) -> npt.NDArray[np.float64]:
    """Return integers in float64, rounded to odd if they need more than its 53 bits."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # Floor division leaves a remainder that is never negative, so OR-ing it in rounds to odd under either sign.
    odd = (values >> 11) | ((values & 0x7FF) != 0)
    fits = (values >> 53) == 0 if values.dtype.kind == "u" else (values >> 53) == (values >> 63)
    return np.where(fits, values.astype(np.float64), odd.astype(np.float64) * 2048)


def narrow_integers(out: Array, values: Array, row: ElementType, policy: Policy, work: Workspace) -> None:
    """Write what `narrow` returns for integers of 32 or 64 bits in a type of at most 8 to `out`.

    Arrays of small integers are looked up.
    """
    if values.size < SMALL:
        return narrow_into(out, values, row, policy, work)
    if values.dtype.kind == "u" and np.maximum.reduce(values) >= SMALL:  # the sum below wraps
        return narrow_into(out, values, row, policy, work)
    unsigned = np.dtype(f"u{values.itemsize}")
    index = work.words("index", (values.size * values.itemsize // 4,)).view(unsigned)
    np.add(values.view(unsigned), unsigned.type(SMALL), out=index)
    if np.maximum.reduce(index) >= 2 * SMALL:
        return narrow_into(out, values, row, policy, work)
    return look_up(_small_integers(row.dtype, policy), index, out)


@lru_cache(maxsize=32)
def _small_integers(dtype: DataType, policy: Policy) -> Array:
    """Return the codes of the integers from -SMALL up to SMALL - 1."""
    return narrow(np.arange(-SMALL, SMALL), element_type(dtype), policy)


def _table_index(bits: npt.NDArray[np.uint32], work: Workspace) -> npt.NDArray[np.uint32]:
    """Return the top 16 bits of each float32, the last bit set if any lower bit is set."""
    index = np.bitwise_and(bits, np.uint32(0xFFFF), out=work.words("size", bits.shape))
    index += np.uint32(0xFFFF)
    index |= bits
    index >>= np.uint32(16)
    return index


def _to_integer(values: Array, row: ElementType) -> Array:
    """Convert to an integer type: integers wrap, floating-point numbers are truncated and clamped, NaN becomes 0."""
    storage = code_dtype(row)
    if values.dtype.kind == "f":
        values = truncate(values, np.dtype(f"i{storage.itemsize}") if row.signed else storage, row.bits)
    wrapped = values.astype(storage, copy=False)
    return wrapped & storage.type(code_mask(row)) if row.bits < 8 else wrapped


def _holds_nan(values: npt.NDArray[np.floating[Any]]) -> bool:
    """True if a number is NaN: the maximum, which takes less time than asking each, is NaN then."""
    largest = np.maximum.reduce(values, axis=None, initial=0)
    return bool(largest != largest)
