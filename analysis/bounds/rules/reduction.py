"""Reductions and pooling: each result is at least the least and at most the greatest element, or a sum of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    INFINITE,
    NAN,
    NONE,
    PLUS,
    Bits,
    Dims,
    Interval,
    UnknownRangeError,
    absolute,
    collapsed,
    joined_along,
    possible,
    square,
)
from castsmith.analysis.bounds.rounding import Array, is_integer, limits_of, overflows, sum_error, vanished, with_slack
from castsmith.analysis.bounds.rules.arithmetic import special_totals
from castsmith.analysis.bounds.rules.functions import negated
from castsmith.analysis.bounds.step import LENGTHS, Rule, Step, axis_of, longest

_SQUARES = ("ReduceL2", "ReduceSumSquare")


def _axes(step: Step, x: Interval) -> list[int]:
    """The axes that are reduced; none for all of a value of unknown rank. Raises UnknownRangeError for no reduction."""
    axes = step.axes(None if x.dims is None else len(x.dims))
    if not axes and step.int("noop_with_empty_axes", 0):
        raise UnknownRangeError
    return axes or list(range(len(x.dims or ())))


def _squeezed(step: Step, axes: list[int], *arrays: Any) -> list[Any]:
    return [*arrays] if step.int("keepdims", 1) else [np.squeeze(array, tuple(axes)) for array in arrays]


def _extremes(step: Step) -> Interval:
    """ReduceMax and ReduceMin. NaN may be passed over, and hides what is then the greatest."""
    x = step.input(0)
    axes = _axes(step, x)
    if x.nan.any():
        return step.anything()
    if x.dims is None:
        return replace(collapsed(x, step.dims[0]), assumes=x.assumes | {LENGTHS})
    count, assumes = longest(x.dims, axes)
    if not count:
        return step.anything()
    most = x if step.node.op_type == "ReduceMax" else negated(x)
    reduced = joined_along(most, axes)
    never = most.minus.all(axis=tuple(axes), keepdims=True)
    low = np.where(never, reduced.low, most.reach[0].max(axis=tuple(axes), keepdims=True))
    special = possible(plus=reduced.plus, minus=never)
    result = Interval(low, most.high.max(axis=tuple(axes), keepdims=True), special, reduced.dims, x.dtype)
    result = result if most is x else negated(result)
    low, high, special = _squeezed(step, axes, result.low, result.high, result.special)
    return step.picked(low, high, x, special=special, assumes=x.assumes | assumes)


def _sums(step: Step) -> Interval:
    """ReduceSum, ReduceL1, ReduceL2 and ReduceSumSquare."""
    x, kind, dtype = step.input(0), step.node.op_type, step.dtypes[0]
    axes = _axes(step, x)
    if x.dims is None:
        return step.unbounded()
    if kind == "ReduceSum" and x.shares is not None and axes == [x.shares.axis]:
        most, (count, assumes) = np.asarray(x.shares.most), longest(x.dims, axes)
        _, high, _ = step.total(most, most, most, count)
        assumes |= x.assumes | x.shares.assumes
        return step.result(np.zeros(()), high, x, special=special_totals(x.bits), assumes=assumes)
    if is_integer(dtype) and kind == "ReduceL2":  # the root of what may have wrapped round
        return step.anything()
    low, high = x.low, x.high
    if kind == "ReduceL1":
        low, high = absolute(low, high)
    elif kind in _SQUARES:
        low, high = square(low, high)
    count, assumes = longest(x.dims, axes)
    signs = PLUS if low.min() >= 0 else ANYTHING
    size = _totals(np.maximum(np.abs(low), np.abs(high)), axes, x.dims)
    bits = np.bitwise_or.reduce(x.special, axis=tuple(axes), keepdims=True)
    special = special_totals(bits) if kind == "ReduceSum" else possible((bits & NAN) != 0, (bits & INFINITE) != 0)
    shortest = tuple(1 if dim is None else dim for dim in x.dims)
    low = np.minimum(_totals(low, axes, x.dims), _totals(low, axes, shortest))
    high = np.maximum(_totals(high, axes, x.dims), _totals(high, axes, shortest))
    low, high, over = step.total(low, high, size, count, x, signs=signs)
    if signs == PLUS:
        low = np.maximum(low, 0.0)
    if kind == "ReduceL2":
        low, high = np.sqrt(low), np.sqrt(high)
    if dtype == DataType.DOUBLE and kind in _SQUARES:  # a definition of the operator goes by float
        low, high = with_slack(low, high, DataType.FLOAT)
        over = np.where(overflows(size, count, DataType.FLOAT, bounded=x.bounded), PLUS, NONE)
    low, high, special = _squeezed(step, axes, *np.broadcast_arrays(low, high, special | over))
    return step.result(low, high, x, special=special, assumes=x.assumes | assumes)


def _totals(array: Array, axes: Sequence[int], dims: Dims) -> Array:
    """The sums along the axes of an array in which a length of 1 may stand for a longer dimension."""
    times = longest(dims, [axis for axis in axes if array.shape[axis] == 1])[0]
    with np.errstate(all="ignore"):
        total = array.sum(axis=tuple(axes), keepdims=True)
        return np.where(total == 0, 0.0, total * times)


def _means(step: Step) -> Interval:
    """At least the least and at most the greatest element, but for the rounding of the sum."""
    x, mean = step.input(0), step.node.op_type == "ReduceMean"
    axes = _axes(step, x) if mean else list(range(2, len(x.dims or ())))
    if x.dims is None and not axes:
        return step.unbounded()
    count, assumes = longest((None,) * len(axes), range(len(axes))) if x.dims is None else longest(x.dims, axes)
    if not count:
        return step.anything()
    low, high, special = averaged(step, x if x.dims is None else joined_along(x, axes), count)
    if x.dims is not None:
        low, high, special = _squeezed(step, axes, *np.broadcast_arrays(low, high, special))
    return step.result(low, high, x, special=special, assumes=x.assumes | assumes)


def averaged(step: Step, x: Interval, count: float) -> tuple[Array, Array, Bits]:
    """Bounds of the means of up to `count` elements: their sum, divided by their number."""
    dtype = step.dtypes[0]
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(x.magnitude), x.magnitude * sum_error(count, dtype), 0.0) + vanished(2, dtype)
        low = np.where(x.low >= 0, np.maximum(x.low - error, 0), x.low - error)
        high = np.where(x.high <= 0, np.minimum(x.high + error, 0), x.high + error)
        size = x.magnitude * count
    if size.max() > limits_of(dtype)[1]:
        raise UnknownRangeError
    signs = PLUS if x.least >= 0 else ANYTHING
    over = np.where(overflows(size, count, dtype, bounded=x.bounded), signs, NONE)
    return low, high, special_totals(x.special) | over


def _pool(step: Step) -> list[Interval]:
    """MaxPool and AveragePool: along the spatial dimensions joined; an average over padding may count zeros."""
    x, kernel = step.input(0), step.ints("kernel_shape")
    dims = step.dims[0]
    if x.dims is not None and step.int("ceil_mode", 0):  # of which onnx infers other sizes
        dims = (*x.dims[:2], *(None for _ in x.dims[2:]))
    window = collapsed(x, dims) if x.dims is None else joined_along(x, range(2, len(x.dims)), dims)
    if step.node.op_type == "MaxPool":
        first = step.shaped(dims).anything() if x.nan.any() else window
        return [first, *(step.anything(index) for index in range(1, len(step.node.outputs)))]
    if kernel is None:
        raise UnknownRangeError
    if step.int("count_include_pad", 0):
        window = replace(window, low=np.minimum(window.low, 0), high=np.maximum(window.high, 0))
    low, high, special = averaged(step, window, math.prod(kernel))
    return [step.shaped(dims).result(low, high, x, special=special)]


def _cumulative(step: Step) -> Interval:
    """CumSum: up to as many terms as the axis is long, and none for its exclusive form."""
    x, axes = step.input(0), step.integers(1)
    if x.dims is None or axes is None or len(axes) != 1:
        return step.unbounded()
    axis = axis_of(axes[0], len(x.dims))
    count, assumes = longest(x.dims, [axis])
    terms = joined_along(x, [axis])
    with np.errstate(all="ignore"):
        low, high = np.minimum(terms.low, 0) * count, np.maximum(terms.high, 0) * count
    signs = PLUS if x.least >= 0 else ANYTHING
    low, high, special = step.total(low, high, np.maximum(-low, high), count, x, signs=signs)
    low, high = (low, np.maximum(high, 0)) if x.least < 0 else (np.zeros(low.shape), high)
    special = special | special_totals(terms.special)
    return step.result(low, high, x, special=special, assumes=x.assumes | assumes)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extremes),
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), _sums),
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), _means),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    "CumSum": _cumulative,
}
