"""Operators that take, join or replace parts: places keep their bounds where the parts are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from castsmith.ir.bounds.interval import Interval, collapsed, constant_interval, flags, hull, joined_along, with_bounds
from castsmith.ir.bounds.rounding import Array, is_float, unit_roundoff
from castsmith.ir.bounds.rules.movement import attribute_ints
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError

_MAYBE_NONE = 2**31 - 1
"""An end from which on runtimes take a negative step to the front."""


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
    old = step.opset < 10
    starts = attribute_ints(step, "starts") if old else step.integers(1)
    ends = attribute_ints(step, "ends") if old else step.integers(2)
    axes = step.axes("axes", 3) if old or step.value(3) is not None else None
    steps = None if old or step.value(4) is None else step.integers(4)
    unknown = starts is None or ends is None or (not old and step.value(4) is not None and steps is None)
    if unknown or starts is None or ends is None:
        low, high = joined_along(x, None if axes is None else [a % len(x.dims) for a in axes])
        return with_bounds(x, low, high, step.dims[0])
    axes = list(range(len(starts))) if axes is None else [axis % len(x.dims) for axis in axes]
    low, high, dims = x.low, x.high, list(x.dims)
    for axis, start, end, by in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        dim = x.dims[axis]
        if dim is None or (by < 0 and end >= _MAYBE_NONE):
            dims[axis] = None
            low, high = low.min(axis=axis, keepdims=True), high.max(axis=axis, keepdims=True)
            continue
        cut = _cut(dim, start, end, by)
        dims[axis] = len(range(dim)[cut])
        if low.shape[axis] == dim and dim != 1:
            where = (slice(None),) * axis + (cut,)
            low, high = low[where], high[where]
    kept = x.weights_axis if x.weights_axis is not None else None  # a part of the weights sums up to no more
    return with_bounds(x, low, high, step.merged(tuple(dims)), weights_axis=kept)


def _gather(step: Step) -> Interval:
    x, indices = step.input(0), step.input(1)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    axis = step.int("axis", 0) % len(x.dims)
    between = indices.dims
    dims = None if between is None else x.dims[:axis] + between + x.dims[axis + 1 :]
    dims = step.merged(dims)
    exact = indices.exact
    if exact is not None and x.low.shape[axis] == x.dims[axis] != 1 and exact.size <= 4096:
        with np.errstate(all="ignore"):
            low = np.take(x.low, exact.astype(np.int64), axis=axis, mode="wrap")
            high = np.take(x.high, exact.astype(np.int64), axis=axis, mode="wrap")
        return with_bounds(x, low, high, dims)
    low, high = joined_along(x, [axis])
    if dims is None or between is None:
        return collapsed(x, dims)
    shape = low.shape[:axis] + (1,) * len(between) + low.shape[axis + 1 :]
    return with_bounds(x, low.reshape(shape), high.reshape(shape), dims)


def _concat(step: Step) -> Interval:
    parts = [each for each in step.inputs if each is not None]
    ranked = [each for each in parts if each.dims is not None]
    if len(ranked) < len(parts) or not parts:
        return collapsed(hull(parts, step.dims[0]), step.dims[0])
    rank = len(ranked[0].dims or ())
    axis = step.int("axis", 1) % rank
    dims: list[int | None] = [None] * rank
    for i in range(rank):
        sizes = [each.dims[i] for each in ranked if each.dims is not None]
        if i == axis:
            dims[i] = None if None in sizes else sum(size for size in sizes if size is not None)
        else:
            dims[i] = next((size for size in sizes if size is not None), None)
    lengths = [each.dims[axis] for each in ranked if each.dims is not None]
    facts = {**flags(*parts), "weights_axis": None}
    if None in lengths or sum(each or 0 for each in lengths) > 4096:
        joint = [with_bounds(each, *joined_along(each, [axis]), tuple(dims)) for each in ranked]
        return replace(hull(joint, tuple(dims)), dims=step.merged(tuple(dims)))
    full = [_spread(each, axis, length or 0) for each, length in zip(ranked, lengths, strict=True)]
    frame = [max(low.shape[i] for low, _ in full) for i in range(rank)]
    lows = [np.broadcast_to(low, _framed(frame, axis, low)) for low, _ in full]
    highs = [np.broadcast_to(high, _framed(frame, axis, high)) for _, high in full]
    low, high = np.concatenate(lows, axis), np.concatenate(highs, axis)
    return with_bounds(ranked[0], low, high, step.merged(tuple(dims)), **facts)


def _spread(x: Interval, axis: int, length: int) -> tuple[Array, Array]:
    """The bounds with one entry for each place along the axis."""
    shape = (*x.low.shape[:axis], length, *x.low.shape[axis + 1 :])
    return np.broadcast_to(x.low, shape), np.broadcast_to(x.high, shape)


def _framed(frame: Sequence[int], axis: int, part: Array) -> tuple[int, ...]:
    return tuple(part.shape[i] if i == axis else size for i, size in enumerate(frame))


def _split(step: Step) -> list[Interval]:
    x = step.input(0)
    count = len(step.node.outputs)
    if x.dims is None:
        return [collapsed(x, step.dims[i]) for i in range(count)]
    axis = step.int("axis", 0) % len(x.dims)
    sizes = attribute_ints(step, "split") or (step.integers(1) if step.value(1) is not None else None)
    length = x.dims[axis]
    if sizes is None and length is not None and step.value(1) is None:
        part = -(-length // count)
        sizes = [min(part, length - i * part) for i in range(count)]
    results: list[Interval] = []
    start = 0
    for index in range(count):
        size = None if sizes is None else sizes[index]
        dims = step.merged((*x.dims[:axis], size, *x.dims[axis + 1 :]), index)
        if size is not None and x.low.shape[axis] == length != 1:
            where = (slice(None),) * axis + (slice(start, start + size),)
            results.append(with_bounds(x, x.low[where], x.high[where], dims))
        else:
            results.append(with_bounds(x, *joined_along(x, [axis]), dims))
        start += size or 0
    return results


def _pad(step: Step) -> Interval:
    x = step.input(0)
    mode = step.text("mode", "constant")
    pads = attribute_ints(step, "pads") or attribute_ints(step, "paddings") or step.integers(1)
    rank = len(x.dims or ())
    axes = [a % rank for a in (step.axes("axes", 3) or [])] if rank and step.value(3) is not None else list(range(rank))
    dims = step.dims[0]
    padded = axes
    if pads is not None and x.dims is not None and len(pads) == 2 * len(axes):
        found = list(x.dims)
        for i, axis in enumerate(axes):
            size = x.dims[axis]
            found[axis] = None if size is None else size + pads[i] + pads[i + len(axes)]
        padded = [axis for i, axis in enumerate(axes) if pads[i] or pads[i + len(axes)]]
        dims = step.merged(tuple(found))
    if x.dims is None:
        low, high = np.asarray(x.least), np.asarray(x.greatest)
    else:
        low, high = joined_along(x, padded)
    extra = ()
    if mode == "constant" and (padded or x.dims is None):
        filling = step.optional(2) or constant_interval(step.float("value", 0.0), step.float("value", 0.0), (), x.dtype)
        low, high = np.minimum(low, filling.least), np.maximum(high, filling.greatest)
        extra = (filling,)
    return with_bounds(x, low, high, dims, **flags(x, *extra))


def _write(step: Step) -> Interval:
    """Elements of the first operand, some of them replaced by those of the third."""
    x, updates = step.input(0), step.input(2)
    reduction = step.text("reduction", "none")
    if reduction in ("add", "mul"):
        raise UnknownRangeError
    parts = [collapsed(x, x.dims), collapsed(updates, x.dims)]
    return replace(hull(parts, x.dims), dims=step.merged(x.dims), **flags(x, updates))


def _write_cache(step: Step) -> Interval:
    """TensorScatter: the elements of a cache, some of them replaced by those of the update."""
    x, update = step.input(0), step.input(1)
    return replace(hull([collapsed(x, x.dims), collapsed(update, x.dims)], x.dims), **flags(x, update))


def _with_zeros(step: Step) -> Interval:
    """Elements, and zeros beside them."""
    x = collapsed(step.input(0), step.dims[0])
    return replace(x, low=np.minimum(x.low, 0), high=np.maximum(x.high, 0))


def _unique(step: Step) -> list[Interval]:
    """Elements in another order, and where they were."""
    others = [step.unbounded(index) for index in range(1, len(step.node.outputs))]
    return [collapsed(step.input(0), step.dims[0]), *others]


def _one_hot(step: Step) -> Interval:
    values = step.input(2)
    error = (
        8 * unit_roundoff(values.dtype) * float(values.magnitude.max(initial=0.0)) if is_float(values.dtype) else 0.0
    )
    found = collapsed(values, step.dims[0])
    return replace(found, low=found.low - error, high=found.high + error)  # off + (on - off) * 0 or 1, in some runtimes


def _top_k(step: Step) -> list[Interval]:
    """Elements along an axis, and where they were."""
    x = step.input(0)
    values = collapsed(x, step.dims[0])
    if x.dims is not None:
        axis = step.int("axis", -1) % len(x.dims)
        count = step.integers(1) if step.value(1) is not None else [step.int("k", 1)]
        dims = (*x.dims[:axis], count[0] if count else None, *x.dims[axis + 1 :])
        values = with_bounds(x, *joined_along(x, [axis]), step.merged(dims))
    return [values, *(step.unbounded(index) for index in range(1, len(step.node.outputs)))]


RULES: dict[str, Rule] = {
    "Slice": _slice,
    "Gather": _gather,
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "Scatter": _write,
    "ScatterElements": _write,
    "ScatterND": _write,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "TensorScatter": _write_cache,
    "MaxUnpool": _with_zeros,
    "CenterCropPad": _with_zeros,
    "Unique": _unique,
}
