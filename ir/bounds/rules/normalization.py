"""Normalizations and softmax.

Whatever finite numbers come in, n of them over their root mean square are at most sqrt(n), and their vector has a
Euclidean norm of at most sqrt(n): most transformers are bounded layer by layer by that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import (
    Ball,
    Interval,
    aligned,
    constant_interval,
    flags,
    length_of,
    products,
    with_bounds,
)
from castsmith.ir.bounds.rounding import (
    Array,
    largest,
    smallest,
    smallest_normal,
    sum_error,
    summed,
    unit_roundoff,
    with_slack,
)
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError

TWO_PASSES = "the variance is computed from the differences to the mean, not as E[x^2] - E[x]^2"
NOT_MASKED = "no row of a softmax is masked out as a whole"
DIFFERENCES = "a log-softmax is computed from differences to the maximum, not as the logarithm of a softmax"
_WIDE = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "GroupNormalization")
"""Operators that compute the variance in float, whatever their type, unless `stash_type` says otherwise."""
_CANCELLED = 0.5
"""The part of epsilon by which a variance may be off; beyond it a division by 0 is close."""


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
        if low < math.log(smallest_normal(step.dtypes[0] or DataType.FLOAT)):
            facts["assumes"] |= {DIFFERENCES}
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


def normalized(
    step: Step,
    x: Interval,
    count: float | None,
    scale: Interval | None,
    offset: Interval | None,
    *,
    ball: bool,
    own: bool = True,
) -> Interval:
    """Rows of x over their root mean square, times scale, plus offset.

    Args:
        step: The node.
        x: The rows.
        count: How many elements a row has.
        scale: The scale.
        offset: The offset; None for none.
        ball: True to bound the norm of the rows.
        own: True if the node itself computes the norm; other nodes show where they overflow.
    """
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
    known = (known_row(scale, 1.0), known_row(offset, 0.0))
    rows = None
    if ball and known[0] is not None and known[1] is not None:
        rows = Ball(radius * (1 + 2.0**-10), known[0], known[1])
    nan = any(each.nan or each.infinite for each in given) or (own and _undefined(step, x, count))
    return step.result(*ends, dims, *given, nan=nan, infinite=False, ball=rows)


def known_row(interval: Interval | None, default: float) -> Array | None:
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
    found = normalized(step, x, count, step.input(1), step.optional(2), ball=len(axes) == 1)
    if step.node.op_type == "LayerNormalization":
        found = with_cancellation(step, found, x, count or 1)
    others = [step.unbounded(index) for index in range(1, len(step.node.outputs))]
    return [found, *others]


def with_cancellation(step: Step, found: Interval, x: Interval, count: float) -> Interval:
    """Return the bounds for a kernel that computes the variance as E[x^2] - E[x]^2, as ONNX Runtime's does.

    The variance is then off by about 4 (n + 3) u max|x|^2, which counts where it is not small beside epsilon; the sum
    of both may even be negative.
    """
    most, epsilon = float(x.magnitude.max(initial=0.0)), step.float("epsilon", 1e-5)
    unit = unit_roundoff(DataType.FLOAT if x.dtype is None or x.dtype != DataType.DOUBLE else x.dtype)
    error = 4 * (count + 3) * unit * most * most
    ratio = error / epsilon if epsilon > 0 and math.isfinite(error) else math.inf
    if ratio > _CANCELLED:
        return replace(found, assumes=found.assumes | {TWO_PASSES})
    factor = 1 / math.sqrt(1 - ratio)
    middle, half = (found.low + found.high) / 2, (found.high - found.low) / 2 * factor
    return replace(found, low=middle - half, high=middle + half, ball=_larger(found.ball, factor))


def _larger(ball: Ball | None, factor: float) -> Ball | None:
    return None if ball is None else replace(ball, radius=ball.radius * factor)


def _undefined(step: Step, x: Interval, count: float) -> bool:
    """True if a row may have a norm of 0, with nothing added to it, or one that overflows."""
    dtype = step.dtypes[0] or DataType.FLOAT
    if step.node.op_type in _WIDE and dtype != DataType.DOUBLE:
        dtype = DataType(step.int("stash_type", 1))
    most = float(x.magnitude.max(initial=0.0))
    overflows = math.isfinite(most) and most * most * count * (1 + sum_error(4, dtype)) > largest(dtype)
    return step.float("epsilon", 1e-5) < smallest_normal(dtype) or overflows


def _mean_variance(step: Step) -> Interval:
    """MeanVarianceNormalization, whose document computes the variance as E[x^2] - E[x]^2."""
    x = step.input(0)
    attribute = step.node.attributes.get("axes")
    axes = [0, 2, 3] if attribute is None else [int(each) for each in attribute.as_ints()]
    count = length_of(x.dims, axes)
    if count is None:
        raise UnknownRangeError
    found = normalized(step, x, count, None, None, ball=False)
    return replace(found, assumes=found.assumes | {TWO_PASSES})


def _instance_norm(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        raise UnknownRangeError
    count = length_of(x.dims, range(2, len(x.dims)))
    if count is None:
        found = _per_channel(step, x, _squared_spread(x, step.float("epsilon", 1e-5)))
        return replace(found, assumes=found.assumes | {TWO_PASSES})
    return _per_channel(step, x, count)


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
    found = normalized(step, x, count, scale, offset, ball=False)
    return with_cancellation(step, found, x, count or 1)


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
        scaled = x.magnitude + mean.magnitude
        sizes = np.maximum(np.abs(factor[0]), np.abs(factor[1])) * scaled + offset.magnitude
        least = smallest(step.dtypes[0] or DataType.FLOAT) / (variance.low + epsilon)  # epsilon may be subnormal
        error = np.where(np.isfinite(sizes), sizes * (sum_error(8, step.dtypes[0]) + least), 0.0)
        low, high = low + offset.low - error, high + offset.high + error
        low, high = summed(low, high, np.maximum(sizes, scaled * scale.magnitude), step.dtypes[0])
    return step.result(low, high, x.dims, *given, nan=any(e.nan for e in given) or x.infinite)


def _lp_norm(step: Step) -> Interval:
    x = step.input(0)
    low = np.where(x.low >= 0, 0.0, -1.0)
    high = np.where(x.high <= 0, 0.0, 1.0)
    nan = x.nan or x.infinite or x.may_be_zero
    return step.result(*with_slack(low, high, step.dtypes[0]), x.dims, x, nan=nan)


def _lrn(step: Step) -> Interval:
    x = step.input(0)
    bias, beta, alpha = step.float("bias", 1.0), step.float("beta", 0.75), step.float("alpha", 1e-4)
    if bias <= 0 or beta < 0 or alpha < 0:
        raise UnknownRangeError
    ends = products((x.low, x.high), (np.asarray(0.0), np.asarray(bias**-beta)))
    most = float(x.magnitude.max(initial=0.0))
    squares = most * most * max(step.int("size", 1), 1) * max(alpha, 1)
    overflows = math.isfinite(most) and squares > largest(step.dtypes[0] or DataType.FLOAT)
    return step.result(*with_slack(*ends, step.dtypes[0]), x.dims, x, nan=x.nan or x.infinite or overflows)


RULES: dict[str, Rule] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "SimplifiedLayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "BatchNormalization": _batch_norm,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
}
