"""Reductions and pooling: each result is at least the least and at most the greatest element, or a sum of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Dims, Interval, absolute, joined_along, length_of, with_bounds
from castsmith.ir.bounds.rounding import (
    Array,
    is_integer,
    largest,
    smallest_normal,
    sum_error,
    summed,
    vanished,
    with_slack,
)
from castsmith.ir.bounds.step import LENGTHS, LONGEST, Rule, Step, UnknownRangeError


def _axes(step: Step, x: Interval) -> list[int] | None:
    """The axes that are reduced; None for all of a value of unknown rank."""
    axes = step.axes()
    if not axes:
        if axes is not None and step.int("noop_with_empty_axes", 0):
            raise UnknownRangeError
        if axes is None and step.int("noop_with_empty_axes", 0):
            return []
        return None if x.dims is None else list(range(len(x.dims)))
    return axes if x.dims is None else [axis % len(x.dims) for axis in axes]


def _reduced_dims(step: Step, x: Interval, axes: list[int] | None) -> Dims | None:
    if x.dims is None or axes is None:
        return step.dims[0]
    keep = step.int("keepdims", 1)
    found = [1 if i in axes else dim for i, dim in enumerate(x.dims) if keep or i not in axes]
    return step.merged(tuple(found))


def _squeezed(step: Step, array: Array, axes: list[int] | None) -> Array:
    if axes is None or array.ndim == 0:
        return np.asarray(array)
    if step.int("keepdims", 1):
        return array
    return array.reshape([n for i, n in enumerate(array.shape) if i not in axes])


def _extremes(step: Step) -> Interval:
    x = step.input(0)
    axes = _axes(step, x)
    dims = _reduced_dims(step, x, axes)
    if x.dims is None or axes is None:
        return step.result(np.asarray(x.least), np.asarray(x.greatest), dims, x)
    pick = np.max if step.node.op_type in ("ReduceMax", "GlobalMaxPool") else np.min
    axis = tuple(axes)
    low, high = pick(x.low, axis=axis, keepdims=True), pick(x.high, axis=axis, keepdims=True)
    empty = length_of(x.dims, axes) in (0, None) and None not in (length_of(x.dims, axes),)
    return step.result(_squeezed(step, low, axes), _squeezed(step, high, axes), dims, x, infinite=x.infinite or empty)


def _sums(step: Step, kind: str = "") -> Interval:
    x = step.input(0)
    axes = _axes(step, x)
    dims = _reduced_dims(step, x, axes)
    kind = kind or step.node.op_type
    low, high = x.low, x.high
    if kind == "ReduceL1":
        low, high = absolute(low, high)
    elif kind in ("ReduceL2", "ReduceSumSquare"):
        low, high = absolute(low, high)
        low, high = low * low, high * high
    count = None if axes is None else length_of(x.dims, axes)
    nan = x.nan or x.infinite
    if axes is not None and x.weights_axis is not None and axes == [x.weights_axis] and kind == "ReduceSum":
        low, high = np.zeros(()), np.ones(())
        return step.result(*with_slack(low, high, step.dtypes[0]), dims, x, nan=nan)
    if count is None or axes is None:
        least = np.asarray(0.0 if low.min(initial=0.0) >= 0 else -np.inf)
        greatest = np.asarray(0.0 if high.max(initial=0.0) <= 0 else np.inf)
        if is_integer(step.dtypes[0]):
            return step.unbounded()
        return step.result(least, greatest, dims, x, nan=nan)
    low, high = _totals(low, axes, x.dims), _totals(high, axes, x.dims)
    with np.errstate(all="ignore"):
        power = 2 if kind in ("ReduceL2", "ReduceSumSquare") else 1
        size = _totals(x.magnitude**power, axes, x.dims)
        error = np.nan_to_num(size * sum_error(count + 1, step.dtypes[0]), nan=0.0, posinf=0.0)
        if power == 2:  # squares of small numbers vanish
            error = error + vanished(count, step.dtypes[0])
    not_negative = low.min(initial=0.0) >= 0
    low, high = low - error, high + error
    if not_negative:
        low = np.maximum(low, 0.0)
    low, high = summed(low, high, size, step.dtypes[0])
    if kind == "ReduceL2":
        with np.errstate(all="ignore"):
            low, high = np.sqrt(np.maximum(low, 0)), np.sqrt(high)
    return step.result(_squeezed(step, low, axes), _squeezed(step, high, axes), dims, x, nan=nan)


def _totals(array: Array, axes: list[int], dims: Dims | None) -> Array:
    """The sums along the axes of an array in which a length of 1 may stand for a longer dimension."""
    assert dims is not None
    times = 1.0
    for axis in axes:
        if array.shape[axis] == 1:
            times *= dims[axis] or 0
    with np.errstate(all="ignore"):
        total = array.sum(axis=tuple(axes), keepdims=True)
        return np.where(total == 0, 0.0, total * times)


def _means(step: Step) -> Interval:
    """At least the least and at most the greatest element, but for the rounding of the sum."""
    x = step.input(0)
    axes = list(range(2, len(x.dims))) if step.node.op_type == "GlobalAveragePool" and x.dims else None
    if step.node.op_type == "ReduceMean":
        axes = _axes(step, x)
        dims = _reduced_dims(step, x, axes)
    else:
        dims = None if x.dims is None else step.merged((*x.dims[:2], *(1 for _ in x.dims[2:])))
    if x.dims is None or axes is None:
        low, high, count = np.asarray(x.least), np.asarray(x.greatest), None
    else:
        low, high = joined_along(x, axes)
        count = length_of(x.dims, axes)
    assumes = x.assumes if count is not None else x.assumes | {LENGTHS}
    ends = _averaged(step, low, high, count, axes)
    return step.result(*ends, dims, x, nan=x.nan or x.infinite, assumes=assumes)


def _averaged(step: Step, low: Array, high: Array, count: int | None, axes: list[int] | None) -> tuple[Array, Array]:
    most, terms = np.maximum(np.abs(low), np.abs(high)), LONGEST if count is None else count
    relative = sum_error(terms, step.dtypes[0])
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(most), most * relative, 0.0)
    least = np.where(low >= 0, np.maximum(low - error, 0), low - error)
    greatest = np.where(high <= 0, np.minimum(high + error, 0), high + error)
    with np.errstate(all="ignore"):
        least, greatest = summed(least, greatest, most * terms, step.dtypes[0])
    if step.node.op_type == "ReduceMean":
        return _squeezed(step, least, axes), _squeezed(step, greatest, axes)
    return least, greatest


def _pool(step: Step) -> list[Interval]:
    """MaxPool and AveragePool: along the spatial dimensions joined; an average over padding may count zeros."""
    x = step.input(0)
    spatial = None if x.dims is None else range(2, len(x.dims))
    low, high = (np.asarray(x.least), np.asarray(x.greatest)) if spatial is None else joined_along(x, spatial)
    dims = step.dims[0]
    if dims is None and x.dims is not None:
        dims = (*x.dims[:2], *(None for _ in x.dims[2:]))
    kernel = step.node.attributes.get("kernel_shape")
    count = math.prod(kernel.as_ints()) if kernel is not None else None
    if step.node.op_type == "AveragePool":
        if step.int("count_include_pad", 0):
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        low, high = _averaged(step, low, high, count, None)
        return [step.result(low, high, dims, x, nan=x.nan or x.infinite)]
    first = step.result(low, high, dims, x)
    return [first, *(step.unbounded(index) for index in range(1, len(step.node.outputs)))]


def _cumulative(step: Step) -> Interval:
    """CumSum: up to as many terms as the axis is long, and none for its exclusive form."""
    x, axes = step.input(0), step.integers(1)
    if x.dims is None or axes is None:
        raise UnknownRangeError
    count = x.dims[axes[0] % len(x.dims)]
    if count is None:
        raise UnknownRangeError
    low, high = joined_along(x, [axes[0] % len(x.dims)])
    with np.errstate(all="ignore"):
        low, high = np.minimum(low, 0) * count, np.maximum(high, 0) * count
        size = np.maximum(-low, high)
        error = size * sum_error(count, step.dtypes[0])
    error = np.where(np.isfinite(error), error, 0.0)
    low, high = np.where(low < 0, low - error, 0.0), np.where(high > 0, high + error, 0.0)
    low, high = summed(low, high, size, step.dtypes[0])
    return step.result(low, high, x.dims, x, nan=x.nan or x.infinite)


def _product(step: Step) -> Interval:
    """ReduceProd and CumProd: up to so many factors; the partial products stay below the power of the greatest."""
    x = step.input(0)
    if step.node.op_type == "CumProd":
        given = step.integers(1)
        axes = None if given is None or x.dims is None else [each % len(x.dims) for each in given]
        dims = x.dims
    else:
        axes = _axes(step, x)
        dims = _reduced_dims(step, x, axes)
    count = None if axes is None else length_of(x.dims, axes)
    if count is None or is_integer(step.dtypes[0]):
        raise UnknownRangeError
    most = float(x.magnitude.max(initial=0.0))
    with np.errstate(all="ignore"):
        largest_one = np.float64(max(most, 1.0)) ** count * (1 + sum_error(count + 1, step.dtypes[0]))
    low = 0.0 if x.least >= 0 else -largest_one
    return step.result(np.asarray(low), np.asarray(largest_one), dims, x, nan=x.nan or x.infinite)


def _log_sum(step: Step) -> Interval:
    """The logarithm of a sum of numbers that are not negative."""
    x = step.input(0)
    total = _sums(replace(step, dtypes=[step.dtypes[0]]), "ReduceSum")
    with np.errstate(all="ignore"):
        low, high = np.log(np.maximum(total.low, 0)), np.log(np.maximum(total.high, 0))
    low, high = with_slack(low, high, step.dtypes[0])
    zero = total.least <= 0
    nan = total.nan or total.least < 0 or total.infinite
    return step.result(low, high, total.dims, x, nan=nan, infinite=total.infinite or zero)


def _power_pool(step: Step) -> Interval:
    """LpPool and GlobalLpPool: the norm of a window, which is at most the number of its elements times the largest."""
    x = step.input(0)
    kernel = step.node.attributes.get("kernel_shape")
    over = step.node.op_type == "GlobalLpPool"
    count = length_of(x.dims, range(2, len(x.dims or ()))) if over else math.prod(kernel.as_ints() if kernel else (1,))
    power = step.int("p", 2)
    if count is None or x.dims is None or power < 1:
        raise UnknownRangeError
    most = joined_along(with_bounds(x, x.magnitude, x.magnitude, x.dims), range(2, len(x.dims)))[1]
    with np.errstate(all="ignore"):
        parts = most**power * count * (1 + sum_error(count + power + 4, step.dtypes[0]))
        low, high = summed(np.zeros_like(most), parts ** (1 / power), parts, step.dtypes[0])
    dims = (*x.dims[:2], *(1 if over else None for _ in x.dims[2:]))
    low, high = with_slack(low, high, step.dtypes[0])
    return step.result(low, high, step.merged(dims), x, nan=x.nan or x.infinite)


def _log_sum_exp(step: Step) -> Interval:
    x = step.input(0)
    axes = _axes(step, x)
    count = None if axes is None else length_of(x.dims, axes)
    if count is None or axes is None:
        raise UnknownRangeError
    low, high = joined_along(x, axes)
    dtype = step.dtypes[0] or DataType.FLOAT
    with np.errstate(all="ignore"):
        fits = np.exp(high) * max(count, 1) * (1 + sum_error(count, dtype)) <= largest(dtype)
        high = np.where(fits, high + math.log(max(count, 1)), np.inf)
        low = np.where(np.exp(low) > smallest_normal(dtype), low, -np.inf)
    ends = with_slack(low, high, step.dtypes[0])
    return step.result(_squeezed(step, ends[0], axes), _squeezed(step, ends[1], axes), _reduced_dims(step, x, axes), x)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extremes),
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), _sums),
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), _means),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    "GlobalMaxPool": lambda step: _pool(step)[0],
    "CumSum": _cumulative,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceLogSum": _log_sum,
    **dict.fromkeys(("ReduceProd", "CumProd"), _product),
    **dict.fromkeys(("LpPool", "GlobalLpPool"), _power_pool),
}
