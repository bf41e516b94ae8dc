"""Sums of products with a constant matrix: bounds of `x @ W`, and the norms of the columns of W.

A small matrix is multiplied in double. A large one is multiplied in float, a few rows at a time, and the bounds are
moved outward by the error of these sums, which is at most gamma times the sum of absolute values (see `rounding`).

The sums are added up from parts of the matrix, which may be an array or in a file (see `weights`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from castsmith.analysis.bounds.interval import Ball, Ends, products
from castsmith.analysis.bounds.rounding import Array

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
    with np.errstate(all="ignore"):
        return _product_with(low, high, weights)


def _product_with(low: Array, high: Array, weights: Array) -> Sums:
    unbounded_low, unbounded_high = np.isinf(low), np.isinf(high)
    if low.shape[1] == 1:
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


@dataclass(frozen=True)
class Layout:
    """A matrix W of k rows and n columns. `turned`: its columns are stored one after the other, not its rows."""

    k: int
    n: int
    turned: bool = False

    @property
    def is_large(self) -> bool:
        """True for a matrix that is multiplied in float."""
        return self.k * self.n > _LARGE

    @property
    def height(self) -> int:
        """The number of rows, as stored, of a part."""
        return part_height(self.k if self.turned else self.n)


def part_height(width: int) -> int:
    """Return the number of rows of so many elements that stay in the cache of a processor."""
    return max(1, _CHUNK // max(width, 1))


Terms = tuple[Matrix, ...]
Found = TypeVar("Found")


class BlockSums(ABC, Generic[Found]):
    """Sums over the rows of a matrix of at most `Layout.height` stored rows at a time.

    `of` may run in several threads at once. `add` takes what it returns, in the order of the parts.
    """

    dtype: type[np.floating[Any]] = np.float64

    def __init__(self, layout: Layout, count: int, *lead: int) -> None:
        self.layout = layout
        self.is_light = prod(lead) == 1
        self._totals = [np.zeros((*lead, layout.n)) for _ in range(count)]

    def of(self, start: int, rows: Matrix) -> tuple[int, Terms]:
        """Return the terms of the rows as they are stored, the first of them number `start`."""
        with np.errstate(all="ignore"):
            if not self.layout.turned:
                return start, self._terms(slice(start, start + len(rows)), rows.astype(self.dtype, copy=False))
            totals = [np.zeros((*total.shape[:-1], len(rows))) for total in self._totals]
            for block, part in self._blocks(rows.T):
                for total, term in zip(totals, self._terms(block, part), strict=True):
                    total += term
        return start, tuple(totals)

    def add(self, part: tuple[int, Terms]) -> None:
        """Add the terms of a part."""
        start, terms = part
        for total, term in zip(self._totals, terms, strict=True):
            if self.layout.turned:
                total[..., start : start + term.shape[-1]] = term
            else:
                total += term

    @abstractmethod
    def _terms(self, block: slice, part: Matrix) -> Terms:
        """Return the terms of some rows of W, in the type `dtype`."""

    @abstractmethod
    def result(self) -> Found | None:
        """Return the bounds; None if the sums leave the range of the type."""

    def _blocks(self, columns: Matrix) -> Iterator[tuple[slice, Matrix]]:
        height = part_height(columns.shape[1])
        for start in range(0, columns.shape[0], height):
            block = slice(start, start + height)
            yield block, columns[block].astype(self.dtype, copy=False)

    @property
    def _together(self) -> int:
        """The largest number of terms that are added in float."""
        return min(self.layout.k, _CHUNK if self.layout.turned else self.layout.height)


class _BallInDouble(BlockSums[tuple[Ends, Array]]):
    """The center, the norm and the size of the sums for the rows in a ball."""

    def __init__(self, ball: Ball, layout: Layout) -> None:
        super().__init__(layout, 3)
        self._radius, self._scale, self._offset = ball.radius, *_along_rows(ball, layout)

    def _terms(self, block: slice, part: Matrix) -> Terms:
        scale, offset = self._scale[block], self._offset[block]
        size = (scale * self._radius + np.abs(offset)) @ np.abs(part)
        return offset @ part, (scale * scale) @ (part * part), size

    def result(self) -> tuple[Ends, Array]:
        center, square, size = self._totals
        half = self._radius * np.sqrt(square)
        return (center - half, center + half), size


class _BallInFloat(BlockSums[tuple[Ends, Array]]):
    """The same in float, a little wider."""

    dtype = np.float32

    def __init__(self, ball: Ball, layout: Layout) -> None:
        super().__init__(layout, 3 if np.any(ball.offset) else 1)
        scale, offset = _along_rows(ball, layout)
        self._radius, self._greatest = ball.radius, float(scale.max(initial=0.0))
        self._most = float(np.abs(offset).max(initial=0.0))
        self._squares = np.maximum((scale / (self._greatest or 1.0)) ** 2, _LEAST).astype(np.float32)
        self._signed = (offset / (self._most or 1.0)).astype(np.float32)
        self._unsigned = np.maximum(np.abs(self._signed), np.float32(_LEAST))

    def _terms(self, block: slice, part: Matrix) -> Terms:
        square = self._squares[block] @ (part * part)
        if len(self._totals) == 1:
            return (square,)
        return square, self._signed[block] @ part, self._unsigned[block] @ np.abs(part)

    def result(self) -> tuple[Ends, Array] | None:
        k, most, gamma = self.layout.k, self._most, _gamma(self._together)
        square, *rest = self._totals
        center, absolute = rest or (np.zeros(self.layout.n), np.zeros(self.layout.n))
        with np.errstate(all="ignore"):
            norm = self._greatest * np.sqrt((square + k * _VANISHED) * (1 + 2 * gamma))
            absolute = most * (absolute + k * _VANISHED) * (1 + 2 * gamma)
            center, error = most * center, 2 * gamma * absolute + most * k * _VANISHED
            half = self._radius * norm
            size = np.sqrt(k) * self._radius * norm + absolute  # the sum of k numbers, by the norm of their vector
            ends = center - half - error, center + half + error
        return (ends, size) if np.isfinite(size).all() else None


def _along_rows(ball: Ball, layout: Layout) -> tuple[Array, Array]:
    """Return the scale without its sign, and the offset, for each row of the matrix."""
    scale, offset = np.broadcast_to(ball.scale, (layout.k,)), np.broadcast_to(ball.offset, (layout.k,))
    return np.abs(scale), offset


class _BoxInDouble(BlockSums[Sums]):
    """The result of `product_with` for rows in a box."""

    def __init__(self, low: Array, high: Array, layout: Layout) -> None:
        super().__init__(layout, 3, len(low))
        self._low, self._high = low, high

    def _terms(self, block: slice, part: Matrix) -> Terms:
        of = (slice(None), slice(None) if self._low.shape[1] == 1 else block)
        return product_with(self._low[of], self._high[of], part)

    def result(self) -> Sums:
        return Sums(*self._totals)


class _BoxInFloat(BlockSums[Sums]):
    """The same in float, a little wider. The box is finite, and `greatest` its largest magnitude."""

    dtype = np.float32

    def __init__(self, low: Array, high: Array, greatest: float, layout: Layout) -> None:
        super().__init__(layout, 3, len(low))
        low, high = (np.broadcast_to(end / (2 * greatest), (len(low), layout.k)) for end in (low, high))
        self._greatest = greatest
        self._middle, self._half = (low + high).astype(np.float32), (high - low).astype(np.float32)
        self._both = np.maximum(np.abs(self._middle) + self._half, np.float32(_LEAST))

    def _terms(self, block: slice, part: Matrix) -> Terms:
        absolute = np.abs(part)
        return self._middle[:, block] @ part, self._half[:, block] @ absolute, self._both[:, block] @ absolute

    def result(self) -> Sums | None:
        k, greatest, gamma = self.layout.k, self._greatest, _gamma(self._together)
        center, spread, size = self._totals
        with np.errstate(all="ignore"):
            size = (size + k * _VANISHED) * (1 + 2 * gamma) * greatest
            spread = spread * greatest + 2 * gamma * size + k * _VANISHED * greatest
            sums = Sums(center * greatest - spread, center * greatest + spread, size)
        return sums if np.isfinite(size).all() else None


Operand = Ball | Ends
"""What the rows that are multiplied by a matrix are in."""


def box_sums(low: Array, high: Array, layout: Layout) -> Sums | list[BlockSums[Sums]]:
    """Bounds of x @ W for x in [low, high] (rows, k or 1) and finite W: the sums that find them, to be tried in order.

    Without reading W the bounds themselves, where they are known.
    """
    in_double = _BoxInDouble(low, high, layout)
    if not layout.is_large:
        return [in_double]
    shape = len(low), layout.n
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        ends = np.full(shape, np.inf)  # but for columns that do not meet what is unbounded
        return Sums(-ends, ends, ends)
    greatest = float(np.maximum(np.abs(low), np.abs(high)).max(initial=0.0))
    if not greatest:
        return Sums(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    return [_BoxInFloat(low, high, greatest, layout), in_double]


def ball_sums(ball: Ball, layout: Layout) -> list[BlockSums[tuple[Ends, Array]]]:
    """The same for rows x in the ball, by Cauchy-Schwarz: the bounds, and the size of the sums."""
    in_double = _BallInDouble(ball, layout)
    return [_BallInFloat(ball, layout), in_double] if layout.is_large else [in_double]


def _gamma(count: int) -> float:
    """The relative error of a sum of `count` products in float, each operand of which was rounded, in any order."""
    return float(np.expm1((count + 8) * np.log1p(2.0**-24)))
