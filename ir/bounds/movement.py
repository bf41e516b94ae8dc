"""Operators that move elements: each place keeps its bounds where it can be followed, and joins others elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from castsmith.ir.bounds.interval import (
    Dims,
    Interval,
    broadcast_dims,
    constant_interval,
    flags,
    hull,
    joined_along,
    with_bounds,
)
from castsmith.ir.bounds.rounding import Array
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError


def collapsed(x: Interval, dims: Dims | None, *others: Interval) -> Interval:
    """One interval for all elements, with other dimensions."""
    low, high = np.asarray(x.least), np.asarray(x.greatest)
    return with_bounds(x, low, high, dims, **flags(x, *others))


def _identity(step: Step) -> Interval:
    x = step.input(0)
    return x if x.dims is not None or step.dims[0] is None else collapsed(x, step.dims[0])


def _dropout(step: Step) -> list[Interval]:
    """In inference the operand; in training zeros and scaled elements, whose ratio may be anything below 1."""
    training = step.optional(2)
    if "is_test" in step.node.attributes or (training is not None and training.greatest > 0):
        raise UnknownRangeError
    return [_identity(step), *(step.unbounded(index) for index in range(1, len(step.node.outputs)))]


def _transpose(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    attribute = step.node.attributes.get("perm")
    perm = list(reversed(range(len(x.dims)))) if attribute is None else [int(each) for each in attribute.as_ints()]
    axis = None if x.weights_axis is None else perm.index(x.weights_axis)
    dims = tuple(x.dims[each] for each in perm)
    return with_bounds(x, x.low.transpose(perm), x.high.transpose(perm), dims, weights_axis=axis)


def _reshape(step: Step) -> Interval:
    x = step.input(0)
    attribute = _attribute_ints(step, "shape")
    asked = step.partly_known(1) if attribute is None else list[int | None](attribute)
    dims = step.dims[0]
    if asked is not None:
        dims = step.merged(_reshaped(x.dims, asked, bool(step.int("allowzero", 0))))
    return regrouped(x, dims)


def _attribute_ints(step: Step, name: str) -> list[int] | None:
    attribute = step.node.attributes.get(name)
    return None if attribute is None else [int(each) for each in attribute.as_ints()]


def _reshaped(dims: Dims | None, asked: Sequence[int | None], allow_zero: bool) -> Dims:
    found: list[int | None] = []
    for index, size in enumerate(asked):
        if size is None:
            found.append(None)
        elif size == 0 and not allow_zero:
            found.append(dims[index] if dims is not None and index < len(dims) else None)
        else:
            found.append(None if size < 0 else size)
    if -1 in asked and dims is not None and None not in dims and found.count(None) == 1:
        rest = int(np.prod([each for each in found if each is not None], dtype=np.int64))
        total = int(np.prod([each for each in dims if each is not None], dtype=np.int64))
        if rest and total % rest == 0:
            found[list(asked).index(-1)] = total // rest
    return tuple(found)


def regrouped(x: Interval, dims: Dims | None) -> Interval:
    """The elements in the same order, in other dimensions. Dimensions that keep their place keep their bounds."""
    if x.dims is None or dims is None:
        return collapsed(x, dims)
    if x.low.size == 1 and x.high.size == 1 and x.weights_axis is None:
        return collapsed(x, dims)
    rank, new_rank = len(x.dims), len(dims)
    fixed = [dim for dim in dims if dim is not None]
    if len(fixed) == new_rank and x.low.shape == x.dims:
        return with_bounds(x, x.low.reshape(fixed), x.high.reshape(fixed), dims, weights_axis=_last_kept(x, dims))
    front = 0
    while front < min(rank, new_rank) and x.dims[front] is not None and x.dims[front] == dims[front]:
        front += 1
    back = 0
    while back < min(rank, new_rank) - front and _same(x.dims[-1 - back], dims[-1 - back]):
        back += 1
    middle = range(front, rank - back)
    low, high = joined_along(x, middle)
    low, high = _split_middle(x, low, high, dims, front, back)
    return with_bounds(x, low, high, dims, weights_axis=_last_kept(x, dims) if back else None)


def _same(a: int | None, b: int | None) -> bool:
    return a is not None and a == b


def _last_kept(x: Interval, dims: Dims) -> int | None:
    """The axis of weights, if it is the last one and stays it."""
    assert x.dims is not None
    last = x.weights_axis == len(x.dims) - 1 and bool(dims) and _same(x.dims[-1], dims[-1])
    return len(dims) - 1 if last else None


def _split_middle(x: Interval, low: Array, high: Array, dims: Dims, front: int, back: int) -> tuple[Array, Array]:
    """One resolved dimension that is split into several (heads), or several that are merged into one."""
    assert x.dims is not None
    shape = low.shape[:front] + (1,) * (len(dims) - back - front) + low.shape[low.ndim - back :]
    old = x.dims[front : len(x.dims) - back]
    new = dims[front : len(dims) - back]
    sizes = x.low.shape[front : len(x.dims) - back]
    tail = _matching_tail(old, new)
    if tail is None or any(size != 1 for size in sizes[: len(sizes) - tail[0]]):
        return low.reshape(shape), high.reshape(shape)
    kept, made = tail
    kept_dims = [each for each in old[len(old) - kept :] if each is not None]
    made_dims = [each for each in new[len(new) - made :] if each is not None]
    rest = (1,) * (len(new) - made)
    results: list[Array] = []
    for array in (x.low, x.high):
        inner = array.shape[:front] + tuple(kept_dims) + array.shape[array.ndim - back :]
        ones = array.reshape(array.shape[:front] + sizes[len(sizes) - kept :] + array.shape[array.ndim - back :])
        full = np.broadcast_to(ones, inner)
        results.append(full.reshape(array.shape[:front] + rest + tuple(made_dims) + array.shape[array.ndim - back :]))
    return results[0], results[1]


def _matching_tail(old: Dims, new: Dims) -> tuple[int, int] | None:
    """Return the smallest numbers of last dimensions of each that have the same product; None without a match."""
    i = j = 0
    a = b = 1
    while True:
        if i and j and a == b:
            return i, j
        if (a <= b or j == len(new)) and i < len(old):
            dim = old[len(old) - 1 - i]
            if dim is None:
                return None
            a, i = a * dim, i + 1
        elif j < len(new):
            dim = new[len(new) - 1 - j]
            if dim is None:
                return None
            b, j = b * dim, j + 1
        else:
            return None


def _flatten(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    axis = step.int("axis", 1)
    axis += len(x.dims) if axis < 0 else 0
    parts = (x.dims[:axis], x.dims[axis:])
    products: list[int | None] = []
    for part in parts:
        fixed = [each for each in part if each is not None]
        products.append(int(np.prod(fixed, dtype=np.int64)) if len(fixed) == len(part) else None)
    return regrouped(x, step.merged(tuple(products)))


def _squeeze(step: Step) -> Interval:
    x, axes = step.input(0), step.axes()
    if x.dims is None:
        return collapsed(x, step.dims[0])
    if axes is None:
        if None in x.dims:
            return collapsed(x, step.dims[0])
        axes = [i for i, dim in enumerate(x.dims) if dim == 1]
    gone = {axis % len(x.dims) for axis in axes}
    dims = tuple(dim for i, dim in enumerate(x.dims) if i not in gone)
    low, high = joined_along(x, gone)
    shape = tuple(n for i, n in enumerate(low.shape) if i not in gone)
    return with_bounds(x, low.reshape(shape), high.reshape(shape), dims, weights_axis=_last_kept(x, dims))


def _unsqueeze(step: Step) -> Interval:
    x, axes = step.input(0), step.axes()
    if x.dims is None or axes is None:
        return collapsed(x, step.dims[0])
    rank = len(x.dims) + len(axes)
    new = {axis % rank for axis in axes}
    sizes: list[int] = list(x.low.shape)
    found: list[int | None] = list(x.dims)
    for index in sorted(new):
        sizes.insert(index, 1)
        found.insert(index, 1)
    dims = tuple(found)
    return with_bounds(x, x.low.reshape(sizes), x.high.reshape(sizes), dims, weights_axis=_last_kept(x, dims))


def _expand(step: Step) -> Interval:
    x, asked = step.input(0), step.partly_known(1)
    dims = step.dims[0]
    if asked is not None:
        given = tuple(each if each is not None and each >= 0 else None for each in asked)
        dims = step.merged(broadcast_dims(x.dims, given))
    if x.dims is None or dims is None or len(dims) < len(x.dims):
        return collapsed(x, dims)
    axis = x.weights_axis
    same = len(dims) == len(x.dims) and axis is not None and _same(x.dims[axis], dims[axis])
    return with_bounds(x, x.low, x.high, dims, weights_axis=x.weights_axis if same else None)


def _tile(step: Step) -> Interval:
    x, repeats = step.input(0), step.integers(1)
    if x.dims is None or repeats is None or len(repeats) != len(x.dims):
        return collapsed(x, step.dims[0])
    many = [i for i, times in enumerate(repeats) if times != 1]
    dims = tuple(None if dim is None else dim * times for dim, times in zip(x.dims, repeats, strict=True))
    return with_bounds(x, *joined_along(x, many), dims)


def _slice(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    old = step.opset < 10
    starts = _attribute_ints(step, "starts") if old else step.integers(1)
    ends = _attribute_ints(step, "ends") if old else step.integers(2)
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
        cut = slice(start, end if end > -(2**31) else None, by)
        if dim is None:
            dims[axis] = None
            low, high = low.min(axis=axis, keepdims=True), high.max(axis=axis, keepdims=True)
            continue
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
    sizes = _attribute_ints(step, "split") or (step.integers(1) if step.value(1) is not None else None)
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
    pads = _attribute_ints(step, "pads") or _attribute_ints(step, "paddings") or step.integers(1)
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
    if mode == "constant" and padded:
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
    return replace(hull(parts, x.dims), **flags(x, updates))


def _shape(step: Step) -> Interval:
    x = step.input(0)
    start, end = step.int("start", 0), step.node.attributes.get("end")
    if x.dims is None:
        return step.result(np.zeros(()), np.asarray(2.0**53), step.dims[0] or (None,))
    dims = x.dims[slice(start, None if end is None else end.as_int())]
    low = np.array([0.0 if dim is None else float(dim) for dim in dims])
    high = np.array([2.0**53 if dim is None else float(dim) for dim in dims])
    return step.result(low, high, (len(dims),), nan=False, infinite=False, assumes=frozenset(), blame=frozenset())


def _size(step: Step) -> Interval:
    dims = step.input(0).dims
    known = dims is not None and None not in dims
    total = float(np.prod([each or 0 for each in dims or ()])) if known else 0.0
    return step.result(np.asarray(total), np.asarray(total if known else 2.0**53), (), nan=False, infinite=False)


def _constant_of_shape(step: Step) -> Interval:
    attribute = step.node.attributes.get("value")
    value = 0.0 if attribute is None else float(np.asarray(attribute.as_tensor().numpy()).reshape(-1)[0])
    asked, partly = step.integers(0), step.partly_known(0)
    dims = step.merged(None if partly is None else tuple(partly))
    facts = {"nan": bool(np.isnan(value)), "infinite": bool(np.isinf(value))}
    value = 0.0 if np.isnan(value) else value
    filled = constant_interval(value, value, dims, step.dtypes[0], **facts)
    if asked is not None and 0 < np.prod(asked, dtype=np.float64) <= 4096:
        full = np.full(asked, value)
        return with_bounds(filled, full, full, dims)
    return filled


def _one_hot(step: Step) -> Interval:
    values = step.input(2)
    return collapsed(values, step.dims[0])


def _trilu(step: Step) -> Interval:
    x = step.input(0)
    axis = x.weights_axis
    return with_bounds(x, np.minimum(x.low, 0), np.maximum(x.high, 0), step.merged(x.dims), weights_axis=axis)


def _any_moved(step: Step) -> Interval:
    """All elements joined: for moves that are not followed further."""
    return collapsed(step.input(0), step.dims[0])


def _resize(step: Step) -> Interval:
    """Interpolation between neighbours; cubic weights are negative in part and sum up to less than 1.5 in each axis."""
    x = step.input(0)
    mode = step.text("mode", "nearest")
    low, high = (np.asarray(x.least), np.asarray(x.greatest)) if x.dims is None else (x.low, x.high)
    dims = step.dims[0]
    if x.dims is not None and dims is not None and len(dims) == len(x.dims):
        changed = [i for i in range(len(dims)) if dims[i] is None or dims[i] != x.dims[i]]
        low, high = joined_along(x, changed)
    elif x.dims is not None:
        low, high = np.asarray(x.least), np.asarray(x.greatest)
    spread = 0.0
    if mode == "cubic":
        if not -1 <= step.float("cubic_coeff_a", -0.75) <= 0 or step.int("exclude_outside", 0):
            raise UnknownRangeError
        spread = 2.0 ** max(len(x.dims or (1, 1)), 1)
    if step.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        value = step.float("extrapolation_value", 0.0)
        low, high = np.minimum(low, value), np.maximum(high, value)
    most = np.maximum(np.abs(low), np.abs(high))
    error = 0.0 if mode == "nearest" else 2.0**-18
    with np.errstate(all="ignore"):
        margin = np.where(np.isfinite(most), most * (spread + error), 0.0)
    return step.result(low - margin, high + margin, dims, x)


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
    "Identity": _identity,
    "Dropout": _dropout,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Tile": _tile,
    "Slice": _slice,
    "Gather": _gather,
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "Scatter": _write,
    "ScatterElements": _write,
    "ScatterND": _write,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "Trilu": _trilu,
    "Resize": _resize,
    "Upsample": _resize,
    **dict.fromkeys(
        ("DepthToSpace", "SpaceToDepth", "ReverseSequence", "GatherElements", "GatherND", "Compress"), _any_moved
    ),
}
