"""Rounding to a type of at most 8 bits as one look-up, in a table worked out from the row by exact arithmetic."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.codec import magnitudes, nan_code
from castsmith.numerics.opsets import Policy
from castsmith.numerics.types import ElementType, Specials, element_type

_INFINITY_INDEX = 0x7F80
"""The top 16 bits of float32 infinity; every larger index without a sign is a NaN."""


@lru_cache(maxsize=64)
def encode_table(dtype: DataType, policy: Policy) -> npt.NDArray[np.uint8]:
    """The code of each float32, indexed by its top 16 bits with every lower bit OR-ed into the last of them.

    That index rounds to odd, and a target of at most 3 mantissa bits has no value and no tie at an odd index, so the
    index stands for all numbers it comes from. Shape (65536,).

    A NaN without a sign becomes -0 in float4e2m1 and float6, and one with a sign +0. The standard leaves them open;
    so do ml_dtypes and the ONNX backend node tests.
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
    overflow = top + 1 if row.has_infinity else nan
    rounded = _round_to_even(row, numbers)
    codes[:_INFINITY_INDEX] = np.where(rounded > top, top if policy.saturate else overflow, rounded)
    codes[_INFINITY_INDEX] = top if policy.infinity_saturates else overflow
    return codes


def _round_to_even(row: ElementType, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Codes of the nearest magnitudes; one past the last code for all that round beyond the maximum."""
    values = magnitudes(row.dtype)
    beyond = 2 * values[-1] - values[-2]
    values = np.append(values, beyond)
    ties = (values[:-1] + values[1:]) / 2
    below, above = np.searchsorted(ties, numbers, "left"), np.searchsorted(ties, numbers, "right")
    return np.where(below % 2 == 0, below, above)


def _round_e8m0(row: ElementType, numbers: npt.NDArray[np.float64], policy: Policy) -> npt.NDArray[np.intp]:
    """Codes by the schema's table, which compares x, not x rounded, with the extremes."""
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
