"""Weights that operators of com.microsoft keep packed in bytes, in blocks that share a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unpacked(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return the codes of rows of bytes, the first in the low bits."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    return ((packed[:, :, None] >> shifts) & np.uint8(2**bits - 1)).reshape(len(packed), -1)


def unpacked_weights(
    codes: NDArray[np.uint8],
    scales: NDArray[Any],
    zero_points: NDArray[Any] | None,
    *,
    depth: int,
    block: int,
    bits: int,
) -> NDArray[np.float32]:
    """Return rows of weights as MatMulNBits and QMoE state them: (code - zero point) * scale, in float.

    Args:
        codes: One row of bytes for each row of weights.
        scales: The scale of each block, one row for each row of weights.
        zero_points: Those of the blocks: packed like the codes, or numbers; None for the middle of the codes.
        depth: The number of weights of a row.
        block: The number of weights that share a scale.
        bits: The bits of a code.

    Raises:
        ValueError: The sizes do not fit each other.
    """
    rows, blocks = len(codes), -(-depth // block)
    scale = scales.astype(np.float32).reshape(rows, blocks)
    if zero_points is None:
        zero = np.full((rows, blocks), float(2 ** (bits - 1)), np.float32)
    elif zero_points.dtype == np.uint8:
        zero = unpacked(zero_points.reshape(rows, -1), bits)[:, :blocks].astype(np.float32)
    else:
        zero = zero_points.astype(np.float32).reshape(rows, blocks)
    numbers = unpacked(codes.reshape(rows, -1), bits)[:, :depth].astype(np.float32)
    spread = [np.repeat(factor, block, axis=1)[:, :depth] for factor in (zero, scale)]
    return (numbers - spread[0]) * spread[1]
