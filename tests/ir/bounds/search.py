"""Inputs that go for the ends: corners of a range, almost constant arrays, and a search for the extremes of a value.

The search needs no gradient. Each turn runs a batch of candidates; for each value it keeps the candidates with the
least and the greatest element, and the next batch is made of mutants of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def adversarial(
    low: float, high: float, shape: tuple[int, ...], rng: np.random.Generator, kind: Any = np.float32
) -> Array:
    """Return arrays in [low, high], along the first axis: random, corners, constant, almost constant, one large."""
    rows = np.empty(shape)
    middle = float(np.clip(0.0, low, high))
    for index in range(shape[0]):
        match index % 6:
            case 0:
                row = rng.uniform(low, high, shape[1:])
            case 1:
                row = np.where(rng.random(shape[1:]) < rng.random(), low, high)
            case 2:
                row = np.full(shape[1:], rng.choice([low, high, middle]))
            case 3:
                row = rng.choice([low, high, middle]) + rng.normal(size=shape[1:]) * (high - low) * 1e-7
            case 4:
                row = np.full(shape[1:], middle)
                if row.size:
                    row.reshape(-1)[rng.integers(row.size)] = rng.choice([low, high])
            case _:
                row = middle + (rng.uniform(low, high, shape[1:]) - middle) * 10.0 ** rng.uniform(-8, 0)
        rows[index] = row
    return inside(rows, low, high, kind)


def inside(array: Array, low: float, high: float, kind: Any = np.float32) -> Array:
    """The array in the type, within the numbers of the type that are nearest to the range."""
    kind = np.dtype(kind)
    if kind.kind not in "f":
        return np.clip(np.rint(array), low, high).astype(kind)
    with np.errstate(all="ignore"):
        return np.clip(array.astype(kind), kind.type(low), kind.type(high))


@dataclass
class Search:
    """The best candidates so far.

    Attributes:
        low, high: The range of the elements.
        rng: The source of randomness.
        best: For each name and sense, the result and its input.
    """

    low: float
    high: float
    rng: np.random.Generator
    best: dict[tuple[str, int], tuple[float, Array]] = field(default_factory=dict[tuple[str, int], tuple[float, Array]])

    def learn(self, batch: Array, results: Mapping[str, Array]) -> None:
        """Take in the results of a batch, whose first axis is that of the batch."""
        for name, array in results.items():
            if array.dtype.kind != "f" or array.shape[:1] != batch.shape[:1] or not np.isfinite(array).all():
                continue
            rows = array.reshape(len(batch), -1)
            for sense, per_row in ((1, rows.max(axis=1)), (-1, -rows.min(axis=1))):
                index = int(per_row.argmax())
                before = self.best.get((name, sense))
                if before is None or per_row[index] > before[0]:
                    self.best[name, sense] = float(per_row[index]), batch[index].copy()

    def batch(self, shape: tuple[int, ...]) -> Array:
        """Return mutants of the best candidates: elements moved to an end, drawn again, shifted, or all scaled."""
        if not self.best:
            return adversarial(self.low, self.high, shape, self.rng)
        parents: Sequence[Array] = [array for _, array in self.best.values()]
        rows = np.stack([parents[int(i)] for i in self.rng.integers(len(parents), size=shape[0])]).astype(np.float64)
        share = self.rng.choice([0.03, 0.1, 0.3], size=(shape[0], *(1,) * (len(shape) - 1)))
        chosen = self.rng.random(shape) < share
        kind = self.rng.integers(4, size=(shape[0], *(1,) * (len(shape) - 1)))
        ends = np.where(self.rng.random(shape) < 0.5, self.low, self.high)
        drawn = self.rng.uniform(self.low, self.high, shape)
        moved = rows + self.rng.normal(size=shape) * (self.high - self.low) * 10.0 ** self.rng.uniform(-5, -0.5, shape)
        crossed = rows[self.rng.permutation(shape[0])]
        mutants = np.choose(np.broadcast_to(kind, shape), [ends, drawn, moved, crossed])
        return inside(np.where(chosen, mutants, rows), self.low, self.high)
