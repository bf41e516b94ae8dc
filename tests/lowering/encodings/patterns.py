"""Values on which an inexact cast shows: every short pattern, and the neighbourhoods of every tie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.types import element_type

Array = npt.NDArray[Any]


def all_patterns(dtype: DataType) -> Array:
    """Every bit pattern of a type of 8 or 16 bits."""
    bits = {1: np.uint8, 2: np.uint16}[dtype.numpy().itemsize]
    return np.arange(2 ** (8 * np.dtype(bits).itemsize), dtype=np.uint32).astype(bits).view(dtype.numpy())


def landmarks(to: DataType) -> npt.NDArray[np.float64]:
    """Every finite value of the format, every midpoint, the powers of two around its range, and 0."""
    row = element_type(to)
    codes = np.arange(256, dtype=np.uint8).view(to.numpy()).astype(np.float64)
    values = np.unique(np.abs(codes[np.isfinite(codes)]))
    beyond = float(row.max) * np.array([1.0625, 1.125, 1.25, 1.5, 2.0, 4.0, 1e3, 1e9])
    powers = 2.0 ** np.arange(row.min_exponent - row.mantissa_bits - 6, 40)
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, beyond, powers, [0.0]])
    return np.unique(points)


def float32_around(to: DataType, reach: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """All float32 within `reach` steps of a landmark, both signs; specials, subnormals, NaN payloads, random bits."""
    centres = landmarks(to).astype(np.float32).view(np.uint32).astype(np.int64)
    near = (centres[:, None] + np.arange(-reach, reach + 1)).ravel()
    near = near[(near >= 0) & (near <= 0x7FFFFFFF)]
    edges = np.array([0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF])
    random = np.random.default_rng(seed).integers(0, 2**31, 200_000)
    bits = np.concatenate([near, edges, random]).astype(np.uint32)
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)


def float64_around(to: DataType, seed: int = 0) -> npt.NDArray[np.float64]:
    """Doubles within a few steps of a landmark, and far nearer to one than float32 can be; and random bits."""
    centres = landmarks(to).view(np.int64)
    steps = np.concatenate([np.arange(-4, 5), [s * 2**k for k in range(3, 40) for s in (-1, 1)]])
    near = (centres[:, None] + steps).ravel()
    edges = np.array([1, 2**52 - 1, 2**52, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF0000000000001, 2**63 - 1])
    random = np.random.default_rng(seed).integers(0, 2**63, 100_000)
    usual = np.random.default_rng(seed).normal(0, 30, 100_000).view(np.int64) & (2**63 - 1)
    bits = np.concatenate([near[near >= 0], edges, random, usual]).astype(np.uint64)
    return np.concatenate([bits, bits | np.uint64(1 << 63)]).view(np.float64)


def integers_around(dtype: DataType, to: DataType) -> Array:
    """Integers near the landmarks of the format, near powers of two and at the ends of their own range."""
    info = np.iinfo(dtype.numpy())
    points = landmarks(to)
    centres = [int(point) for point in points] + [2**k for k in range(64)] + [int(info.max)]
    near = {sign * centre + step for centre in centres for step in range(-3, 4) for sign in (-1, 1)}
    return np.array(sorted(n for n in near | {int(info.min)} if info.min <= n <= info.max), dtype.numpy())
