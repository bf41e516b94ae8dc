"""Operators that take, join or replace parts: places keep their bounds where the parts are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    NONE,
    Interval,
    UnknownRangeError,
    collapsed,
    hull,
    joined_along,
    number,
    with_dims,
)
from castsmith.analysis.bounds.rounding import is_float, largest, unit_roundoff
from castsmith.analysis.bounds.step import Rule, Step, along, axis_of

_MAYBE_NONE = 2**31 - 1
"""An end from which on runtimes take a negative step to the front. Nor do they agree on starts before the front."""
_MOST_FOLLOWED = 4096
"""Places along an axis, or indices, that are followed one by one."""


def _cut(dim: int, start: int, end: int, by: int) -> slice:
    """The part of an axis; for a negative step its start lies in the axis, and its end may be before it."""
    start, end = (each + dim if each < 0 else each for each in (start, end))
    if by > 0:
        return slice(max(start, 0), max(end, 0), by)
    start, end = min(max(start, 0), dim - 1), min(max(end, -1), dim - 1)
    return slice(start, None if end < 0 else end, by)


def _slice(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    rank, old = len(x.dims), step.opset < 10
    starts = step.ints("starts") if old else step.integers(1)
    ends = step.ints("ends") if old else step.integers(2)
    axes = step.axes(rank, "axes", 3) if old or step.value(3) is not None else None
    steps = None if old or step.value(4) is None else step.integers(4)
    if starts is None or ends is None or (not old and step.value(4) is not None and steps is None):
        return along(x, step.dims[0], axes)
    axes, steps = list(range(len(starts))) if axes is None else axes, steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or max(axes, default=0) >= rank or 0 in steps:
        raise UnknownRangeError
    dims, places, joined, disputed = list(x.dims), [slice(None)] * rank, list[int](), False
    for axis, start, end, by in zip(axes, starts, ends, steps, strict=True):
        dim = x.dims[axis]
        unsettled = by < 0 and (end >= _MAYBE_NONE or (dim is not None and start < -dim))
        if dim is None or unsettled:
            dims[axis], disputed = None, disputed or unsettled
            joined.append(axis)
            continue
        cut = _cut(dim, start, end, by)
        dims[axis] = len(range(dim)[cut])
        if x.low.shape[axis] == dim != 1:
            places[axis] = cut
    part, found = joined_along(x, joined), tuple(dims)
    if not disputed:
        found = step.merged(found)
    return part.moved(lambda ends: ends[tuple(places)], found, x.shares)  # a part sums up to no more


def _gather(step: Step) -> Interval:
    x, indices = step.input(0), step.input(1)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    axis, between = step.axis(len(x.dims), 0), indices.dims
    dims = step.merged(None if between is None else x.dims[:axis] + between + x.dims[axis + 1 :])
    exact = indices.exact
    if exact is not None and x.low.shape[axis] == x.dims[axis] != 1 and exact.size <= _MOST_FOLLOWED:
        places = exact.astype(np.int64)
        if places.size and (places.min() < -x.low.shape[axis] or places.max() >= x.low.shape[axis]):
            raise UnknownRangeError
        return x.moved(lambda ends: np.take(ends, places, axis=axis), dims)
    if dims is None or between is None:
        return collapsed(x, dims)
    joint = joined_along(x, [axis])
    return joint.moved(
        lambda ends: ends.reshape(ends.shape[:axis] + (1,) * len(between) + ends.shape[axis + 1 :]), dims
    )


def _concat(step: Step) -> Interval:
    parts = step.operands
    rank = len(parts[0].dims or ()) if parts else 0
    if not rank or any(part.dims is None or len(part.dims) != rank for part in parts):
        return collapsed(hull(parts), step.dims[0]) if parts else step.anything()
    axis = step.axis(rank, 1)
    shapes = [part.dims for part in parts if part.dims is not None]
    dims = [next((shape[index] for shape in shapes if shape[index] is not None), None) for index in range(rank)]
    lengths = [shape[axis] for shape in shapes]
    fixed = [length for length in lengths if length is not None]
    dims[axis] = sum(fixed) if len(fixed) == len(lengths) else None
    found = step.merged(tuple(dims))
    if dims[axis] is None or sum(fixed) > _MOST_FOLLOWED:
        joint = [joined_along(part, [axis], tuple(dims)) for part in parts]
        return with_dims(hull(joint, tuple(dims)), found)
    frame = [max(part.low.shape[index] for part in parts) for index in range(rank)]
    for index in range(rank):
        if index != axis and any(part.low.shape[index] not in (1, frame[index]) for part in parts):
            raise UnknownRangeError

    def move(name: str) -> Any:
        sizes = [(*frame[:axis], length, *frame[axis + 1 :]) for length in fixed]
        arrays = [np.broadcast_to(getattr(part, name), size) for part, size in zip(parts, sizes, strict=True)]
        return np.concatenate(arrays, axis)

    return step.picked(move("low"), move("high"), found, *parts, special=move("special"))


def _split(step: Step) -> list[Interval]:
    x = step.input(0)
    count = len(step.node.outputs)
    if x.dims is None:
        return [collapsed(x, step.dims[index]) for index in range(count)]
    axis = step.axis(len(x.dims), 0)
    sizes = step.ints("split") or (step.integers(1) if step.value(1) is not None else None)
    length = x.dims[axis]
    if sizes is None and length is not None and step.value(1) is None:
        part = -(-length // count)
        sizes = [max(0, min(part, length - index * part)) for index in range(count)]
    if sizes is not None and (len(sizes) != count or min(sizes) < 0 or (length is not None and sum(sizes) != length)):
        raise UnknownRangeError
    results, start = list[Interval](), 0
    for index in range(count):
        size = None if sizes is None else sizes[index]
        dims = step.merged((*x.dims[:axis], size, *x.dims[axis + 1 :]), index)
        if size is not None and x.low.shape[axis] == length != 1:
            where = (slice(None),) * axis + (slice(start, start + size),)
            results.append(x.moved(lambda ends, where=where: ends[where], dims))
        else:
            results.append(joined_along(x, [axis], dims))
        start += size or 0
    return results


def _pad(step: Step) -> Interval:
    x = step.input(0)
    mode = step.text("mode", "constant")
    pads = step.ints("pads") or step.ints("paddings") or step.integers(1)
    rank = len(x.dims or ())
    axes = step.axes(rank, "axes", 3) if x.dims is not None and step.value(3) is not None else None
    axes = list(range(rank)) if axes is None else axes
    dims, padded = step.dims[0], axes
    if pads is not None and x.dims is not None:
        if len(pads) != 2 * len(axes):
            raise UnknownRangeError
        found = list(x.dims)
        for index, axis in enumerate(axes):
            size = x.dims[axis]
            found[axis] = None if size is None else max(0, size + pads[index] + pads[index + len(axes)])
        padded = [axis for index, axis in enumerate(axes) if pads[index] or pads[index + len(axes)]]
        dims = step.merged(tuple(found))
    joint = collapsed(x, dims) if x.dims is None else joined_along(x, padded)
    if mode != "constant" or (x.dims is not None and not padded):
        return with_dims(joint, dims)
    filling = step.optional(2) or number(step.number("value", 0.0), x.dtype)
    low, high = np.minimum(joint.low, filling.least), np.maximum(joint.high, filling.greatest)
    return step.picked(low, high, dims, x, filling, special=joint.special | filling.bits)


def _write(step: Step) -> Interval:
    """Elements of the first operand, some of them replaced by those of the third."""
    x, updates = step.input(0), step.input(2)
    if step.text("reduction", "none") in ("add", "mul"):
        return step.unbounded()
    return collapsed(hull([collapsed(x, None), collapsed(updates, None)]), step.merged(x.dims))


def _one_hot(step: Step) -> Interval:
    """The two values, or `off + (on - off) * 0 or 1` as some runtimes compute."""
    values, dtype = step.input(2), step.dtypes[0]
    if dtype is None or not is_float(dtype):
        return collapsed(values, step.dims[0])
    error = np.asarray(8 * unit_roundoff(dtype) * values.size)
    spoilt = not values.finite or 2 * values.size > largest(dtype)
    with np.errstate(over="ignore"):
        low, high = np.asarray(values.least) - error, np.asarray(values.greatest) + error
    return step.result(low, high, step.dims[0], values, special=ANYTHING if spoilt else NONE)


def _top_k(step: Step) -> list[Interval]:
    """Elements along an axis, and where they were."""
    x = step.input(0)
    values = collapsed(x, step.dims[0])
    if x.dims is not None:
        axis = axis_of(step.int("axis", -1), len(x.dims))
        count = step.integers(1) if step.value(1) is not None else [step.int("k", 1)]
        dims = (*x.dims[:axis], count[0] if count else None, *x.dims[axis + 1 :])
        values = joined_along(x, [axis], step.merged(dims))
    return [values, *(step.anything(index) for index in range(1, len(step.node.outputs)))]


RULES: dict[str, Rule] = {
    "Slice": _slice,
    "Gather": _gather,
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "ScatterElements": _write,
    "ScatterND": _write,
    "OneHot": _one_hot,
    "TopK": _top_k,
}
