"""Convolutions: by the positive and negative weights of each output channel."""

from __future__ import annotations

import math

import numpy as np

from castsmith.analysis.bounds.interval import (
    Ends,
    Interval,
    UnknownRangeError,
    collapsed,
    joined_along,
    products,
)
from castsmith.analysis.bounds.rounding import Array
from castsmith.analysis.bounds.step import Rule, Step, longest, require_finite, spoilt
from castsmith.analysis.bounds.sums import Matrix, Sums, product_with


def _convolve(step: Step) -> Interval:
    matrix = step.array(1)
    if matrix is None:
        return _conv_of_two(step)
    x, groups = _operand(step, matrix), step.int("group", 1)
    channels, inside = matrix.shape[0], matrix.shape[1]
    if groups < 1 or channels % groups:
        raise UnknownRangeError
    low, high = _channels(x, groups * inside)
    if _pads(step):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    taps = math.prod(matrix.shape[2:])
    sums = _by_group(low, high, matrix.reshape(channels, inside, taps), groups)
    return _with_bias(step, x, sums, inside * taps, channels)


def _operand(step: Step, matrix: Matrix) -> Interval:
    """Return the first operand, by channels also where its rank is unknown. The weights have to be finite."""
    x = step.input(0)
    if matrix.ndim < 3 or matrix.size == 0 or (x.dims is not None and len(x.dims) != matrix.ndim):
        raise UnknownRangeError
    require_finite(matrix)
    return x if x.dims is not None else collapsed(x, (None,) * matrix.ndim)


def _channels(x: Interval, count: int) -> Ends:
    """The bounds of each channel (count) or of all (1)."""
    of_channels = joined_along(x, [0, *range(2, x.low.ndim)])
    low, high = of_channels.low.reshape(-1), of_channels.high.reshape(-1)
    if low.size not in (1, count):
        raise UnknownRangeError
    return low, high


def _pads(step: Step) -> bool:
    if step.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return True
    return any(step.ints("pads") or ())


def _by_group(low: Array, high: Array, matrix: Matrix, groups: int) -> Sums:
    """Bounds of each output channel of weights (outputs, inputs of a group, taps)."""
    channels, inside = matrix.shape[0] // groups, matrix.shape[1]
    matrix = matrix.astype(np.float64)
    if low.size == 1:
        sums = product_with(low[None], high[None], matrix.reshape(matrix.shape[0], -1).T)
        return Sums(*(part.reshape(-1) for part in sums))
    parts: list[Sums] = []
    for group in range(groups):
        part = matrix[group * channels : (group + 1) * channels]
        plus, minus = np.maximum(part, 0).sum(axis=2), np.minimum(part, 0).sum(axis=2)
        ends = low[group * inside : (group + 1) * inside], high[group * inside : (group + 1) * inside]
        with_plus = product_with(ends[0][None], ends[1][None], plus.T)
        with_minus = product_with(ends[0][None], ends[1][None], minus.T)
        parts.append(Sums(*(a + b for a, b in zip(with_plus, with_minus, strict=True))))
    return Sums(*(np.concatenate([part[i].reshape(-1) for part in parts]) for i in range(3)))


def _with_bias(step: Step, x: Interval, sums: Sums, count: float, channels: int | None, *weights: Interval) -> Interval:
    """Sums of `count` products, and the bias of each channel."""
    rank = len(x.dims or ())
    shape, special, operands = (1, -1, *(1,) * (rank - 2)), np.asarray(spoilt(x, *weights)), [x, *weights]
    low, high, size = (part.reshape(shape) for part in sums)
    bias = step.optional(2)
    if bias is not None:
        if bias.low.size not in (1, channels):
            raise UnknownRangeError
        least, most, bits = bias.low.reshape(shape), bias.high.reshape(shape), bias.special.reshape(shape)
        with np.errstate(all="ignore"):
            low, high, size = low + least, high + most, size + np.maximum(np.abs(least), np.abs(most))
        special = special | bits
        operands.append(bias)
    low, high, over = step.total(low, high, size, count + 1, *operands)
    if step.dims[0] is None and x.dims is not None:
        step = step.shaped((x.dims[0], channels, *(None for _ in x.dims[2:])))
    return step.result(low, high, *operands, special=special | over)


def _conv_of_two(step: Step) -> Interval:
    """Weights that are not constant: the number of terms times the largest product."""
    x, w = step.input(0), step.input(1)
    if x.dims is None or w.dims is None or None in w.dims[1:]:
        return step.unbounded()
    if len(x.dims) != len(w.dims) or len(x.dims) < 3:
        raise UnknownRangeError
    count, _ = longest(w.dims[1:], range(len(w.dims) - 1))
    low, high = products((np.asarray(x.least), np.asarray(x.greatest)), (np.asarray(w.least), np.asarray(w.greatest)))
    with np.errstate(all="ignore"):
        low, high = np.minimum(low, 0) * count, np.maximum(high, 0) * count
    return _with_bias(step, x, Sums(low, high, np.maximum(-low, high)), count, w.dims[0], w)


def _conv_transpose(step: Step) -> Interval:
    """Each output takes some of the taps, or all of them."""
    matrix = step.array(1)
    if matrix is None:
        return step.unbounded()
    x, groups = _operand(step, matrix), step.int("group", 1)
    if groups < 1 or matrix.shape[0] % groups:
        raise UnknownRangeError
    low, high = _channels(x, matrix.shape[0])
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    inputs, channels = matrix.shape[0] // groups, matrix.shape[1]
    grouped = matrix.reshape(groups, inputs, channels, *matrix.shape[2:])
    turned = np.moveaxis(grouped, 1, 2).reshape(groups * channels, inputs, *matrix.shape[2:])
    taps = math.prod(matrix.shape[2:])
    sums = _by_group(low, high, turned.reshape(groups * channels, inputs, taps), groups)
    return _with_bias(step, x, sums, inputs * taps, groups * channels)


RULES: dict[str, Rule] = {
    "Conv": _convolve,
    "ConvTranspose": _conv_transpose,
}
