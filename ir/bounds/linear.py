"""Products of matrices and convolutions: by the positive and negative weights of each output, and by norms.

An output of a constant matrix W is at most W+ high - W- low, which some input in the box reaches. Where the rows of the
operand are bounded in norm (after a normalization), it is also at most the norm of the column times that of the row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.elementwise import products
from castsmith.ir.bounds.interval import (
    Dims,
    Interval,
    broadcast_dims,
    flags,
    joined_along,
    with_bounds,
)
from castsmith.ir.bounds.normalization import NOT_MASKED
from castsmith.ir.bounds.rounding import Array, is_float, is_integer, largest, sum_error, with_slack
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError

_CHUNK = 1 << 22
"""Elements of a weight that are converted to float64 at a time."""
_ROWS = 64
"""Rows of an operand that are followed one by one."""

Ends = tuple[Array, Array]
Matrix = np.ndarray[Any, Any]


def _error(size: Array, count: int, dtype: DataType | None) -> Array:
    """Of a sum of `count` products whose absolute values sum up to `size`."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(size * sum_error(count + 1, dtype), nan=0.0, posinf=0.0)


def product_with(low: Array, high: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Bounds of x @ W for x in [low, high] (rows, k) and W (k, n), and the sum of absolute values of the terms.

    An infinite bound stands for numbers without bound: it makes every column with a weight for it unbounded.
    """
    unbounded_low, unbounded_high = np.isinf(low), np.isinf(high)
    if low.shape[1] == 1 and weights.shape[0] != 1:
        plus, minus = np.maximum(weights, 0).sum(axis=0), np.minimum(weights, 0).sum(axis=0)
        (least_a, most_a), (least_b, most_b) = (
            products((low, high), (plus, plus)),
            products((low, high), (minus, minus)),
        )
        size = products((np.zeros((1, 1)), np.maximum(np.abs(low), np.abs(high))), (plus - minus, plus - minus))[1]
        return least_a + least_b, most_a + most_b, size
    plus, minus = np.maximum(weights, 0), np.minimum(weights, 0)
    lows, highs = np.where(unbounded_low, 0.0, low), np.where(unbounded_high, 0.0, high)
    least, most = lows @ plus + highs @ minus, highs @ plus + lows @ minus
    size = np.maximum(np.abs(lows), np.abs(highs)) @ (plus - minus)
    if unbounded_low.any() or unbounded_high.any():
        up, down = (plus > 0).astype(np.float64), (minus < 0).astype(np.float64)
        ul, uh = unbounded_low.astype(np.float64), unbounded_high.astype(np.float64)
        least = np.where(ul @ up + uh @ down > 0, -np.inf, least)
        most = np.where(uh @ up + ul @ down > 0, np.inf, most)
    return least, most, size


def _columns(weights: Matrix) -> Iterator[Array]:
    """The columns of W in float64, some at a time."""
    width = max(1, _CHUNK // max(weights.shape[0], 1))
    for start in range(0, weights.shape[1], width):
        yield weights[:, start : start + width].astype(np.float64)


def _bounded_product(step: Step, low: Array, high: Array, weights: Matrix) -> Ends:
    """Bounds of x @ W in the type of the result, for x in [low, high] (rows, k or 1) and a constant W (k, n)."""
    _finite_weights(weights)
    k, n = weights.shape
    if low.shape[1] not in (1, k) or not n:
        raise UnknownRangeError
    parts = [product_with(low, high, part) for part in _columns(weights)]
    least, most, size = (np.concatenate([part[i] for part in parts], axis=1) for i in range(3))
    error = _error(size, k, step.dtypes[0])
    return least - error, most + error


def _finite_weights(weights: Matrix) -> None:
    if not np.isfinite(weights.astype(np.float32) if weights.dtype.kind not in "fiu" else weights).all():
        raise UnknownRangeError


# Products of matrices.


def _matmul(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    right = step.array(1)
    if a.dims is None and right is not None and right.ndim == 2:
        return _by_weights(step, _as_rows(a), right, step.dims[0], b)
    if a.dims is None or b.dims is None or not a.dims or not b.dims:
        raise UnknownRangeError
    dims = step.merged(_matmul_dims(a.dims, b.dims))
    if right is not None and len(b.dims) == 2:
        return _by_weights(step, a, right, dims, b)
    left = step.array(0)
    if left is not None and len(a.dims) == 2 and len(b.dims) >= 2:
        return _weights_first(step, b, left, dims, a)
    return _of_two(step, a, b, dims)


def _as_rows(x: Interval) -> Interval:
    """A value of unknown rank as a matrix of unknown size, all of whose elements share one interval."""
    return with_bounds(x, np.asarray([[x.least]]), np.asarray([[x.greatest]]), (None, None))


def _matmul_dims(a: Dims, b: Dims) -> Dims:
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    batch = broadcast_dims(left[:-2], right[:-2]) or ()
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


def _by_weights(
    step: Step,
    x: Interval,
    weights: Matrix,
    dims: Dims | None,
    *others: Interval,
) -> Interval:
    """x @ W for a constant W (k, n)."""
    k, n = weights.shape
    low, high = x.low, x.high
    if math.prod(low.shape[:-1]) > _ROWS:
        low, high = joined_along(x, range(low.ndim - 1))
    lead = low.shape[:-1]
    least, most = _bounded_product(step, low.reshape(-1, low.shape[-1]), high.reshape(-1, high.shape[-1]), weights)
    if x.ball is not None:
        least, most = _by_norm(step, x, weights, least, most)
    if x.weights_axis is not None and x.weights_axis == len(x.dims or ()) - 1:
        least, most = _convex(step, weights.min(axis=0), weights.max(axis=0), k, least, most)
    nan = x.nan or x.infinite
    shape = (*lead, n) if dims is None or len(dims) >= len(lead) + 1 else (n,)
    return step.result(least.reshape(shape), most.reshape(shape), dims, x, *others, nan=nan)


def _by_norm(step: Step, x: Interval, weights: Matrix, least: Array, most: Array) -> Ends:
    """Bounds by Cauchy-Schwarz: scale * v + offset, with the norm of v bounded."""
    ball = x.ball
    assert ball is not None
    k = weights.shape[0]
    centers: list[Array] = []
    halves: list[Array] = []
    for part in _columns(weights):
        scaled = part * ball.scale[:, None]
        center = (part * ball.offset[:, None]).sum(axis=0)
        norm = np.sqrt((scaled * scaled).sum(axis=0))
        sizes = np.abs(scaled).sum(axis=0) * ball.radius + np.abs(part * ball.offset[:, None]).sum(axis=0)
        centers.append(center)
        halves.append(ball.radius * norm + _error(sizes, k + 3, step.dtypes[0]))
    center, half = np.concatenate(centers), np.concatenate(halves)
    return np.maximum(least, center - half), np.minimum(most, center + half)


def _convex(step: Step, low: Array, high: Array, count: int, least: Array, most: Array) -> Ends:
    """Bounds of weights that sum up to at most 1, times rows in [low, high]."""
    low, high = np.minimum(low.astype(np.float64), 0), np.maximum(high.astype(np.float64), 0)
    margin = 1 + 4 * sum_error(count + 1, step.dtypes[0])
    with np.errstate(all="ignore"):
        return np.maximum(least, low * margin), np.minimum(most, high * margin)


def _weights_first(
    step: Step,
    x: Interval,
    weights: Matrix,
    dims: Dims | None,
    *others: Interval,
) -> Interval:
    """W @ x for a constant W (m, k)."""
    low, high = joined_along(x, [*range(x.low.ndim - 2), x.low.ndim - 1])
    ends = _bounded_product(step, low.reshape(1, -1), high.reshape(1, -1), weights.T)
    lead = (1,) * (len(x.dims or ()) - 2)
    low, high = (each.reshape((*lead, -1, 1)) for each in ends)
    return step.result(low, high, dims, x, *others, nan=x.nan or x.infinite)


def _of_two(step: Step, a: Interval, b: Interval, dims: Dims | None) -> Interval:
    """a @ b, neither constant: k times the largest product, or each term of k where bounds differ along it."""
    assert a.dims is not None
    assert b.dims is not None
    k = a.dims[-1] if a.dims[-1] is not None else b.dims[-2 if len(b.dims) > 1 else 0]
    flag = {"nan": a.nan or b.nan or a.infinite or b.infinite}
    weights = a.weights_axis is not None and a.weights_axis == len(a.dims) - 1
    low, high = _terms(a, b, k)
    size: Array = np.full((1,), np.inf)
    if k is not None:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(low), np.abs(high))
        error = _error(size, k, step.dtypes[0])
        low, high = low - error, high + error
    if weights and len(b.dims) >= 2:
        bl, bh = joined_along(b, [b.low.ndim - 2])
        low, high = _convex(step, bl, bh, k or 1 << 16, low, high)
    return step.result(low, high, dims, a, b, **flag)


def _terms(a: Interval, b: Interval, k: int | None) -> Ends:
    """The sums over k of the bounds of the products, with the other dimensions of both joined but for the batch."""
    assert a.dims is not None
    assert b.dims is not None
    if k is None:
        return np.full((1,) * max(len(a.dims), len(b.dims)), -np.inf), np.full((1,), np.inf)
    rows = joined_along(a, [a.low.ndim - 2]) if a.low.ndim > 1 else (a.low, a.high)
    columns = joined_along(b, [b.low.ndim - 1]) if b.low.ndim > 1 else (b.low, b.high)
    if b.low.ndim > 1:
        columns = columns[0].swapaxes(-1, -2), columns[1].swapaxes(-1, -2)
    try:
        low, high = products(rows, columns)
    except ValueError:
        low, high = products(
            (np.asarray(a.least), np.asarray(a.greatest)), (np.asarray(b.least), np.asarray(b.greatest))
        )
        low, high = low.reshape((1,)), high.reshape((1,))
    times = 1 if low.shape[-1] == k else k
    with np.errstate(all="ignore"):
        low, high = (each.sum(axis=-1, keepdims=True) * times for each in (low, high))
    if a.low.ndim == 1 or b.low.ndim == 1:
        low, high = np.asarray(low.min()), np.asarray(high.max())
    return low, high


def _transposed(x: Interval) -> Interval:
    return with_bounds(x, x.low.T, x.high.T, None if x.dims is None else x.dims[::-1])


def _gemm(step: Step) -> Interval:
    """alpha A' B' + beta C."""
    a, b = step.input(0), step.input(1)
    alpha, beta = step.float("alpha", 1.0), step.float("beta", 1.0)
    a, b = (_as_rows(each) if each.dims is None else each for each in (a, b))
    if step.int("transA", 0):
        a = _transposed(a)
    weights = step.array(1)
    dtype = step.dtypes[0]
    rows = None if a.dims is None else a.dims[0]
    if weights is not None:
        matrix = weights.T if step.int("transB", 0) else weights
        columns = matrix.shape[1]
        product = _by_weights(replace(step, dims=[None]), a, matrix, (rows, columns), b)
    else:
        right = _transposed(b) if step.int("transB", 0) else b
        columns = (right.dims or (None, None))[-1]
        product = _of_two(replace(step, dims=[None]), a, right, (rows, columns))
    dims = step.merged((rows, columns))
    low, high = products((product.low, product.high), (np.asarray(alpha), np.asarray(alpha)))
    given = [product]
    c = step.optional(2)
    if c is not None:
        least, most = products((c.low, c.high), (np.asarray(beta), np.asarray(beta)))
        with np.errstate(all="ignore"):
            low, high = low + least, high + most
        given.append(c)
    if alpha != 1 or beta != 1:
        low, high = with_slack(low, high, dtype)
    low, high = (each.reshape((1,) * (2 - each.ndim) + each.shape) for each in (np.asarray(low), np.asarray(high)))
    nan = any(each.nan or each.infinite for each in (a, b)) or any(each.nan for each in given)
    return step.result(low, high, dims, a, b, *given, nan=nan)


# Convolutions.


def _conv(step: Step) -> Interval:
    x, weights = step.input(0), step.array(1)
    if weights is None:
        return _conv_of_two(step)
    if x.dims is None:
        x = _as_channels(x, weights.ndim)
    matrix = weights
    _finite_weights(matrix)
    groups = step.int("group", 1)
    low, high = _channels(x)
    if _pads(step):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    made, inside = matrix.shape[0], matrix.shape[1]
    taps = math.prod(matrix.shape[2:])
    ends = _by_group(low, high, matrix.reshape(made, inside, taps), groups)
    low, high, size = ends
    error = _error(size, inside * taps, step.dtypes[0])
    return _with_bias(step, x, low - error, high + error, made)


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
    error = _error(np.maximum(np.abs(low), np.abs(high)), count, step.dtypes[0])
    found = _with_bias(step, x, (low - error).reshape(1), (high + error).reshape(1), 1)
    dims = step.merged((x.dims[0], w.dims[0], *(None for _ in x.dims[2:])))
    return (
        with_bounds(
            found,
            found.low,
            found.high,
            dims,
            **flags(found, w),
        )
        if not w.nan
        else found
    )


def _conv_transpose(step: Step) -> Interval:
    """Each output takes the taps of one phase of the stride, or fewer at the border."""
    x, weights = step.input(0), step.array(1)
    if weights is None:
        raise UnknownRangeError
    if x.dims is None:
        x = _as_channels(x, weights.ndim)
    matrix = weights
    _finite_weights(matrix)
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
    error = _error(size, inputs * math.prod(matrix.shape[2:]), step.dtypes[0])
    return _with_bias(step, x, least - error, most + error, groups * made)


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


# Others.


def _einsum(step: Step) -> Interval:
    """The number of terms of each sum times the largest product of operands."""
    equation = step.text("equation", "").replace(" ", "")
    if "." in equation:
        raise UnknownRangeError
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        letters = "".join(terms)
        right = "".join(sorted(each for each in set(letters) if letters.count(each) == 1))
    sizes: dict[str, int | None] = {}
    for term, operand in zip(terms, step.inputs, strict=True):
        if operand is None or operand.dims is None or len(operand.dims) != len(term):
            raise UnknownRangeError
        for letter, dim in zip(term, operand.dims, strict=True):
            sizes[letter] = dim if sizes.get(letter) is None else sizes[letter]
    count = 1
    for letter in set(sizes) - set(right):
        size = sizes[letter]
        if size is None:
            raise UnknownRangeError
        count *= size
    low, high = np.ones(()), np.ones(())
    for operand in step.inputs:
        assert operand is not None
        low, high = products((low, high), (np.asarray(operand.least), np.asarray(operand.greatest)))
    with np.errstate(all="ignore"):
        low, high = low * count, high * count
    error = _error(np.maximum(np.abs(low), np.abs(high)), count + len(terms), step.dtypes[0])
    given = [each for each in step.inputs if each is not None]
    nan = any(each.nan or each.infinite for each in given)
    return step.result(low - error, high + error, tuple(sizes[each] for each in right), *given, nan=nan)


def _attention(step: Step) -> list[Interval]:
    """The output is a convex combination of the values."""
    v = step.input(2)
    margin = 1 + 8 * sum_error(1 << 12, step.dtypes[0])
    low, high = np.asarray(min(v.least, 0.0)) * margin, np.asarray(max(v.greatest, 0.0)) * margin
    past = step.optional(5)
    given = [each for each in step.inputs if each is not None]
    if past is not None:
        low, high = np.minimum(low, past.least * margin), np.maximum(high, past.greatest * margin)
    nan = any(each.nan or each.plus_infinity for each in given)
    masked = step.optional(3)
    assumes = frozenset[str]().union(*(each.assumes for each in given), () if masked is None else (NOT_MASKED,))
    first = step.result(low, high, step.dims[0], *given, nan=nan, infinite=v.infinite, assumes=assumes)
    return [first, *(step.unbounded(index) for index in range(1, len(step.node.outputs)))]


def _quantize(step: Step) -> Interval:
    """Return the range of the type: integers and float8 types saturate, unless the attribute says otherwise."""
    dtype = step.dtypes[0]
    if dtype is None or not is_float(dtype):
        return step.unbounded(nan=False, infinite=False)
    if not step.int("saturate", 1):
        raise UnknownRangeError
    most = np.asarray(largest(dtype))
    scale = step.input(1)
    nan = step.input(0).nan or scale.nan or scale.least <= 0 <= scale.greatest
    return step.result(-most, most, step.dims[0], nan=nan, infinite=False)


def _dequantize(step: Step) -> Interval:
    """(x - zero point) * scale, the product rounded once."""
    x, scale, zero = step.input(0), step.input(1), step.optional(2)
    start, end = np.asarray(x.least), np.asarray(x.greatest)
    if zero is not None and is_integer(zero.dtype):
        start, end = start - zero.greatest, end - zero.least
    ends = products((start, end), (np.asarray(scale.least), np.asarray(scale.greatest)))
    given = [each for each in (x, scale, zero) if each is not None]
    return step.result(*ends, x.dims, *given, nan=any(each.nan for each in given))


def _recurrent(step: Step) -> list[Interval]:
    """LSTM and GRU with their default functions: hidden states are between -1 and 1."""
    if "activations" in step.node.attributes or "clip" in step.node.attributes:
        raise UnknownRangeError
    start = step.optional(5)
    most = 1.0 if start is None or step.node.op_type == "LSTM" else max(1.0, float(start.magnitude.max(initial=0.0)))
    given = [each for each in step.inputs if each is not None]
    nan = any(each.nan or each.infinite for each in given)
    results: list[Interval] = []
    for index in range(len(step.node.outputs)):
        if index == 2:
            results.append(_cell_state(step, given, nan))
            continue
        held = replace(step, dims=[step.dims[index]], dtypes=[step.dtypes[index]])
        ends = with_slack(np.asarray(-most), np.asarray(most), step.dtypes[index])
        if index == 1 and start is not None:
            ends = np.minimum(ends[0], start.least), np.maximum(ends[1], start.greatest)
        results.append(held.result(*ends, step.dims[index], *given, nan=nan, infinite=False))
    return results


def _cell_state(step: Step, given: Sequence[Interval], nan: bool) -> Interval:
    """Each turn of an LSTM adds at most 1 to the magnitude of its cell state."""
    x, start = step.input(0), step.optional(6)
    turns = None if x.dims is None else x.dims[1 if step.int("layout", 0) else 0]
    if turns is None:
        return step.unbounded(2)
    most = turns + (0.0 if start is None else float(start.magnitude.max(initial=0.0)))
    most *= 1 + sum_error(2 * turns + 8, step.dtypes[2])
    held = replace(step, dims=[step.dims[2]], dtypes=[step.dtypes[2]])
    ends = with_slack(np.asarray(-most), np.asarray(most), step.dtypes[2])
    return held.result(*ends, step.dims[2], *given, nan=nan, infinite=False)


RULES: dict[str, Rule] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Attention": _attention,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
