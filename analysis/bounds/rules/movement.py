"""Operators that move elements: each place keeps its bounds where it can be followed."""

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
    collapsed,
    hull,
    interval_of,
    joined_along,
    number,
    with_dims,
)
from castsmith.analysis.bounds.step import Rule, Step
from castsmith.ir.ops.movement import RULES as MOVEMENTS, Dims as Shape, Movement, movement_of
from castsmith.ir.ops.moves import Way, python_slice
from castsmith.ir.ops.table import traits_of
from castsmith.numerics.symbols import Element, Unknown, product

_MOST_FOLLOWED = 4096
"""Elements of a filled tensor, places along an axis, or indices, that are followed one by one."""
_LAST = 1 << 62
"""The end of all dimensions."""
_LONGEST_DIMENSION = 2.0**53
"""No dimension is larger."""


def _identity(step: Step) -> Interval:
    x = step.input(0)
    return x if x.dims is not None else collapsed(x, step.dims[0])


def _dropout(step: Step) -> list[Interval]:
    """In inference the operand; in training zeros and scaled elements, whose ratio may be anything below 1."""
    training = step.optional(2)
    trains = training is not None and training.greatest > 0
    if trains or step.opset < 7:
        raise UnknownRangeError
    return [_identity(step), *(step.anything(index) for index in range(1, len(step.node.outputs)))]


def moved(step: Step) -> list[Interval]:
    """Operators whose movement is in `castsmith.ir.ops.movement`: each place keeps its bounds where it is followed."""
    operation = step.operation()
    shapes = operation.shapes
    movements = movement_of(operation.operands(shapes))
    if movements is None:
        return joined(step)
    return [_placed(step, movement, shapes, index) for index, movement in enumerate(movements)]


def _number(dim: Element) -> int | None:
    return dim if isinstance(dim, int) else None


def _numbers(dims: Shape) -> list[int]:
    return [dim for dim in dims if isinstance(dim, int)]


def _placed(step: Step, movement: Movement, shapes: Sequence[Shape | None], index: int) -> Interval:
    x, shape = step.input(0), movement.shape
    dims, old = step.dims[index], shapes[0]
    if movement.disputed and shape is not None:
        dims = tuple(map(_number, shape))
    if shape is None or dims is None or old is None or len(dims) != len(shape):
        return collapsed(x if movement.way is not Way.CONCAT else hull(step.operands), dims)
    match movement.way:
        case Way.RESHAPE:
            return _regrouped(x, dims, old, shape)
        case Way.TRANSPOSE:
            return _transposed(x, dims, _numbers(movement.detail[0]))
        case Way.EXPAND:
            shares = x.shares
            same = shares is not None and len(dims) == len(old) and old[shares.axis] == shape[shares.axis]
            return x.moved(lambda ends: ends, dims, shares if same else None)
        case Way.TILE:
            many = [axis for axis, times in enumerate(movement.detail[0]) if times != 1]
            return with_dims(joined_along(x, many), dims)
        case Way.SLICE:
            return _sliced(x, dims, old, movement.detail)
        case Way.CONCAT:
            return _concatenated(step, dims, *_numbers(movement.detail[0]))
        case Way.GATHER:
            return _gathered(x, step.input(1), dims, *_numbers(movement.detail[0]))
        case Way.SCATTER:
            return _scattered(step)


def joined(step: Step) -> list[Interval]:
    """Moves of which nothing else is known join what they move."""
    node = step.node
    row = traits_of(node.domain, node.op_type)
    if not row.holds(node):
        raise UnknownRangeError
    moving = row.moved(node.inputs)
    parts = [x for value, x in zip(node.inputs, step.inputs, strict=True) if value in moving and x is not None]
    if not parts:
        raise UnknownRangeError
    united = hull([collapsed(part, None) for part in parts])
    return [
        collapsed(united, dims) if dtype in (None, united.dtype) else step.anything(index)
        for index, (dims, dtype) in enumerate(zip(step.dims, step.dtypes, strict=True))
    ]


def _scattered(step: Step) -> Interval:
    """Elements of the first operand, some of them replaced by those of the third, or combined with them."""
    x, updates = step.input(0), step.input(2)
    if step.text("reduction", "none") in ("add", "mul"):
        return step.unbounded()
    return collapsed(hull([collapsed(x, None), collapsed(updates, None)]), step.dims[0])


def _transposed(x: Interval, dims: Dims, perm: list[int]) -> Interval:
    shares = x.shares and replace(x.shares, axis=perm.index(x.shares.axis))
    return x.moved(lambda ends: ends.transpose(perm), dims, shares)


def _sliced(x: Interval, dims: Dims, old: Shape, parts: Sequence[Sequence[Any]]) -> Interval:
    """A part of elements that sum up to `most` sums up to no more."""
    places, unknown = [slice(None)] * len(old), list[int]()
    for axis, part in enumerate(parts):
        if not all(isinstance(number, int) for number in part):
            unknown.append(axis)
        elif x.low.shape[axis] == old[axis] != 1:
            places[axis] = python_slice(*part)
    return joined_along(x, unknown).moved(lambda ends: ends[tuple(places)], dims, x.shares)


