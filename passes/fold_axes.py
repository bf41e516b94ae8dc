"""Axes and shapes as the operators that move elements count them."""

from __future__ import annotations

from collections.abc import Sequence

from castsmith.passes.fold_moves import Dims


def axis_of(axis: int, rank: int) -> int | None:
    """The axis counted from the front; None where there is none."""
    return axis % rank if -rank <= axis < rank else None


def axes_of(axes: Sequence[int], rank: int) -> Dims | None:
    """The axes counted from the front; None where one is not there, or is named twice."""
    found = [place for axis in axes if (place := axis_of(axis, rank)) is not None]
    return tuple(found) if len(set(found)) == len(axes) else None


def walked(dim: int, start: int, end: int, step: int) -> tuple[int, int, int]:
    """Where a Slice along an axis starts, how many elements it takes, and its step. Ends are clamped, as in Python."""
    walk = range(*slice(start, end, step).indices(dim))
    return (walk.start if len(walk) else 0), len(walk), step


def joined(shapes: Sequence[Dims | None], axis: int) -> Dims | None:
    """The shape of arrays put one after the other along `axis`; None where they do not fit."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) != 1:
        return None
    if len({shape[:axis] + shape[axis + 1 :] for shape in known}) != 1:
        return None
    return (*known[0][:axis], sum(shape[axis] for shape in known), *known[0][axis + 1 :])


def spread(shape: Dims, wanted: Dims) -> Dims | None:
    """The shape to which both broadcast; None where they do not."""
    rank = max(len(shape), len(wanted))
    pairs = zip((1,) * (rank - len(shape)) + shape, (1,) * (rank - len(wanted)) + wanted, strict=True)
    dims = [(max(pair) if 0 not in pair else 0) if 1 in pair or pair[0] == pair[1] else -1 for pair in pairs]
    return None if any(dim < 0 for dim in (*wanted, *dims)) else tuple(dims)
