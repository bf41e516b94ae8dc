"""Normalizations, softmax, reductions and pooling.

Whatever finite numbers come in, n of them over their root mean square are at most sqrt(n), and their vector has a
Euclidean norm of at most sqrt(n): most transformers are bounded layer by layer by that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.elementwise import RULES as ELEMENTWISE
from castsmith.ir.bounds.elementwise import aligned, is_node, products
from castsmith.ir.bounds.interval import (
    Ball,
    Dims,
    Interval,
    absolute,
    broadcast_dims,
    constant_interval,
    flags,
    joined_along,
    length_of,
    with_bounds,
)
from castsmith.ir.bounds.patterns import (
    Standardized,
    exponentials_over_sum,
    inverse_root,
    root,
    same,
    shifted_by_maximum,
    standardized,
)
from castsmith.ir.bounds.rounding import Array, is_integer, smallest_normal, sum_error, unit_roundoff, with_slack
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError

TWO_PASSES = "the variance is computed from the differences to the mean, not as E[x^2] - E[x]^2"
_LEAST_SWISH = -0.2785
"""The least value of x * sigmoid(x), near x = -1.2785."""
NOT_MASKED = "no row of a softmax is masked out as a whole"


# Reductions.


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


def _sums(step: Step) -> Interval:
    x = step.input(0)
    axes = _axes(step, x)
    dims = _reduced_dims(step, x, axes)
    kind = step.node.op_type
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
    not_negative = low.min(initial=0.0) >= 0
    low, high = low - error, high + error
    if not_negative:
        low = np.maximum(low, 0.0)
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
    return step.result(*_averaged(step, low, high, count, axes), dims, x, nan=x.nan or x.infinite)


def _averaged(step: Step, low: Array, high: Array, count: int | None, axes: list[int] | None) -> tuple[Array, Array]:
    most = np.maximum(np.abs(low), np.abs(high))
    relative = sum_error(count if count is not None else 1 << 16, step.dtypes[0])
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(most), most * relative, 0.0)
    least = np.where(low >= 0, np.maximum(low - error, 0), low - error)
    greatest = np.where(high <= 0, np.minimum(high + error, 0), high + error)
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
        error = np.maximum(-low, high) * sum_error(count, step.dtypes[0])
    error = np.where(np.isfinite(error), error, 0.0)
    return step.result(low - error, high + error, x.dims, x, nan=x.nan or x.infinite)


def _log_sum_exp(step: Step) -> Interval:
    x = step.input(0)
    axes = _axes(step, x)
    count = None if axes is None else length_of(x.dims, axes)
    if count is None or axes is None:
        raise UnknownRangeError
    low, high = joined_along(x, axes)
    with np.errstate(all="ignore"):
        over = np.isfinite(np.exp(high).astype(np.float32))
    high = np.where(over, high + math.log(max(count, 1)), np.inf)
    low = np.where(np.exp(low) > smallest_normal(DataType.FLOAT), low, -np.inf)
    ends = with_slack(low, high, step.dtypes[0])
    return step.result(_squeezed(step, ends[0], axes), _squeezed(step, ends[1], axes), _reduced_dims(step, x, axes), x)


# Softmax.


def _softmax(step: Step) -> Interval:
    x = step.input(0)
    axis = step.int("axis", -1 if step.opset >= 13 else 1)
    rank = None if x.dims is None else len(x.dims)
    if rank:
        axis %= rank
    single = step.opset >= 13 or (rank is not None and axis == rank - 1)
    return weights_of(step, x, axis if rank is not None and single else None, step.node.op_type == "LogSoftmax")


def weights_of(step: Step, x: Interval, axis: int | None, logarithm: bool = False) -> Interval:
    """The softmax of x along the axis; None: along several axes, or an unknown one."""
    masked = x.minus_infinity and not _a_number_in_each_row(x, axis)
    assumes = x.assumes | frozenset[str]({NOT_MASKED} if masked else ())
    facts: dict[str, Any] = {"nan": x.nan or x.plus_infinity, "infinite": False, "assumes": assumes}
    shape = x.low.shape
    if logarithm:
        count = None if axis is None else length_of(x.dims, [axis])
        spread = x.greatest - x.least
        low = -np.inf if count is None or not math.isfinite(spread) else -spread - math.log(max(count, 1))
        ends = with_slack(np.full(shape, low), np.zeros(shape), step.dtypes[0])
        return step.result(*ends, x.dims, x, **{**facts, "infinite": x.infinite})
    low, high = np.zeros(shape), np.ones(shape)
    _, high = with_slack(low, high, step.dtypes[0])
    high = np.minimum(high, 1 + 4 * unit_roundoff(step.dtypes[0] or DataType.FLOAT) * 256)
    return step.result(low, high, x.dims, x, **facts, weights_axis=axis)


def _a_number_in_each_row(x: Interval, axis: int | None) -> bool:
    """True if each row has an element that is finite for certain."""
    if axis is None:
        return False
    return bool(np.isfinite(x.low).any(axis=axis).all())


# Normalizations.


def _normalized(
    step: Step, x: Interval, count: float | None, scale: Interval | None, offset: Interval | None, *, ball: bool
) -> Interval:
    """Rows of x over their root mean square, times scale, plus offset. count: how many elements a row has."""
    if count is None:
        raise UnknownRangeError
    relative = 1 + 2 * sum_error(4, step.dtypes[0]) + sum_error(min(math.ceil(count), 1 << 24), step.dtypes[0])
    radius = math.sqrt(count) * relative
    dims = x.dims
    low, high = np.full((1,) * len(dims or ()), -radius), np.full((1,) * len(dims or ()), radius)
    ends = (low, high)
    if scale is not None:
        ends = products(ends, aligned(with_bounds(x, low, high, dims), scale)[1])
    if offset is not None:
        low, high = aligned(with_bounds(x, *ends, dims), offset)[1]
        ends = ends[0] + low, ends[1] + high
    ends = with_slack(*ends, step.dtypes[0])
    given = [each for each in (x, scale, offset) if each is not None]
    known = (_row(scale, 1.0), _row(offset, 0.0))
    rows = None
    if ball and known[0] is not None and known[1] is not None:
        rows = Ball(radius * (1 + 2.0**-10), known[0], known[1])
    nan = any(each.nan or each.infinite for each in given)
    return step.result(*ends, dims, *given, nan=nan, infinite=False, ball=rows)


def _row(interval: Interval | None, default: float) -> Array | None:
    """The elements along the last axis of a constant; None where they are not known."""
    if interval is None:
        return np.asarray([default])
    if interval.low.ndim == 0 or (interval.low != interval.high).any():
        return None
    row = interval.low.reshape(-1)
    last = interval.dims[-1] if interval.dims else None
    return row if interval.low.shape[-1] == row.size and row.size in (1, last) else None


def _layer_norm(step: Step) -> list[Interval]:
    x = step.input(0)
    if x.dims is None:
        raise UnknownRangeError
    axis = step.int("axis", -1) % len(x.dims)
    axes = list(range(axis, len(x.dims)))
    count = length_of(x.dims, axes)
    found = _normalized(step, x, count, step.input(1), step.optional(2), ball=len(axes) == 1)
    epsilon = step.float("epsilon", 1e-5)
    if step.node.op_type == "LayerNormalization":
        found = _with_cancellation(found, x, count or 1, epsilon)
    others = [step.unbounded(index) for index in range(1, len(step.node.outputs))]
    return [found, *others]


def _with_cancellation(found: Interval, x: Interval, count: int, epsilon: float) -> Interval:
    """Return the bounds for a kernel that computes the variance as E[x^2] - E[x]^2, as ONNX Runtime's does.

    The variance is then off by about 4 (n + 3) u max|x|^2, which counts where it is not small beside epsilon.
    """
    most = float(x.magnitude.max(initial=0.0))
    error = 4 * (count + 3) * 2.0**-24 * most * most
    ratio = error / epsilon if epsilon > 0 and math.isfinite(error) else math.inf
    if ratio > 1:
        return replace(found, assumes=found.assumes | {TWO_PASSES})
    middle, half = (found.low + found.high) / 2, (found.high - found.low) / 2 * math.sqrt(1 + ratio)
    return replace(found, low=middle - half, high=middle + half, ball=_larger(found.ball, math.sqrt(1 + ratio)))


def _larger(ball: Ball | None, factor: float) -> Ball | None:
    return None if ball is None else replace(ball, radius=ball.radius * factor)


def _instance_norm(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        raise UnknownRangeError
    count = length_of(x.dims, range(2, len(x.dims)))
    return _per_channel(step, x, _squared_spread(x, step.float("epsilon", 1e-5)) if count is None else count)


def _squared_spread(x: Interval, epsilon: float) -> float | None:
    """A number whose root bounds rows of unknown length: the distance to the mean over the root of epsilon."""
    spread = x.greatest - x.least
    return spread * spread / epsilon if epsilon > 0 and math.isfinite(spread) else None


def _group_norm(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None or x.dims[1] is None:
        raise UnknownRangeError
    spatial = length_of(x.dims, range(2, len(x.dims)))
    groups = step.int("num_groups", 1)
    count = None if spatial is None else spatial * x.dims[1] // max(groups, 1)
    if step.opset < 21:
        scale, offset = step.input(1), step.input(2)
        plain = replace(step, inputs=[x, *map(_one, (scale, offset))])
        return _per_channel(plain, x, count)
    return _per_channel(step, x, count)


def _one(interval: Interval) -> Interval:
    """One interval for all of its elements, in place of one a group."""
    return constant_interval(interval.least, interval.greatest, (1,), interval.dtype, **flags(interval))


def _per_channel(step: Step, x: Interval, count: float | None) -> Interval:
    assert x.dims is not None
    scale, offset = (_on_channels(step.input(index), len(x.dims)) for index in (1, 2))
    return _normalized(step, x, count, scale, offset, ball=False)


def _on_channels(interval: Interval, rank: int) -> Interval:
    """The interval of a vector of channels, in the dimensions of what it scales."""
    dims = None if interval.dims is None else (1, interval.dims[-1], *(1,) * (rank - 2))
    shape = (1, interval.low.size, *(1,) * (rank - 2))
    return with_bounds(interval, interval.low.reshape(shape), interval.high.reshape(shape), dims)


def _batch_norm(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        x = with_bounds(x, np.asarray([[x.least]]), np.asarray([[x.greatest]]), (None, None))
    assert x.dims is not None
    if len(x.dims) < 2 or len(step.node.outputs) > 1 or step.int("training_mode", 0) or step.opset < 7:
        raise UnknownRangeError
    rank = len(x.dims)
    scale, offset, mean, variance = (_on_channels(step.input(index), rank) for index in (1, 2, 3, 4))
    epsilon = step.float("epsilon", 1e-5)
    given = [x, scale, offset, mean, variance]
    if variance.least + epsilon <= 0:
        raise UnknownRangeError
    with np.errstate(all="ignore"):
        factor = products(
            (scale.low, scale.high), (1 / np.sqrt(variance.high + epsilon), 1 / np.sqrt(variance.low + epsilon))
        )
        centered = x.low - mean.high, x.high - mean.low
        low, high = products(centered, factor)
        # a kernel may compute x * factor + (offset - mean * factor): the error is relative to the parts
        sizes = np.maximum(np.abs(factor[0]), np.abs(factor[1])) * (x.magnitude + mean.magnitude) + offset.magnitude
        error = np.where(np.isfinite(sizes), sizes * sum_error(8, step.dtypes[0]), 0.0)
        low, high = low + offset.low - error, high + offset.high + error
    return step.result(low, high, x.dims, *given, nan=any(e.nan for e in given) or x.infinite)


def _lp_norm(step: Step) -> Interval:
    x = step.input(0)
    low = np.where(x.low >= 0, 0.0, -1.0)
    high = np.where(x.high <= 0, 0.0, 1.0)
    zero = bool(((x.low <= 0) & (x.high >= 0)).any())
    return step.result(*with_slack(low, high, step.dtypes[0]), x.dims, x, nan=x.nan or x.infinite or zero)


def _lrn(step: Step) -> Interval:
    x = step.input(0)
    bias, beta, alpha = step.float("bias", 1.0), step.float("beta", 0.75), step.float("alpha", 1e-4)
    if bias <= 0 or beta < 0 or alpha < 0:
        raise UnknownRangeError
    ends = products((x.low, x.high), (np.asarray(0.0), np.asarray(bias**-beta)))
    return step.result(*with_slack(*ends, step.dtypes[0]), x.dims, x, nan=x.nan or x.infinite)


# Written out by exporters.


def _divided(step: Step) -> Interval:
    """Div, and what is known of a vector over its own norm, or of exponentials over their sum."""
    plain = ELEMENTWISE["Div"](step)
    assert isinstance(plain, Interval)
    x = step.input(0)
    axis = exponentials_over_sum(step.node)
    if axis is not None and x.dims is not None and x.least >= 0:
        found = weights_of(step, with_bounds(x, x.low, x.high, x.dims), axis % len(x.dims))
        nan = not shifted_by_maximum(step.value(0)) and plain.nan
        return replace(found, nan=nan, assumes=found.assumes | x.assumes)
    norm = root(step.value(1), step.known)
    if norm is None or not same(norm.source, step.value(0)):
        return plain
    return _over_norm(step, plain, x, norm.axes, norm.mean)


def _multiplied(step: Step) -> Interval:
    """Mul, and what is known of a vector times the reciprocal of its own norm; a ball that is scaled."""
    plain = ELEMENTWISE["Mul"](step)
    assert isinstance(plain, Interval)
    for one, other in ((0, 1), (1, 0)):
        norm = inverse_root(step.value(other), step.known)
        if norm is not None and same(norm.source, step.value(one)):
            return _over_norm(step, plain, step.input(one), norm.axes, norm.mean)
        gate = is_node(step.value(other), "Sigmoid")
        if gate is not None and same(gate.inputs[0], step.value(one)):
            return replace(plain, low=np.maximum(plain.low, _LEAST_SWISH))
    return _scaled(step, plain, by=True)


def _added(sign: int, step: Step) -> Interval:
    """Add or Sub, and a ball that is moved."""
    plain = ELEMENTWISE["Add" if sign > 0 else "Sub"](step)
    assert isinstance(plain, Interval)
    form = standardized(step.node, step.known) if sign > 0 else None
    if form is not None:
        return _standardized(step, plain, form)
    return _scaled(step, plain, by=False, sign=sign)


def _standardized(step: Step, plain: Interval, form: Standardized) -> Interval:
    """By the norm; the roundings of the two products count, which are larger than their difference."""
    x = step.known.get(form.x)
    scale = None if form.scale is None else step.known.get(form.scale)
    offset = step.known.get(form.offset)
    parts = [step.known[value] for value in form.products if value in step.known]
    if x is None or x.dims is None or offset is None or (form.scale is not None and scale is None):
        return plain
    count = length_of(x.dims, _normal(form.norm.axes, len(x.dims))) if form.norm.mean else 1
    if count is None:
        return plain
    found = _normalized(step, x, count, scale, offset, ball=False)
    largest = sum(float(part.magnitude.max(initial=0.0)) for part in parts)
    error = 4 * unit_roundoff(step.dtypes[0] or DataType.FLOAT) * largest if math.isfinite(largest) else 0.0
    if plain.dims != found.dims or len(parts) < 2:
        return plain
    low, high = np.maximum(plain.low, found.low - error), np.minimum(plain.high, found.high + error)
    return with_bounds(plain, low, high, plain.dims)


def _scaled(step: Step, plain: Interval, *, by: bool, sign: int = 1) -> Interval:
    for one, other in ((0, 1), (1, 0)):
        x, constant = step.input(one), step.input(other)
        row = _row(constant, 0.0) if constant.dims and step.tensor(other) is not None else None
        if constant.dims == () and constant.low.size == 1 and constant.least == constant.greatest:
            row = constant.low.reshape(1)
        if x.ball is None or row is None or (sign < 0 and one == 1) or plain.dims != x.dims:
            continue
        ball = x.ball
        moved = replace(ball, scale=ball.scale * row, offset=ball.offset * row) if by else None
        return replace(plain, ball=moved or replace(ball, offset=ball.offset + sign * row))
    return plain


def _normal(axes: tuple[int, ...] | None, rank: int) -> list[int]:
    """The axes counted from the front; all of them for None."""
    return list(range(rank)) if axes is None else [axis % rank for axis in axes]


def _over_norm(step: Step, plain: Interval, x: Interval, axes: tuple[int, ...] | None, mean: bool) -> Interval:
    normal = None if x.dims is None else _normal(axes, len(x.dims))
    terms = None if normal is None else length_of(x.dims, normal)
    last = normal is not None and x.dims is not None and normal == [len(x.dims) - 1]
    count = terms if mean else 1
    if count is None:
        return plain
    relative = 1 + sum_error((terms or 1 << 16) + 16, step.dtypes[0])
    radius = math.sqrt(count) * relative
    bound = np.maximum(plain.low, -radius), np.minimum(plain.high, radius)
    ball = Ball(radius * (1 + 2.0**-10), np.ones(1), np.zeros(1)) if last else None
    found = with_bounds(plain, *bound, broadcast_dims(plain.dims, x.dims), ball=ball, infinite=False)
    return replace(found, nan=plain.nan)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extremes),
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), _sums),
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), _means),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    "GlobalMaxPool": lambda step: _pool(step)[0],
    "CumSum": _cumulative,
    "ReduceLogSumExp": _log_sum_exp,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "SimplifiedLayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "BatchNormalization": _batch_norm,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
    "Div": _divided,
    "Mul": _multiplied,
    "Add": partial(_added, 1),
    "Sub": partial(_added, -1),
}
