"""What an encoding sequence must know of a narrow format: its codes at the corners, asked of the one codec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast import cast
from castsmith.numerics.types import ElementType, Specials, element_type


@dataclass(frozen=True)
class Policy:
    """What a Cast to a narrow format is asked to do: its attribute `saturate` and the opset whose tables rule."""

    saturate: bool = True
    opset: int = 28


@dataclass(frozen=True)
class Corners:
    """The positive codes of a format at the edges of its range.

                   e4m3fn  e5m2  e4m3fnuz, e5m2fnuz
    largest         0x7e   0x7b   0x7f
    overflow        0x7e   0x7b   0x7f    saturating
    overflow        0x7f   0x7c   0x80    not saturating: always the code after the largest
    infinity        as overflow, but NaN for the fnuz types when saturating before opset 24
    nan             0x7f   0x7e   0x80    (e5m2: as the codec writes it)
    """

    largest: int
    overflow: int
    infinity: int
    nan: int


@cache
def corners(to: DataType, policy: Policy) -> Corners:
    """The corners of the format under the policy: the codec's answers for MAX, 2 MAX, infinity and NaN."""
    largest = float(element_type(to).max)
    probes = np.array([largest, 2 * largest, np.inf, np.nan], np.float32)
    found = Corners(*(int(code) for code in encode_array(probes, to, policy)))
    assert found.overflow in (found.largest, found.largest + 1)
    assert found.infinity in (found.overflow, found.nan)
    return found


def encode_array(array: npt.NDArray[Any], to: DataType, policy: Policy) -> npt.NDArray[np.uint8]:
    """The uint8 codes of the values, as the codec gives them."""
    return cast(array, to, saturate=policy.saturate, opset=policy.opset).view(np.uint8)


def all_codes(dtype: DataType) -> npt.NDArray[Any]:
    """Every code of an 8-bit format in order, as an array of that format."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy())


def top_exponent(row: ElementType) -> int:
    """The exponent of the binade that holds the largest finite value."""
    fields = 2**row.exponent_bits - 1
    return fields - row.bias - (row.specials is Specials.IEEE)
