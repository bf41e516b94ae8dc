"""Floating-point numbers to integers of whole bytes: truncated, clamped to the range, NaN as 0.

numpy and ml_dtypes truncate alike, but what they make of a number out of range depends on the machine. They convert
only arrays without such a number. Two ways find one: the processor reports it while it converts, which takes no time
(IEEE 754-2019 section 7.2; `reports` tests that the installed numpy and processor do), or the codes of the largest and
the smallest number show it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from castsmith.numerics.cast.codec import Array

_Bounds = tuple[np.unsignedinteger[Any], np.unsignedinteger[Any], np.signedinteger[Any]]
_TESTED_LENGTH = 35
"""Elements of each array that `reports` tests: more than two vectors of any processor, and a remainder."""


def truncate(values: Array, target: np.dtype[Any], bits: int) -> Array:
    """Return float or double `values` in the integer dtype `target`, in the range of `bits` bits."""
    whole = np.empty(values.shape, target)
    if not truncates(whole, values, bits):
        low, end = (values.dtype.type(bound) for bound in _range(target.kind, bits))
        inside: Array = np.clip(values, low, np.nextafter(end, low))
        inside[np.isnan(values)] = 0
        np.copyto(whole, inside, casting="unsafe")
        whole[values >= end] = 2 ** (bits - (target.kind == "i")) - 1
    return whole


def truncates(out: Array, values: Array, bits: int) -> bool:
    """Write `values` (float, double or bfloat16) to `out`; False if one is NaN or does not fit integers of `bits` bits.

    Such integers are signed if the dtype of `out` is.
    """
    if bits == 8 * out.dtype.itemsize and values.flags.aligned and reports(values.dtype, out.dtype):
        try:
            with np.errstate(invalid="raise"):
                np.copyto(out, values, casting="unsafe")
        except FloatingPointError:
            return False
    elif _are_within(values, out.dtype, bits):
        np.copyto(out, values, casting="unsafe")
    else:
        return False
    return True


@lru_cache(maxsize=64)
def reports(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """True if converting NaN or any number out of range raises FloatingPointError, wherever in an array it is.

    No processor reports a number that an integer of fewer than 32 bits cannot hold, and few do for unsigned ones.
    """
    if target.itemsize < 4:
        return False
    low, end = _range(target.kind, 8 * target.itemsize)
    beyond = [float("nan"), -float("nan"), float("inf"), -float("inf"), end, 1.5 * end, 2 * end, 2**20 * end]
    beyond += [low * 1.25 - 1, 2 * low - 1, 2**20 * low - 1, low * (1 + 2**-7) - 1]
    for number in np.array(beyond).astype(source):
        for place in range(_TESTED_LENGTH):
            values = np.ones(_TESTED_LENGTH, source)
            values[place] = number
            try:
                with np.errstate(invalid="raise"):
                    values.astype(target)
            except FloatingPointError:
                continue
            return False
    return True


def _are_within(values: Array, target: np.dtype[Any], bits: int) -> bool:
    """True if no number is NaN, or out of range for integers of `bits` bits, signed if `target` is.

    The codes of numbers of one sign are in the order of their magnitudes, with NaN last, and integers are compared in
    less time. Most arrays to unsigned integers have no negative number, which one look shows.
    """
    if not values.size:
        return True
    end, low, signed_end = _bounds(values.dtype, target.kind, bits)
    largest = np.maximum.reduce(values.view(end.dtype), axis=None)
    if largest < end:
        return True
    return bool(largest <= low and np.maximum.reduce(values.view(signed_end.dtype), axis=None) < signed_end)


def _range(kind: str, bits: int) -> tuple[float, float]:
    """Return the least integer, and the first above the largest: zero or powers of two, exact in every source type."""
    return (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if kind == "i" else (0.0, 2.0**bits)


@lru_cache(maxsize=64)
def _bounds(source: np.dtype[Any], kind: str, bits: int) -> _Bounds:
    """Return codes of `source`: the first number too large, the last negative number in range, the first as signed."""
    low, end = np.array(_range(kind, bits)).astype(source)
    unsigned, signed = np.dtype(f"u{source.itemsize}"), np.dtype(f"i{source.itemsize}")
    first: Any = end.view(unsigned)
    last = low.view(unsigned) if low else source.type(-1).view(unsigned) - unsigned.type(1)
    return first, last, signed.type(first)
