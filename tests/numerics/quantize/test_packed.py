"""Weights of com.microsoft, packed in bytes: every width, with and without zero points, and blocks that do not fill."""

from __future__ import annotations

import numpy as np
import pytest

from castsmith.numerics.quantize.packed import unpacked, unpacked_weights


def pack(codes: list[list[int]], bits: int) -> np.ndarray:
    """The first code in the low bits; rows are filled with zeros."""
    per = 8 // bits
    filled = [[*row, *[0] * (-len(row) % per)] for row in codes]
    return np.array(
        [[sum(row[at + i] << bits * i for i in range(per)) for at in range(0, len(row), per)] for row in filled],
        np.uint8,
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_weights(bits: int) -> None:
    depth, block, rows = 13, 4, 3
    generator = np.random.default_rng(bits)
    codes = generator.integers(0, 2**bits, (rows, depth)).tolist()
    packed = pack(codes, bits)
    assert unpacked(packed, bits)[:, :depth].tolist() == codes
    scales = generator.integers(1, 9, (rows, 4)).astype(np.float16) / 8
    points = generator.integers(0, 2**bits, (rows, 4))
    middle = np.full((rows, 4), 2 ** (bits - 1))
    for stated, zeros in (
        (None, middle),
        (pack(points.tolist(), bits), points),
        (points.astype(np.float32) / 2, points / 2),
    ):
        weights = unpacked_weights(packed, scales.reshape(-1), stated, depth=depth, block=block, bits=bits)
        assert weights.dtype == np.float32
        assert weights.tolist() == [
            [(codes[r][c] - float(zeros[r][c // block])) * float(scales[r][c // block]) for c in range(depth)]
            for r in range(rows)
        ]
    with pytest.raises(ValueError, match="reshape"):
        unpacked_weights(packed, scales[:, :3], None, depth=depth, block=block, bits=bits)
