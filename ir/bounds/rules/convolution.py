"""Convolutions: by the positive and negative weights of each output channel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from castsmith.ir.bounds.interval import Ends, Interval, flags, joined_along, products, with_bounds
from castsmith.ir.bounds.rounding import Array, summed
from castsmith.ir.bounds.rules.linear import product_error
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError, require_finite
from castsmith.ir.bounds.sums import Matrix, product_with


def convolve(step: Step) -> Interval:
    matrix = step.array(1)
    if matrix is None:
        return _conv_of_two(step)
    x = _operand(step, matrix)
    groups = step.int("group", 1)
    low, high = _channels(x)
    if _pads(step):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    made, inside = matrix.shape[0], matrix.shape[1]
    taps = math.prod(matrix.shape[2:])
    ends = _by_group(low, high, matrix.reshape(made, inside, taps), groups)
    low, high, size = ends
    error = product_error(size, inside * taps, step.dtypes[0])
    return _with_bias(step, x, *summed(low - error, high + error, size, step.dtypes[0]), made)


def _as_channels(x: Interval, rank: int) -> Interval:
    """A value of unknown shape as what a convolution of the rank takes."""
    shape = (1,) * rank
    return with_bounds(x, np.full(shape, x.least), np.full(shape, x.greatest), (None,) * rank)


def _channels(x: Interval) -> Ends:
    """The bounds of each channel (c) or of all (1)."""
    low, high = joined_along(x, [0, *range(2, x.low.ndim)])
    return low.reshape(-1), high.reshape(-1)


def _pads(step: Step) -> bool:
    if step.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return True
    attribute = step.node.attributes.get("pads")
    return attribute is not None and any(attribute.as_ints())


def _operand(step: Step, matrix: Matrix) -> Interval:
    """Return the first operand, by channels where its shape is unknown. The weights have to be finite."""
    x = step.input(0)
    if x.dims is None:
        x = _as_channels(x, matrix.ndim)
    require_finite(matrix)
    return x


def _by_group(low: Array, high: Array, matrix: Matrix, groups: int) -> tuple[Array, Array, Array]:
    """Bounds of each output channel of weights (outputs, inputs of a group, taps)."""
    made, inside = matrix.shape[0] // groups, matrix.shape[1]
    parts: list[tuple[Array, Array, Array]] = []
    if low.size == 1 and groups > 1:
        groups, made = 1, matrix.shape[0]
    for group in range(groups):
        part = matrix[group * made : (group + 1) * made].astype(np.float64)
        if low.size == 1:
            x = low.reshape(1, 1), high.reshape(1, 1)
            parts.append(product_with(*x, part.reshape(part.shape[0], -1).T))
            continue
        plus, minus = np.maximum(part, 0).sum(axis=2), np.minimum(part, 0).sum(axis=2)
        ends = low[group * inside : (group + 1) * inside], high[group * inside : (group + 1) * inside]
        with_plus = product_with(ends[0][None], ends[1][None], plus.T)
        with_minus = product_with(ends[0][None], ends[1][None], minus.T)
        parts.append(tuple(a + b for a, b in zip(with_plus, with_minus, strict=True)))  # pyright: ignore[reportArgumentType]
    least, most, size = (np.concatenate([each[i].reshape(-1) for each in parts]) for i in range(3))
    return least, most, size


def _with_bias(step: Step, x: Interval, low: Array, high: Array, made: int) -> Interval:
    assert x.dims is not None
    shape = (1, -1, *(1,) * (len(x.dims) - 2))
    low, high = low.reshape(shape), high.reshape(shape)
    given, bias = [x], step.optional(2)
    if bias is not None:
        given.append(bias)
        with np.errstate(all="ignore"):
            low, high = low + bias.low.reshape(shape), high + bias.high.reshape(shape)
    dims = step.merged((x.dims[0], made, *(None for _ in x.dims[2:])))
    return step.result(low, high, dims, *given, nan=any(each.nan or each.infinite for each in given))


def _conv_of_two(step: Step) -> Interval:
    """Weights that are not constant: the number of terms times the largest product."""
    x, w = step.input(0), step.input(1)
    if x.dims is None or w.dims is None or None in w.dims[1:]:
        raise UnknownRangeError
    count = math.prod(each or 1 for each in w.dims[1:])
    ends = products((np.asarray(x.least), np.asarray(x.greatest)), (np.asarray(w.least), np.asarray(w.greatest)))
    with np.errstate(all="ignore"):
        low, high = np.minimum(ends[0], 0) * count, np.maximum(ends[1], 0) * count
    error = product_error(np.maximum(np.abs(low), np.abs(high)), count, step.dtypes[0])
    found = _with_bias(step, x, (low - error).reshape(1), (high + error).reshape(1), 1)
    dims = step.merged((x.dims[0], w.dims[0], *(None for _ in x.dims[2:])))
    told = flags(found, w)
    return with_bounds(found, found.low, found.high, dims, **{**told, "nan": told["nan"] or w.infinite})


def _conv_transpose(step: Step) -> Interval:
    """Each output takes the taps of one phase of the stride, or fewer at the border."""
    matrix = step.array(1)
    if matrix is None:
        raise UnknownRangeError
    x = _operand(step, matrix)
    groups = step.int("group", 1)
    low, high = _channels(x)
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    inputs, made = matrix.shape[0] // groups, matrix.shape[1]
    grouped = matrix.reshape(groups, inputs, made, *matrix.shape[2:])
    turned = np.moveaxis(grouped, 1, 2).reshape(groups * made, inputs, *matrix.shape[2:])
    ends = [_by_group(low, high, phase.reshape(groups * made, inputs, -1), groups) for phase in _phases(step, turned)]
    least = np.minimum.reduce([each[0] for each in ends])
    most = np.maximum.reduce([each[1] for each in ends])
    size = np.maximum.reduce([each[2] for each in ends])
    error = product_error(size, inputs * math.prod(matrix.shape[2:]), step.dtypes[0])
    return _with_bias(step, x, *summed(least - error, most + error, size, step.dtypes[0]), groups * made)


def _phases(step: Step, weights: Matrix) -> Sequence[Matrix]:
    rank = weights.ndim - 2
    strides = step.node.attributes.get("strides")
    dilations = step.node.attributes.get("dilations")
    if strides is None or (dilations is not None and any(each != 1 for each in dilations.as_ints())):
        return [weights]
    by = list(strides.as_ints())
    starts = itertools.product(*(range(min(each, size)) for each, size in zip(by, weights.shape[2:], strict=True)))
    slices = [tuple(slice(start, None, by[i]) for i, start in enumerate(each)) for each in starts]
    return (
        [weights[(slice(None), slice(None), *each)] for each in slices[:64]]
        if len(slices) <= 64 and rank
        else [weights]
    )


RULES: dict[str, Rule] = {
    "Conv": convolve,
    "ConvTranspose": _conv_transpose,
}
