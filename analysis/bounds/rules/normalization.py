"""Normalizations and softmax.

Whatever finite numbers come in, n of them over their root mean square are at most sqrt(n), and their vector has a
Euclidean norm of at most sqrt(n): most transformers are bounded layer by layer by that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    NAN,
    NONE,
    Ball,
    Bits,
    Interval,
    Shares,
    UnknownRangeError,
    aligned,
    collapsed,
    possible,
    products,
)
from castsmith.analysis.bounds.rounding import (
    Array,
    is_float,
    overflows,
    rounded,
    shrinking,
    smallest,
    smallest_normal,
    sum_error,
    unit_roundoff,
    vanished,
    with_slack,
)
from castsmith.analysis.bounds.step import Rule, Step, longest, spoilt

TWO_PASSES = "the variance is computed from the differences to the mean, not as E[x^2] - E[x]^2"
_STASHED = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_SKIPS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
_WIDE = ("LayerNormalization", "RMSNormalization", *_SKIPS)
"""Operators that compute the variance in float, whatever their type, unless `stash_type` says otherwise."""
_CENTERED = ("LayerNormalization", "InstanceNormalization", "SkipLayerNormalization", "GroupNormalization")
"""Operators that subtract the mean."""
_EPSILON: dict[str, float] = dict.fromkeys(_SKIPS, 1e-12)
"""Epsilon where no attribute says it, if it is not 1e-5."""
_SHORT = 8
"""Length from which rows of a LayerNormalization are normalized in two passes by ONNX Runtime."""
_CANCELLED = 0.5
"""The part of epsilon by which a variance may be off; beyond it a division by 0 is close."""
_BALL = 1 + 2.0**-10
"""Factor of the radius of a ball, for what runtimes make of roots and quotients."""


def _softmax(step: Step) -> Interval:
    """Softmax and LogSoftmax: along an axis, or before opset 13 along all from it on."""
    x, dtype = step.input(0), step.dtypes[0]
    if not is_float(dtype):
        return step.anything()
    if not x.dims:
        axes = None
    elif step.opset >= 13:
        axes = [step.axis(len(x.dims), -1)]
    else:
        axes = list(range(step.axis(len(x.dims), 1), len(x.dims)))
    if step.node.op_type == "LogSoftmax":
        return _log_softmax(step, x, axes, dtype)
    return _parts_of_whole(step, x, axes, dtype)


def _special_rows(x: Interval, axes: Sequence[int] | None) -> Bits:
    """NaN for a row with NaN or infinity, or one of minus infinities alone."""
    if axes is None:
        return possible(np.full(x.low.shape, x.bits != NONE))
    nan = (x.nan | x.plus).any(axis=tuple(axes), keepdims=True) | x.minus.all(axis=tuple(axes), keepdims=True)
    return np.broadcast_to(possible(nan), x.low.shape)


def _parts_of_whole(step: Step, x: Interval, axes: Sequence[int] | None, dtype: DataType) -> Interval:
    """Exponentials over their sum along the axes, None for unknown ones."""
    shares = None
    if axes is not None and len(axes) == 1:
        count, assumes = longest(x.dims or (), axes)
        shares = Shares(axes[0], shrinking(count + 4, dtype) + vanished(count, dtype), assumes)
    # No exponential exceeds the sum; its product with the reciprocal of the sum may.
    ones = np.full(x.low.shape, 1 + 4 * unit_roundoff(dtype))
    return step.result(np.zeros(x.low.shape), ones, x, special=_special_rows(x, axes), shares=shares)


def _log_softmax(step: Step, x: Interval, axes: Sequence[int] | None, dtype: DataType) -> Interval:
    """The logarithm, which is minus infinity of a softmax that vanishes, unless it is computed from differences."""
    if axes is None:
        return step.anything()
    special, (count, assumes) = _special_rows(x, axes), longest(x.dims or (), axes)
    if special.any():  # runtimes give any number beside an infinity
        return step.anything()
    low = x.least - x.greatest - math.log(max(count, 1))
    special = special | possible(minus=x.minus.any() or not low >= math.log(smallest_normal(dtype)))
    ends = with_slack(np.full(x.low.shape, low), np.zeros(x.low.shape), dtype)
    return step.result(*ends, x, special=special, assumes=x.assumes | assumes)


def radius_of(count: float, terms: float, dtype: DataType, least_square: float) -> float:
    """The largest element over the norm of its row, roundings included; infinite if the norm may vanish.

    A sum of numbers that are not negative loses a factor of 1 - u at each of its roundings, and its least square loses
    what is below the smallest normal number.

    Args:
        count: The square of what the norm is multiplied by: the number of elements for a root mean square, else 1.
        terms: The number of elements of a row.
        dtype: The type of the roundings.
        least_square: The square of the least number by which an element is divided.
    """
    lost = vanished(2 if count > 1 else terms, dtype)
    if not least_square > 0:
        return math.inf
    return math.sqrt(count * (1 + lost / least_square) * shrinking(terms + 16, dtype))


def _inner_type(step: Step) -> DataType:
    """The type in which the node computes the norm."""
    dtype = step.dtypes[0]
    if not is_float(dtype):
        raise UnknownRangeError
    wide = step.node.op_type in _WIDE or (step.node.op_type == "GroupNormalization" and step.opset >= 21)
    if not wide or dtype == DataType.DOUBLE:
        return dtype
    stashed = step.int("stash_type", DataType.FLOAT)
    if stashed not in _STASHED:
        raise UnknownRangeError
    return DataType(stashed)


def least_epsilon(step: Step, dtype: DataType) -> float:
    """The number of the attribute, or what it is in the type: 1e-5 is less in float16."""
    epsilon = np.asarray(step.float("epsilon", _EPSILON.get(step.node.op_type, 1e-5)))
    return float(min(epsilon, rounded(epsilon, epsilon, dtype)[0]))


def normalized(step: Step, x: Interval, axes: Sequence[int], scale: Interval, offset: Interval | None) -> Interval:
    """Rows of x along the axes over their root mean square, times scale, plus offset, computed by the node itself.

    Scale and offset broadcast to x.
    """
    dims = x.dims or ()
    (count, assumes), dtype, op_type = longest(dims, axes), _inner_type(step), step.node.op_type
    special, size, epsilon = np.where(x.special.any(), NAN, NONE), x.size, least_epsilon(step, dtype)
    if op_type in _CENTERED:
        if overflows(size * max(count, 2.0), count, dtype, bounded=x.bounded):
            special = special | NAN  # the mean, or the difference to it
        size = (x.greatest - x.least) + 2 * sum_error(count, dtype) * size
    norm = radius_of(count, count, dtype, epsilon)
    radius = min(norm, size / math.sqrt(epsilon) * (1 + sum_error(8, dtype))) if epsilon > 0 else norm
    if op_type in _CENTERED and epsilon > 0:
        factor, lost, kernels = _one_pass(step, x, axes, dtype)
        norm, radius, assumes = norm * factor + lost, radius * factor + lost, assumes | kernels
        if factor > 1 and overflows(x.size * x.size * count, count, dtype, bounded=x.bounded):
            special = special | NAN
        product = x.size / math.sqrt(epsilon) * max(scale.size, 1.0)
        bounded = x.bounded and scale.bounded
        if op_type == "InstanceNormalization" and overflows(product, 1, dtype, bounded=bounded):
            special = special | NAN  # x * factor - mean * factor in some runtimes, of which both are infinite
    result = scaled_rows(step, x, radius, scale, offset, special)
    result = replace(result, assumes=result.assumes | assumes)
    # No row of what is normalized together has a larger norm; an InstanceNormalization of a matrix has no rows.
    return result if op_type == "InstanceNormalization" else with_ball(step, result, norm, scale, offset)


def _one_pass(step: Step, x: Interval, axes: Sequence[int], dtype: DataType) -> tuple[float, float, frozenset[str]]:
    """By what rows are larger if the variance is computed as E[x^2] - E[x]^2, and what is assumed if it is not covered.

    The variance is then off by about 4 (n + 3) u max|x|^2, which counts where it is not small beside epsilon. ONNX
    Runtime computes it so in short rows, and in SkipLayerNormalization, and takes 0 for what would be less; other
    kernels that do so may divide by the root of a negative number.

    Returns:
        A factor, what is added to the product, and assumptions.
    """
    dims, epsilon = x.dims or (), least_epsilon(step, dtype)
    (count, _), unit, size = longest(dims, axes), unit_roundoff(dtype), x.size
    ratio = 4 * (count + 3) * unit * size * size / epsilon
    lost = (count + 2) * unit * size / math.sqrt(epsilon)  # of the mean
    if step.node.op_type == "InstanceNormalization":  # x * factor - mean * factor in some runtimes
        return 1.0, 4 * unit * size / math.sqrt(epsilon) if x.bounded else 0.0, frozenset({TWO_PASSES})
    if ratio <= _CANCELLED:
        return 1 / math.sqrt(1 - ratio), lost, frozenset()
    if step.node.op_type == "GroupNormalization":  # by its definition: the root may be of a negative number
        raise UnknownRangeError
    shortest = math.prod(dims[axis] or 1 for axis in axes)
    if x.bounded and (step.node.op_type in _SKIPS or shortest < _SHORT):
        return math.sqrt(1 + ratio), lost, frozenset()
    return 1.0, 0.0, frozenset({TWO_PASSES})


def scaled_rows(
    step: Step, x: Interval, radius: float, scale: Interval | None, offset: Interval | None, special: Bits
) -> Interval:
    """Rows whose elements are at most the radius, times scale, plus offset, one of which is there."""
    if not math.isfinite(radius):
        raise UnknownRangeError
    rank = len(x.dims or ())
    scale, offset = (part if part is None or part.dims is not None else collapsed(part, ()) for part in (scale, offset))
    parts = [part for part in (scale, offset) if part is not None]
    if any(len(part.dims or ()) > rank for part in parts):
        raise UnknownRangeError
    aligned(x, *parts)
    low, high = np.full((1,) * rank, -radius), np.full((1,) * rank, radius)
    size = high
    if scale is not None:
        low, high = products((low, high), (scale.low, scale.high))
        size = np.maximum(size, np.maximum(np.abs(low), np.abs(high)))
    if offset is not None:
        with np.errstate(all="ignore"):
            low, high, size = low + offset.low, high + offset.high, size + offset.magnitude
    low, high, over = step.total(low, high, size, 4, x, *parts)
    special = special | spoilt(*parts) | over
    return step.result(*with_slack(low, high, step.dtypes[0]), x, *parts, special=special)


def with_ball(step: Step, result: Interval, radius: float, scale: Interval | None, offset: Interval | None) -> Interval:
    """The same, with the norm of its rows, where scale and offset are known."""
    rows, dtype = (known_row(scale, 1.0), known_row(offset, 0.0)), step.dtypes[0]
    if rows[0] is None or rows[1] is None or dtype is None or not math.isfinite(radius):
        return result
    return replace(result, ball=sound_ball(Ball(radius * _BALL, rows[0], rows[1], 16 * unit_roundoff(dtype)), dtype))


def sound_ball(ball: Ball, dtype: DataType) -> Ball | None:
    """The ball, unless its roundings are below the smallest normal number, so that its slack does not cover them."""
    with np.errstate(over="ignore"):
        sizes = np.abs(ball.scale) * ball.radius
    tiny = (sizes > 0) & (sizes < smallest(dtype) / unit_roundoff(dtype))
    return None if tiny.any() else ball


def known_row(interval: Interval | None, default: float) -> Array | None:
    """The elements along the last axis of a constant; None where they are not known."""
    if interval is None:
        return np.asarray([default])
    if not interval.dims or not interval.finite or (interval.low != interval.high).any():
        return None
    row = interval.low.reshape(-1)
    return row if interval.low.shape[-1] == row.size else None


def _layer_norm(step: Step) -> list[Interval]:
    """LayerNormalization and RMSNormalization."""
    x, scale, offset = step.input(0), step.input(1), step.optional(2)
    if x.dims is None:
        raise UnknownRangeError
    axes = range(step.axis(len(x.dims), -1), len(x.dims))
    result = normalized(step, x, axes, scale, offset)
    return [result, *(step.anything(index) for index in range(1, len(step.node.outputs)))]


def _instance_norm(step: Step) -> Interval:
    x = step.input(0)
    if x.dims is None:
        raise UnknownRangeError
    scale, offset = (_on_channels(step.input(index), len(x.dims)) for index in (1, 2))
    return normalized(step, x, range(2, len(x.dims)), scale, offset)


def _on_channels(interval: Interval, rank: int) -> Interval:
    """The interval of a vector of channels, in the dimensions of what it scales."""
    if interval.dims is None or len(interval.dims) != 1 or rank < 2:
        raise UnknownRangeError
    shape = (1, interval.low.size, *(1,) * (rank - 2))
    return interval.moved(lambda ends: ends.reshape(shape), (1, interval.dims[0], *(1,) * (rank - 2)))


def _group_norm(step: Step) -> Interval:
    """Groups of channels, each with its places, over their deviation; the scale is one of channels since opset 21."""
    x, groups = step.input(0), step.int("num_groups", 0)
    if x.dims is None or len(x.dims) < 2 or x.dims[1] is None or groups < 1 or x.dims[1] % groups:
        raise UnknownRangeError
    split_dims = (x.dims[0], groups, x.dims[1] // groups, *x.dims[2:])
    rank = len(split_dims)
    channels = groups, split_dims[2] if step.opset >= 21 else 1

    def grouped(vector: Interval) -> Interval:
        on = _on_channels(vector, rank)
        size = channels if on.low.size == math.prod(channels) else (1, 1)
        return on.moved(lambda ends: ends.reshape(1, *size, *(1,) * (rank - 3)), (1, *channels, *(1,) * (rank - 3)))

    scale, offset = grouped(step.input(1)), grouped(step.input(2))
    result = normalized(replace(step, dims=[split_dims]), collapsed(x, split_dims), range(2, rank), scale, offset)
    return result.moved(lambda ends: ends.reshape(ends.shape[0], -1, *ends.shape[3:]), x.dims)


def _batch_norm(step: Step) -> Interval:
    x, dtype = step.input(0), step.dtypes[0]
    if x.dims is None:
        x = collapsed(x, (None, None))
    rank = len(x.dims or ())
    if len(step.node.outputs) > 1 or step.int("training_mode", 0) or step.opset < 7 or not is_float(dtype):
        raise UnknownRangeError
    scale, offset, mean, variance = (_on_channels(step.input(index), rank) for index in (1, 2, 3, 4))
    least, epsilon = least_epsilon(step, dtype), step.float("epsilon", 1e-5)
    parts = aligned(x, scale, offset, mean, variance)
    if not variance.least + least > 0:
        raise UnknownRangeError
    with np.errstate(all="ignore"):
        factor = products(
            (scale.low, scale.high), (1 / np.sqrt(variance.high + epsilon), 1 / np.sqrt(variance.low + least))
        )
        low, high = products((x.low - mean.high, x.high - mean.low), factor)
        # a kernel may compute x * factor + (offset - mean * factor): the error is relative to the parts
        size, factors = x.magnitude + mean.magnitude, np.maximum(np.abs(factor[0]), np.abs(factor[1]))
        sizes = factors * size + offset.magnitude
        # epsilon, and its root, may be subnormal, and so may a factor that is then multiplied
        error = sizes * smallest(dtype) / (variance.low + least) + smallest(dtype) * size
        low, high = low + offset.low - error, high + offset.high + error
        most = np.maximum(sizes, np.maximum(factors, size * (1 + scale.magnitude)))
        low, high, over = step.total(low, high, most, 8, *parts)
    return step.result(low, high, *parts, special=over | spoilt(*parts))


RULES: dict[str, Rule] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "BatchNormalization": _batch_norm,
}
