"""Sums of products with a constant matrix: bounds of `x @ W`, and the norms of the columns of W.

A small matrix is multiplied in double. A large one is multiplied in float, a few rows at a time, and the bounds are
moved outward by the error of these sums, which is at most gamma times the sum of absolute values (see `rounding`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from castsmith.ir.bounds.interval import Ball, Ends, products
from castsmith.ir.bounds.rounding import Array
from castsmith.ir.bounds.step import UnknownRangeError

_CHUNK = 1 << 17
"""Elements of a matrix that are converted and multiplied at a time: they stay in the cache of a processor."""
_LARGE = 1 << 22
"""Elements from which a matrix is multiplied in float, and is not multiplied where nothing is known of the operand."""
_VANISHED = 2.0**-125
"""Bound of what a term of a sum in float loses where it is below the smallest normal number."""
_LEAST = 2.0**-100
"""Least share of the greatest factor that a factor counts as, so that none vanishes in float."""

Matrix = np.ndarray[Any, Any]


class Sums(NamedTuple):
    """Bounds of sums of products, and of the sum of the absolute values of their terms."""

    least: Array
    most: Array
    size: Array


def product_with(low: Array, high: Array, weights: Array) -> Sums:
    """Bounds of x @ W for x in [low, high] (rows, k) and W (k, n), and the sum of absolute values of the terms.

    An infinite bound stands for numbers without bound: it makes every column with a weight for it unbounded.
    """
    unbounded_low, unbounded_high = np.isinf(low), np.isinf(high)
    if low.shape[1] == 1 and weights.shape[0] != 1:
        plus, minus = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
        (least_a, most_a), (least_b, most_b) = (
            products((low, high), (plus, plus)),
            products((low, high), (minus, minus)),
        )
        size = products((np.zeros((1, 1)), np.maximum(np.abs(low), np.abs(high))), (plus - minus, plus - minus))[1]
        return Sums(least_a + least_b, most_a + most_b, size)
    plus, minus = np.maximum(weights, 0), np.minimum(weights, 0)
    lows, highs = np.where(unbounded_low, 0.0, low), np.where(unbounded_high, 0.0, high)
    least, most = lows @ plus + highs @ minus, highs @ plus + lows @ minus
    size = np.maximum(np.abs(lows), np.abs(highs)) @ (plus - minus)
    if unbounded_low.any() or unbounded_high.any():
        up, down = (plus > 0).astype(np.float64), (minus < 0).astype(np.float64)
        ul, uh = unbounded_low.astype(np.float64), unbounded_high.astype(np.float64)
        least = np.where(ul @ up + uh @ down > 0, -np.inf, least)
        most = np.where(uh @ up + ul @ down > 0, np.inf, most)
    return Sums(least, most, size)


def require_finite(weights: Matrix) -> None:
    numbers = weights if weights.dtype.kind in "fiu" else weights.astype(np.float32)
    # NaN is the least of all numbers for numpy, and an infinity is the least or the greatest.
    if numbers.size and not (np.isfinite(numbers.min()) and np.isfinite(numbers.max())):
        raise UnknownRangeError


def is_large(weights: Matrix) -> bool:
    """True for a matrix that is multiplied in float."""
    return weights.size > _LARGE


def box_product(low: Array, high: Array, weights: Matrix) -> Sums:
    """Bounds of x @ W for x in [low, high] (rows, k or 1) and finite W, with a part of W in double at a time."""
    if is_large(weights):
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            ends = np.full((len(low), weights.shape[1]), np.inf)  # but for columns that do not meet what is unbounded
            return Sums(-ends, ends, ends)
        found = _box_product_in_float(low, high, weights)
        if found is not None:
            return found
    parts = [_product_in_blocks(low, high, part) for part in _columns_of(weights)]
    return Sums(*(np.concatenate([part[i] for part in parts], axis=1) for i in range(3)))


def ball_product(ball: Ball, weights: Matrix) -> tuple[Ends, Array]:
    """Bounds of x @ W for rows x in the ball and finite W, by Cauchy-Schwarz, and the size of the sums."""
    k = weights.shape[0]
    scale, offset = np.broadcast_to(ball.scale, (k,)), np.broadcast_to(ball.offset, (k,))
    if is_large(weights):
        found = _ball_product_in_float(ball.radius, np.abs(scale), offset, weights)
        if found is not None:
            return found
    return _ball_product(ball.radius, np.abs(scale), offset, weights)


def _ball_product(radius: float, scale: Array, offset: Array, weights: Matrix) -> tuple[Ends, Array]:
    centers, halves, sizes = list[Array](), list[Array](), list[Array]()
    for columns in _columns_of(weights):
        center, square, size = (np.zeros(columns.shape[1]) for _ in range(3))
        for block, part in _row_blocks(columns, np.float64):
            center += offset[block] @ part
            square += (scale[block] * scale[block]) @ (part * part)
            size += (scale[block] * radius + np.abs(offset[block])) @ np.abs(part)
        centers.append(center)
        halves.append(radius * np.sqrt(square))
        sizes.append(size)
    center, half = np.concatenate(centers), np.concatenate(halves)
    return (center - half, center + half), np.concatenate(sizes)


def _ball_product_in_float(radius: float, scale: Array, offset: Array, weights: Matrix) -> tuple[Ends, Array] | None:
    """Return the result of `_ball_product`, a little wider; None if the sums leave the range of float."""
    k, greatest, most = weights.shape[0], float(scale.max(initial=0.0)), float(np.abs(offset).max(initial=0.0))
    squares = np.maximum((scale / (greatest or 1.0)) ** 2, _LEAST).astype(np.float32)
    signed = (offset / (most or 1.0)).astype(np.float32)
    unsigned = np.maximum(np.abs(signed), np.float32(_LEAST))
    sizes, halves, centers, errors = list[Array](), list[Array](), list[Array](), list[Array]()
    with np.errstate(all="ignore"):
        for columns in _columns_of(weights):
            center, square, absolute = (np.zeros(columns.shape[1]) for _ in range(3))
            rows = 0
            for block, part in _row_blocks(columns, np.float32):
                rows = max(rows, len(part))
                square += squares[block] @ (part * part)
                if most:
                    center += signed[block] @ part
                    absolute += unsigned[block] @ np.abs(part)
            gamma = _gamma(rows)
            norm = greatest * np.sqrt((square + k * _VANISHED) * (1 + 2 * gamma))
            absolute = most * (absolute + k * _VANISHED) * (1 + 2 * gamma)
            centers.append(most * center)
            errors.append(2 * gamma * absolute + most * k * _VANISHED)
            halves.append(radius * norm)
            sizes.append(np.sqrt(k) * radius * norm + absolute)  # the sum of k numbers, by the norm of their vector
    center, half, error, size = (np.concatenate(each) for each in (centers, halves, errors, sizes))
    ends = center - half - error, center + half + error
    return (ends, size) if np.isfinite(size).all() else None


def _box_product_in_float(low: Array, high: Array, weights: Matrix) -> Sums | None:
    """Return the result of `product_with`, a little wider; None if the sums leave the range of float."""
    greatest = float(np.maximum(np.abs(low), np.abs(high)).max(initial=0.0))
    if not greatest:
        zeros = np.zeros((len(low), weights.shape[1]))
        return Sums(zeros, zeros, zeros)
    k = weights.shape[0]
    low, high = (np.broadcast_to(each / (2 * greatest), (len(low), k)) for each in (low, high))
    middle, half = (low + high).astype(np.float32), (high - low).astype(np.float32)
    both = np.maximum(np.abs(middle) + half, np.float32(_LEAST))
    found = list[tuple[Array, Array, Array]]()
    with np.errstate(all="ignore"):
        for columns in _columns_of(weights):
            shape = len(low), columns.shape[1]
            center, spread, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
            rows = 0
            for block, part in _row_blocks(columns, np.float32):
                rows = max(rows, len(part))
                absolute = np.abs(part)
                center += middle[:, block] @ part
                spread += half[:, block] @ absolute
                size += both[:, block] @ absolute
            gamma = _gamma(rows)
            size = (size + k * _VANISHED) * (1 + 2 * gamma) * greatest
            spread = spread * greatest + 2 * gamma * size + k * _VANISHED * greatest
            found.append((center * greatest - spread, center * greatest + spread, size))
    least, most, size = (np.concatenate([part[i] for part in found], axis=1) for i in range(3))
    return Sums(least, most, size) if np.isfinite(size).all() else None


def _gamma(count: int) -> float:
    """The relative error of a sum of `count` products in float, each operand of which was rounded, in any order."""
    return float(np.expm1((count + 8) * np.log1p(2.0**-24)))


def _row_blocks(weights: Matrix, dtype: type[np.floating[Any]]) -> Iterator[tuple[slice, Matrix]]:
    """Yield the rows of W in the type, some at a time, with their numbers."""
    height = max(1, _CHUNK // max(weights.shape[1], 1))
    for start in range(0, weights.shape[0], height):
        block = slice(start, start + height)
        yield block, weights[block].astype(dtype, copy=False)


def _columns_of(weights: Matrix) -> Iterator[Matrix]:
    """Yield the matrix itself where its rows are contiguous, else some columns at a time, which then are."""
    width = weights.shape[1] if weights.flags.c_contiguous else max(1, _CHUNK // max(weights.shape[0], 1))
    for start in range(0, weights.shape[1], max(width, 1)):
        yield weights[:, start : start + width]


def _product_in_blocks(low: Array, high: Array, weights: Matrix) -> Sums:
    """Return the result of `product_with`, with a part of the weights in memory at a time."""
    shape = len(low), weights.shape[1]
    total = Sums(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    for block, part in _row_blocks(weights, np.float64):
        of = (slice(None), slice(None) if low.shape[1] == 1 else block)
        for sums, each in zip(total, product_with(low[of], high[of], part), strict=True):
            sums += each
    return total
