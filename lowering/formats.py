"""Facts about narrow formats that encodings need: storage as codes, and the codes at the limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.errors import require
from castsmith.numerics.types import ElementType, Specials, element_type


@dataclass(frozen=True)
class NarrowPolicy:
    """The settings of a Cast to a narrow format: its attributes, and the opset whose tables apply."""

    saturate: bool = True
    opset: int = 28
    round_mode: str = "up"


@dataclass(frozen=True)
class Corners:
    """The positive codes of a format at the limits of its range.

                   e4m3fn  e5m2  e4m3fnuz, e5m2fnuz  e2m1  e2m3, e3m2
    largest         0x7e   0x7b   0x7f                0x7   0x1f
    overflow        0x7e   0x7b   0x7f                0x7   0x1f    saturating
    overflow        0x7f   0x7c   0x80                0x7   0x1f    not saturating: the code after the largest
    infinity        as overflow, but NaN for the fnuz types when saturating before opset 24
    nan             0x7f   0x7e   0x80                0x8   0x20    (as the codec writes it)
    """

    largest: int
    overflow: int
    infinity: int
    nan: int


@cache
def corners(to: DataType, policy: NarrowPolicy) -> Corners:
    """Return the limits of the format under the policy: the codec's results for MAX, 2 MAX, infinity and NaN."""
    largest = float(element_type(to).max)
    probes = np.array([largest, 2 * largest, np.inf, np.nan], np.float32)
    corners = Corners(*(int(code) for code in encode_array(probes, to, policy)))
    expected = corners.overflow in (corners.largest, corners.largest + 1) and corners.infinity in (
        corners.overflow,
        corners.nan,
    )
    require(expected, f"the codec encodes overflow and infinity of {to.name} in an unknown way")
    return corners


def encode_array(array: npt.NDArray[Any], to: DataType, policy: NarrowPolicy) -> npt.NDArray[np.uint8]:
    """Return the uint8 codes of the values, by the codec."""
    row = element_type(to)
    opset = max(policy.opset, FIRST_OPSET[to])
    codes = cast(array, to, saturate=policy.saturate, round_mode=policy.round_mode, opset=opset).view(np.uint8)
    return codes if row.bits == 8 else codes & np.uint8(2**row.bits - 1)


def sign_bit(row: ElementType) -> int:
    """Return the bit of a code that holds the sign."""
    return 1 << (row.bits - 1)


def all_codes(dtype: DataType) -> npt.NDArray[Any]:
    """Return the values of the bytes 0 to 255 in a format of at most 8 bits; higher bits are ignored."""
    codes = np.arange(256, dtype=np.uint8) & np.uint8(2 ** element_type(dtype).bits - 1)
    return codes.view(dtype.numpy())


def top_exponent(row: ElementType) -> int:
    """Return the exponent of the binade that holds the largest finite value."""
    fields = 2**row.exponent_bits - 1
    return fields - row.bias - (row.specials is Specials.IEEE)
