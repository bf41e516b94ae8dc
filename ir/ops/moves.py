"""Ways to move the elements of arrays, as plain data, and their implementations.

Every operator that moves elements without looking at them is one of these once its axes and shapes are known. The
shape of a result stands in the move, so that its size is known before memory is taken. All but concat, gather, scatter,
tile and some reshapes are views that take none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from castsmith.numerics.cast.codec import Array

Dims = tuple[int, ...]


class Way(enum.Enum):
    """Kind of movement."""

    RESHAPE = "same order, new shape"
    TRANSPOSE = "axes in the order `detail[0]`"
    EXPAND = "broadcast to the shape"
    TILE = "repeated along each axis, as often as `detail[0]` says"
    SLICE = "for each axis its start, count and step, in `detail`"
    CONCAT = "joined along the axis `detail[0][0]`"
    SCATTER = "the third operand put where the second, a list of indices, says"
    GATHER = "picked along the axis `detail[0][0]` by the indices, which are the second operand"


@dataclass(frozen=True, slots=True)
class Move:
    """One move; equal moves compare equal."""

    way: Way
    shape: Dims
    detail: tuple[Dims, ...] = ()


def operands_of(way: Way, count: int) -> int:
    """Return how many of the `count` inputs of a node a move reads, the first ones; the others are parameters."""
    return {Way.CONCAT: count, Way.GATHER: 2, Way.SCATTER: 3}.get(way, 1)


class MoveError(Exception):
    """An invalid move; the text is the reason."""


def move(step: Move, arrays: Sequence[Array]) -> Array:
    """Return the result of the move. Raises MoveError for an index out of bounds, or a repeated index in a scatter."""
    try:
        return _DO[step.way](step, arrays)
    except IndexError:
        raise MoveError("an intermediate index is out of bounds") from None


def _slice(step: Move, arrays: Sequence[Array]) -> Array:
    return arrays[0][tuple(python_slice(*part) for part in step.detail)]


def python_slice(start: int, count: int, step: int) -> slice:
    """Return the slice that takes `count` elements from `start` on."""
    if count == 0:
        return slice(0, 0)
    # The stop of a walk down to element 0 would be -1, which means the last element in Python.
    stop = start + count * step
    return slice(start, stop if stop >= 0 else None, step)


def _scatter(_step: Move, arrays: Sequence[Array]) -> Array:
    data, indices, values = arrays
    where = tuple(np.moveaxis(indices, -1, 0))
    hits = np.zeros(data.shape[: len(where)], np.uint8)
    np.add.at(hits, where, 1)
    if hits.max(initial=0) > 1:
        raise MoveError("duplicate indices: ScatterND leaves the result undefined")
    result = data.copy()
    result[where] = values
    return result


_DO: dict[Way, Callable[[Move, Sequence[Array]], Array]] = {
    Way.RESHAPE: lambda step, arrays: arrays[0].reshape(step.shape),
    Way.TRANSPOSE: lambda step, arrays: arrays[0].transpose(step.detail[0]),
    Way.EXPAND: lambda step, arrays: np.broadcast_to(arrays[0], step.shape),
    Way.TILE: lambda step, arrays: np.tile(arrays[0], step.detail[0]),
    Way.SLICE: _slice,
    Way.CONCAT: lambda step, arrays: np.concatenate(arrays, axis=step.detail[0][0]),
    Way.SCATTER: _scatter,
    Way.GATHER: lambda step, arrays: np.take(arrays[0], arrays[1], axis=step.detail[0][0]),
}
