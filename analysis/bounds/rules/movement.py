"""Operators that keep every element: each place keeps its bounds where it can be followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from castsmith.analysis.bounds.interval import (
    NONE,
    Dims,
    Interval,
    Shares,
    UnknownRangeError,
    broadcast_dims,
    collapsed,
    interval_of,
    joined_along,
    number,
    with_dims,
)
from castsmith.analysis.bounds.step import Rule, Step, axis_of

_MOST_FOLLOWED = 4096
"""Elements of a filled tensor that are followed one by one."""
_LAST = 1 << 62
"""The end of all dimensions."""
_LONGEST_DIMENSION = 2.0**53
"""No dimension is larger."""


def _identity(step: Step) -> Interval:
    x = step.input(0)
    return x if x.dims is not None or step.dims[0] is None else collapsed(x, step.dims[0])


def _dropout(step: Step) -> list[Interval]:
    """In inference the operand; in training zeros and scaled elements, whose ratio may be anything below 1."""
    training = step.optional(2)
    trains = training is not None and training.greatest > 0
    if trains or step.opset < 7:
        raise UnknownRangeError
    return [_identity(step), *(step.anything(index) for index in range(1, len(step.node.outputs)))]


def _transpose(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        return collapsed(x, step.dims[0])
    perm = step.ints("perm")
    if perm is None:
        perm = list(reversed(range(len(x.dims))))
    if sorted(perm) != [*range(len(x.dims))]:
        raise UnknownRangeError
    shares = x.shares and replace(x.shares, axis=perm.index(x.shares.axis))
    dims = step.merged(tuple(x.dims[axis] for axis in perm))
    return x.moved(lambda ends: ends.transpose(perm), dims, shares)


def _reshape(step: Step) -> Interval:
    x = step.input(0)
    attribute = step.ints("shape")
    asked = step.partly_known(1) if attribute is None else list[int | None](attribute)
    dims = step.dims[0]
    if asked is not None:
        dims = step.merged(_reshaped(x.dims, asked, bool(step.int("allowzero", 0))))
    return regrouped(x, dims)


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
        rest = prod(each for each in found if each is not None)
        total = prod(each for each in dims if each is not None)
        if rest and total % rest == 0:
            found[list(asked).index(-1)] = total // rest
    return tuple(found)


def regrouped(x: Interval, dims: Dims | None) -> Interval:
    """The elements in the same order, in other dimensions. Dimensions that keep their place keep their bounds."""
    if x.dims is None or dims is None or (x.low.size == 1 and x.shares is None):
        return collapsed(x, dims)
    rank, new_rank = len(x.dims), len(dims)
    fixed = [dim for dim in dims if dim is not None]
    if len(fixed) == new_rank and x.low.shape == x.dims:
        if prod(fixed) != x.low.size:
            raise UnknownRangeError
        return x.moved(lambda ends: ends.reshape(fixed), dims, last_kept(x, dims))
    front = 0
    while front < min(rank, new_rank) and _same(x.dims[front], dims[front]):
        front += 1
    back = 0
    while back < min(rank, new_rank) - front and _same(x.dims[-1 - back], dims[-1 - back]):
        back += 1
    return _split_middle(x, dims, front, back)


def _same(a: int | None, b: int | None) -> bool:
    return a is not None and a == b


def last_kept(x: Interval, dims: Dims) -> Shares | None:
    """The shares along the last axis, if it stays the last one."""
    if x.shares is None or x.dims is None or x.shares.axis != len(x.dims) - 1 or not dims:
        return None
    return replace(x.shares, axis=len(dims) - 1) if _same(x.dims[-1], dims[-1]) else None


def _split_middle(x: Interval, dims: Dims, front: int, back: int) -> Interval:
    """The dimensions between two parts that stay: one is split into several (heads), or several are merged."""
    old = (x.dims or ())[front : len(x.dims or ()) - back]
    new = dims[front : len(dims) - back]
    sizes = x.low.shape[front : x.low.ndim - back]
    shares = last_kept(x, dims) if back else None
    tail = _matching_tail(old, new)
    if tail is None or any(size != 1 for size in sizes[: len(sizes) - tail[0]]):
        joint = joined_along(x, range(front, x.low.ndim - back))
        return joint.moved(
            lambda ends: ends.reshape(ends.shape[:front] + (1,) * len(new) + ends.shape[ends.ndim - back :]),
            dims,
            shares,
        )
    kept, made = tail
    kept_dims = [each for each in old[len(old) - kept :] if each is not None]
    made_dims = [each for each in new[len(new) - made :] if each is not None]

    def move(ends: Any) -> Any:
        before, after = ends.shape[:front], ends.shape[ends.ndim - back :]
        part = ends.reshape(before + sizes[len(sizes) - kept :] + after)
        full = np.broadcast_to(part, (*before, *kept_dims, *after))
        return full.reshape((*before, *(1,) * (len(new) - made), *made_dims, *after))

    return x.moved(move, dims, shares)


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
    products: list[int | None] = []
    for part in (x.dims[:axis], x.dims[axis:]):
        fixed = [each for each in part if each is not None]
        products.append(prod(fixed) if len(fixed) == len(part) else None)
    return regrouped(x, step.merged(tuple(products)))


def _squeeze(step: Step) -> Interval:
    x = step.input(0)
    axes = step.axes(None if x.dims is None else len(x.dims))
    if x.dims is None or (axes is None and None in x.dims):
        return collapsed(x, step.dims[0])
    gone = [index for index, dim in enumerate(x.dims) if dim == 1] if axes is None else axes
    if any(x.dims[axis] not in (1, None) for axis in gone):
        raise UnknownRangeError
    dims = tuple(dim for index, dim in enumerate(x.dims) if index not in gone)
    return x.moved(lambda ends: ends.squeeze(tuple(gone)), step.merged(dims), last_kept(x, dims))


def _unsqueeze(step: Step) -> Interval:
    x, asked = step.input(0), step.axes(None)
    if x.dims is None or asked is None:
        return collapsed(x, step.dims[0])
    rank = len(x.dims) + len(asked)
    new = sorted({axis_of(axis, rank) for axis in asked})
    if len(new) < len(asked):
        raise UnknownRangeError
    dims = list(x.dims)
    for axis in new:
        dims.insert(axis, 1)
    return x.moved(lambda ends: np.expand_dims(ends, tuple(new)), step.merged(tuple(dims)), last_kept(x, tuple(dims)))


def _expand(step: Step) -> Interval:
    x, asked = step.input(0), step.partly_known(1)
    dims = step.dims[0]
    if asked is not None:
        dims = step.merged(
            broadcast_dims(x.dims, tuple(each if each is not None and each >= 0 else None for each in asked))
        )
    if x.dims is None or dims is None or len(dims) < len(x.dims):
        return collapsed(x, dims)
    shares = x.shares
    same = shares is not None and len(dims) == len(x.dims) and _same(x.dims[shares.axis], dims[shares.axis])
    return x.moved(lambda ends: ends, dims, shares if same else None)


def _tile(step: Step) -> Interval:
    x, repeats = step.input(0), step.integers(1)
    if x.dims is None or repeats is None or len(repeats) != len(x.dims):
        return collapsed(x, step.dims[0])
    dims = tuple(None if dim is None else dim * times for dim, times in zip(x.dims, repeats, strict=True))
    many = [axis for axis, times in enumerate(repeats) if times != 1]
    return with_dims(joined_along(x, many), step.merged(dims))


def _shape(step: Step) -> Interval:
    """It depends on the shape of the operand alone, not on its elements."""
    x, dtype = step.input(0), step.dtypes[0]
    start, end = step.int("start", 0), step.int("end", _LAST)
    if x.dims is None:
        return interval_of(np.zeros(()), np.asarray(_LONGEST_DIMENSION), NONE, step.dims[0] or (None,), dtype)
    dims = x.dims[slice(start, end)]
    low = np.array([0.0 if dim is None else float(dim) for dim in dims])
    high = np.array([_LONGEST_DIMENSION if dim is None else float(dim) for dim in dims])
    return interval_of(low, high, NONE, (len(dims),), dtype)


def _size(step: Step) -> Interval:
    dims = step.input(0).dims
    known = dims is not None and None not in dims
    low = float(prod(dim or 0 for dim in dims or ())) if known else 0.0
    high = low if known else _LONGEST_DIMENSION
    return interval_of(np.asarray(low), np.asarray(high), NONE, (), step.dtypes[0])


def _constant_of_shape(step: Step) -> Interval:
    attribute = step.tensor_attribute("value")
    filling = np.zeros(1) if attribute is None else attribute.reshape(-1)
    if filling.size != 1 or filling.dtype.kind in "OSUc":
        raise UnknownRangeError
    value = float(filling.astype(np.float64)[0])
    asked, partly = step.integers(0), step.partly_known(0)
    dims = step.merged(None if partly is None else tuple(partly))
    found = collapsed(number(value, step.dtypes[0]), dims)
    if asked is None or min(asked, default=0) < 0 or not 0 < prod(asked) <= _MOST_FOLLOWED:
        return found
    return found.moved(lambda ends: np.full(asked, ends.reshape(-1)[0]), dims)


def _trilu(step: Step) -> Interval:
    x = step.input(0)
    low, high = np.minimum(x.low, 0), np.maximum(x.high, 0)
    return step.picked(low, high, x.dims, x, special=x.special, shares=x.shares)


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
}
