"""Operators that keep every element: each place keeps its bounds where it can be followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from castsmith.ir.bounds.interval import (
    Dims,
    Interval,
    broadcast_dims,
    collapsed,
    constant_interval,
    joined_along,
    with_bounds,
)
from castsmith.ir.bounds.rounding import Array
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError


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
    dims = step.merged(tuple(x.dims[each] for each in perm))
    return with_bounds(x, x.low.transpose(perm), x.high.transpose(perm), dims, weights_axis=axis)


def _reshape(step: Step) -> Interval:
    x = step.input(0)
    attribute = attribute_ints(step, "shape")
    asked = step.partly_known(1) if attribute is None else list[int | None](attribute)
    dims = step.dims[0]
    if asked is not None:
        dims = step.merged(_reshaped(x.dims, asked, bool(step.int("allowzero", 0))))
    return regrouped(x, dims)


def attribute_ints(step: Step, name: str) -> list[int] | None:
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
        return with_bounds(x, x.low.reshape(fixed), x.high.reshape(fixed), dims, weights_axis=last_kept(x, dims))
    front = 0
    while front < min(rank, new_rank) and x.dims[front] is not None and x.dims[front] == dims[front]:
        front += 1
    back = 0
    while back < min(rank, new_rank) - front and _same(x.dims[-1 - back], dims[-1 - back]):
        back += 1
    middle = range(front, rank - back)
    low, high = joined_along(x, middle)
    low, high = _split_middle(x, low, high, dims, front, back)
    return with_bounds(x, low, high, dims, weights_axis=last_kept(x, dims) if back else None)


def _same(a: int | None, b: int | None) -> bool:
    return a is not None and a == b


def last_kept(x: Interval, dims: Dims) -> int | None:
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
    axis = last_kept(x, dims)
    return with_bounds(x, low.reshape(shape), high.reshape(shape), step.merged(dims), weights_axis=axis)


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
    axis = last_kept(x, dims)
    return with_bounds(x, x.low.reshape(sizes), x.high.reshape(sizes), step.merged(dims), weights_axis=axis)


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
    return with_bounds(x, *joined_along(x, many), step.merged(dims))


_OF_NO_ELEMENT: dict[str, Any] = {"nan": False, "infinite": False, "assumes": frozenset(), "blame": frozenset()}
"""The facts of a result that depends on the shape of the operand alone."""


def _shape(step: Step) -> Interval:
    x = step.input(0)
    start, end = step.int("start", 0), step.node.attributes.get("end")
    if x.dims is None:
        return step.result(np.zeros(()), np.asarray(2.0**53), step.dims[0] or (None,), **_OF_NO_ELEMENT)
    dims = x.dims[slice(start, None if end is None else end.as_int())]
    low = np.array([0.0 if dim is None else float(dim) for dim in dims])
    high = np.array([2.0**53 if dim is None else float(dim) for dim in dims])
    return step.result(low, high, (len(dims),), **_OF_NO_ELEMENT)


def _size(step: Step) -> Interval:
    dims = step.input(0).dims
    known = dims is not None and None not in dims
    total = float(np.prod([each or 0 for each in dims or ()])) if known else 0.0
    return step.result(np.asarray(total), np.asarray(total if known else 2.0**53), (), **_OF_NO_ELEMENT)


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


def _trilu(step: Step) -> Interval:
    x = step.input(0)
    axis = x.weights_axis
    return with_bounds(x, np.minimum(x.low, 0), np.maximum(x.high, 0), step.merged(x.dims), weights_axis=axis)


def _any_moved(step: Step) -> Interval:
    """All elements joined: for moves that are not followed further."""
    return collapsed(step.input(0), step.dims[0])


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
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "Trilu": _trilu,
    **dict.fromkeys(
        ("DepthToSpace", "SpaceToDepth", "ReverseSequence", "GatherElements", "GatherND", "Compress"), _any_moved
    ),
}
