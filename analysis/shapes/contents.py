"""Results of operators on small arrays whose elements are known: moves, shapes, and arithmetic.

Every rule is the operator's definition, the same at every opset that has it; moves of elements are in
`castsmith.ir.ops.movement`, arithmetic is in `castsmith.analysis.shapes.arithmetic`. A test compares each rule with the
reference implementation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from itertools import product as places
from math import prod
from typing import Any, cast

import numpy as np

from castsmith.analysis.shapes.arithmetic import BY_ELEMENT, Scalar, cast_content, each_of, elementwise, picked
from castsmith.analysis.shapes.elements import (
    MOST,
    Content,
    Derived,
    Operation,
    all_integers,
    array_of,
    fitted,
    is_number,
    of_tensor,
)
from castsmith.ir.ops.movement import RULES, moves_of
from castsmith.ir.ops.moves import MoveError, Way, move, operands_of
from castsmith.ir.ops.table import CASTS, operators
from castsmith.numerics.symbols import UNKNOWN, Element, product


def _moved(node: Operation) -> list[Content | None] | None:
    """Move the elements by the rules of fold-constants."""
    contents = [_filling(node)] if node.node.op_type == "ConstantOfShape" else node.contents
    plan = moves_of(node.operands([None if content is None else content.shape for content in contents]))
    if not plan or any(prod(part.shape) > MOST for part in plan):
        return None
    count = operands_of(plan[0].way, len(contents))
    arrays = [content for content in contents[:count] if content is not None]
    if len(arrays) < count:
        return None
    if plan[0].way in (Way.GATHER, Way.SCATTER):
        if not all_integers(arrays[1]):
            return None
        arrays[1] = arrays[1].astype(np.int64)
    try:
        return [_as_array(move(step, arrays)) for step in plan]
    except MoveError:
        return None


def _as_array(elements: Any) -> Content:
    """Return an array for a single element, which numpy returns as a scalar."""
    return cast("Content", elements) if isinstance(elements, np.ndarray) else array_of([elements], ())


def _filling(node: Operation) -> Content | None:
    """Return the scalar with which a ConstantOfShape fills its result."""
    attribute = node.node.attributes.get("value")
    filling = array_of([0], (1,)) if attribute is None else of_tensor(attribute.as_tensor())
    return None if filling is None or filling.size != 1 else filling.reshape(())


def _shape(node: Operation) -> Content | None:
    dims = node.shapes[0]
    if dims is None:
        return None
    start, end = node.integer("start", 0), node.node.attributes.get_int("end", len(dims))
    picked = dims[slice(start, end)]
    return array_of(picked, (len(picked),))


def _size(node: Operation) -> Content | None:
    dims = node.shapes[0]
    return None if dims is None else array_of([product(dims)], ())


def _range(node: Operation) -> Content | None:
    operands = [node.integers(index) for index in range(3)]
    if node.floats or any(operand is None or len(operand) != 1 for operand in operands):
        return None
    start, limit, delta = (operand[0] for operand in operands if operand is not None)
    if delta == 0 or len(walk := range(start, limit, delta)) > MOST:
        return None
    return array_of(walk, (len(walk),))


def _gather_elements(node: Operation) -> Content | None:
    content, indices = node.content(0), node.content(1)
    if content is None or indices is None or not all_integers(indices):
        return None
    axis, sizes = node.integer("axis", 0), [*indices.shape]
    try:
        sizes[axis] = content.shape[axis]
        lines = content[tuple(map(slice, sizes))]  # along other axes there may be fewer indices than elements
        return np.take_along_axis(lines, indices.astype(np.int64), axis) if [*lines.shape] == sizes else None
    except IndexError:
        return None


def _gather_nd(node: Operation) -> Content | None:
    content, indices = node.content(0), node.content(1)
    if content is None or indices is None or not all_integers(indices) or node.integer("batch_dims", 0):
        return None
    if indices.ndim == 0 or indices.shape[-1] == 0:
        return None
    try:
        return _as_array(content[tuple(np.moveaxis(indices.astype(np.int64), -1, 0))])
    except IndexError:
        return None


def _trilu(node: Operation) -> Content | None:
    content = node.content(0)
    k = node.integers(1) if node.has(1) else (0,)
    if content is None or k is None or len(k) != 1 or content.ndim < 2:
        return None
    keep = np.triu(np.ones(content.shape, bool), k[0])
    if not node.integer("upper", 1):
        keep = np.tril(np.ones(content.shape, bool), k[0])
    return np.where(keep, content, array_of([0], ()))


def _cumulated(node: Operation) -> Content | None:
    content, axis = node.content(0), node.integers(1)
    if content is None or axis is None or len(axis) != 1 or node.floats or not -content.ndim <= axis[0] < content.ndim:
        return None
    backward, exclusive = node.integer("reverse", 0), node.integer("exclusive", 0)
    lines = np.moveaxis(content, axis[0], 0)
    lines = lines[::-1] if backward else lines
    sums = np.add.accumulate(lines, axis=0)
    sums = sums - lines if exclusive else sums
    return np.moveaxis(sums[::-1] if backward else sums, 0, axis[0])


def _reduced(node: Operation) -> Content | None:
    """Reduce integers over axes given by an attribute or an input, or all."""
    content, axes = node.content(0), node.parameter("axes", 1)
    if content is None or node.floats or (axes is None and node.has(1)) or not content.size:
        return None
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            return content
        axes = tuple(range(content.ndim))
    if any(not -content.ndim <= axis < content.ndim for axis in axes):
        return None
    reduced_axes = {axis % content.ndim for axis in axes}
    reduction = _REDUCTIONS[node.node.op_type](node.derived)
    kept_axes = [axis for axis in range(content.ndim) if axis not in reduced_axes]
    moved = content.transpose([*kept_axes, *sorted(reduced_axes)])
    lines = moved.reshape((*(content.shape[axis] for axis in kept_axes), -1))
    flat = lines.reshape(-1, lines.shape[-1]).tolist()
    shape = [
        1 if axis in reduced_axes else size
        for axis, size in enumerate(content.shape)
        if axis not in reduced_axes or node.integer("keepdims", 1)
    ]
    return array_of(map(reduction, flat), shape)


_Reduction = Callable[[Sequence[Element]], Element]


def _in_double(combine: Scalar) -> _Reduction:
    """Return UNKNOWN where a double may not hold a partial result: ONNX Runtime reduces int64 in double."""

    def reduced(line: Sequence[Element]) -> Element:
        largest = reduce(combine, (max(1, abs(number)) for number in line if isinstance(number, int)), 1)
        return reduce(combine, line) if isinstance(largest, int) and largest <= 1 << 53 else UNKNOWN

    return reduced


_REDUCTIONS: Mapping[str, Callable[[Derived], _Reduction]] = {
    "ReduceSum": lambda _: _in_double(operator.add),
    "ReduceProd": lambda _: _in_double(operator.mul),
    "ReduceMax": lambda derived: partial(reduce, picked(derived, "Max")),
    "ReduceMin": lambda derived: partial(reduce, picked(derived, "Min")),
}


def _places(node: Operation) -> Content | None:
    content = node.content(0)
    if content is None or content.ndim == 0 or not all(map(is_number, content.ravel().tolist())):
        return None
    nonzero = [place for place in places(*map(range, content.shape)) if content[place]]
    return array_of((place[axis] for axis in range(content.ndim) for place in nonzero), (content.ndim, len(nonzero)))


def _clipped(node: Operation) -> Content | None:
    content = node.content(0)
    bounds = [node.content(index) for index in (1, 2)]
    if content is None or node.opset < 11:  # where the bounds are attributes
        return None
    if any(bound is None and node.has(index) for index, bound in enumerate(bounds, 1)):
        return None
    for name, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is not None:
            if bound.size != 1:
                return None
            content = each_of(picked(node.derived, name), content, bound.reshape(()))
    return content


_ONE: Mapping[str, Callable[[Operation], Content | None]] = {
    **dict.fromkeys(BY_ELEMENT, elementwise),
    **dict.fromkeys(CASTS, cast_content),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Trilu": _trilu,
    "CumSum": _cumulated,
    "NonZero": _places,
    "Clip": _clipped,
}

FOLLOWED = frozenset({*_ONE, *RULES})
"""The operators whose results are computed."""

COMPUTED = FOLLOWED - CASTS - operators(lambda row: row.carries)
"""Those of them that compute: moves and casts of constants alone are the subject of fold-constants."""


def contents_of(node: Operation) -> list[Content | None] | None:
    """Return the elements of each output, as far as they are known; None if unknown."""
    if node.node.op_type not in FOLLOWED or any(a.is_ref() for a in node.node.attributes.values()):
        return None
    moved = _moved(node) if node.node.op_type in RULES else [_ONE[node.node.op_type](node)]
    return moved and [None if content is None else fitted(content, node.to) for content in moved]