def _concatenated(step: Step, dims: Dims, axis: int) -> Interval:
    parts, rank = step.operands, len(dims)
    lengths = [None if part.dims is None else part.dims[axis] for part in parts]
    fixed = [length for length in lengths if length is not None]
    if len(fixed) < len(lengths) or sum(fixed) > _MOST_FOLLOWED:
        spread = [joined_along(part, [axis], dims) for part in parts]
        return with_dims(hull(spread), dims)
    frame = [max(part.low.shape[index] for part in parts) for index in range(rank)]

    def move(name: str) -> Any:
        sizes = [(*frame[:axis], length, *frame[axis + 1 :]) for length in fixed]
        arrays = [np.broadcast_to(getattr(part, name), size) for part, size in zip(parts, sizes, strict=True)]
        return np.concatenate(arrays, axis)

    return step.picked(move("low"), move("high"), *parts, special=move("special"))


def _gathered(x: Interval, indices: Interval, dims: Dims, axis: int) -> Interval:
    exact, between, size = indices.exact, len(indices.dims or ()), x.low.shape[axis]
    if exact is not None and size == (x.dims or ())[axis] != 1 and exact.size <= _MOST_FOLLOWED:
        places = exact.astype(np.int64)
        if places.min() < -size or places.max() >= size:
            raise UnknownRangeError
        return x.moved(lambda ends: np.take(ends, places, axis=axis), dims)
    flat = joined_along(x, [axis])
    return flat.moved(lambda ends: ends.reshape(ends.shape[:axis] + (1,) * between + ends.shape[axis + 1 :]), dims)


def _regrouped(x: Interval, dims: Dims, old: Shape, shape: Shape) -> Interval:
    """The elements in the same order, in other dimensions. Dimensions that keep their place keep their bounds."""
    fixed = [dim for dim in dims if dim is not None]
    if len(fixed) == len(dims) and x.low.shape == x.dims:
        if prod(fixed) != x.low.size:
            raise UnknownRangeError
        return x.moved(lambda ends: ends.reshape(fixed), dims, _last_kept(x, old, shape))
    # Declared numbers where the rule gives none.
    pairs = zip(shape, dims, strict=True)
    new = tuple(size if size is not None and isinstance(dim, Unknown) else dim for dim, size in pairs)
    places = {axis: _place_of(axis, old, new) for axis, size in enumerate(x.low.shape) if size > 1}
    if None in places.values():
        x = joined_along(x, None)
    sizes = [1] * len(new)
    for axis, place in places.items():
        if place is not None:
            sizes[place] = x.low.shape[axis]
    return x.moved(lambda ends: ends.reshape(sizes), dims, _last_kept(x, old, new))


def _place_of(axis: int, old: Shape, new: Shape) -> int | None:
    """Return the new place of a dimension behind which there are as many elements as before."""
    behind = product(old[axis + 1 :])
    places = (place for place in range(len(new)) if product(new[place + 1 :]) == behind)
    return None if isinstance(behind, Unknown) else next(places, None)


def _last_kept(x: Interval, old: Shape, new: Shape) -> Shares | None:
    """The shares along the last axis, if it stays the last one."""
    if x.shares is None or x.shares.axis != len(old) - 1 or not new:
        return None
    return replace(x.shares, axis=len(new) - 1) if old[-1] == new[-1] else None


def _shape(step: Step) -> Interval:
    """It depends on the shape of the operand alone, not on its elements."""
    x, dtype = step.input(0), step.dtypes[0]
    start, end = step.int("start", 0), step.int("end", _LAST)
    if x.dims is None:
        return interval_of(np.zeros(()), np.asarray(_LONGEST_DIMENSION), NONE, step.dims[0], dtype)
    dims = x.dims[slice(start, end)]
    low = np.array([0.0 if dim is None else float(dim) for dim in dims])
    high = np.array([_LONGEST_DIMENSION if dim is None else float(dim) for dim in dims])
    return interval_of(low, high, NONE, (len(dims),), dtype)


def _size(step: Step) -> Interval:
    dims = step.input(0).dims
    fixed = dims is not None and None not in dims
    low = float(prod(dim or 0 for dim in dims or ())) if fixed else 0.0
    high = low if fixed else _LONGEST_DIMENSION
    return interval_of(np.asarray(low), np.asarray(high), NONE, (), step.dtypes[0])


def _constant_of_shape(step: Step) -> Interval:
    attribute = step.tensor_attribute("value")
    filling = np.zeros(1) if attribute is None else attribute.reshape(-1)
    if filling.size != 1 or filling.dtype.kind in "OSUc":
        raise UnknownRangeError
    value = float(filling.astype(np.float64)[0])
    asked, dims = step.integers(0), step.dims[0]
    filled = collapsed(number(value, step.dtypes[0]), dims)
    if asked is None or min(asked, default=0) < 0 or not 0 < prod(asked) <= _MOST_FOLLOWED:
        return filled
    return filled.moved(lambda ends: np.full(asked, ends.reshape(-1)[0]), dims)


def _trilu(step: Step) -> Interval:
    x = step.input(0)
    low, high = np.minimum(x.low, 0), np.maximum(x.high, 0)
    return step.picked(low, high, x, special=x.special, shares=x.shares)


RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVEMENTS, moved),
    "Identity": _identity,
    "Dropout": _dropout,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "ScatterElements": _scattered,
    "Trilu": _trilu,
}
