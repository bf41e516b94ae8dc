"""Products of matrices: by the positive and negative weights of each output, and by norms.

An output of a constant matrix W is at most W+ high - W- low, which some input in the box reaches. Where the rows of the
operand are bounded in norm (after a normalization), it is also at most the norm of the column times that of the row.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import (
    Ball,
    Dims,
    Ends,
    Interval,
    broadcast_dims,
    joined_along,
    products,
    with_bounds,
)
from castsmith.ir.bounds.rounding import Array, sum_error, summed, vanished, with_slack
from castsmith.ir.bounds.step import LENGTHS, LONGEST, Rule, Step, UnknownRangeError, require_finite
from castsmith.ir.bounds.sums import Layout, Product, Sums, ball_product, box_product
from castsmith.ir.bounds.weights import Weights

_ROWS = 64
"""Rows of an operand that are followed one by one."""


def product_error(size: Array, count: int, dtype: DataType | None) -> Array:
    """Of a sum of `count` products whose absolute values sum up to `size`."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(size * sum_error(count + 1, dtype), nan=0.0, posinf=0.0) + vanished(count, dtype)


def _product_with_box(low: Array, high: Array, layout: Layout) -> Product[Sums]:
    """Sums of x @ W, for x in [low, high] (rows, k or 1) and a constant W (k, n)."""
    if low.shape[1] not in (1, layout.k) or not layout.n:
        raise UnknownRangeError
    return box_product(low, high, layout)


def _in_box(step: Step, found: Sums, count: int) -> Ends:
    """Bounds of sums of products in the type of the result."""
    error = product_error(found.size, count, step.dtypes[0])
    return summed(found.least - error, found.most + error, found.size, step.dtypes[0])


def matmul(step: Step, *, constant: bool = True) -> Interval:
    """A @ b; constant: the elements of a constant operand count, not only its interval."""
    left, right = (step.weights(index) if constant else None for index in range(2))
    a, b = (step.input(index).dims if each is None else step.dims_of(index) for index, each in enumerate((left, right)))
    if a is None and right is not None:
        return _by_weights(step, as_rows(step.input(0)), right, step.dims[0], 1)
    if not a or not b:
        raise UnknownRangeError
    dims = step.merged(_matmul_dims(a, b))
    if right is not None and len(b) == 2:
        return _by_weights(step, step.input(0), right, dims, 1)
    if left is not None and len(a) == 2 and len(b) >= 2:
        return _weights_first(step, left, dims)
    return _of_two(step, step.input(0), step.input(1), dims)


def as_rows(x: Interval) -> Interval:
    """A value of unknown rank as a matrix of unknown size, all of whose elements share one interval."""
    return with_bounds(x, np.asarray([[x.least]]), np.asarray([[x.greatest]]), (None, None))


def _matmul_dims(a: Dims, b: Dims) -> Dims:
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    batch = broadcast_dims(left[:-2], right[:-2]) or ()
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


def _by_weights(step: Step, x: Interval, weights: Weights, dims: Dims | None, index: int) -> Interval:
    """X @ W for a constant W (k, n), the operand number `index`."""
    layout = weights.layout
    low, high = x.low, x.high
    if math.prod(low.shape[:-1]) > _ROWS:
        low, high = joined_along(x, range(low.ndim - 1))
    lead, n = low.shape[:-1], layout.n
    box = ball = None
    if x.ball is None or not layout.is_large or not _is_no_narrower(x, x.ball, layout.k):
        box = _product_with_box(low.reshape(-1, low.shape[-1]), high.reshape(-1, high.shape[-1]), layout)
    if x.ball is not None:
        ball = ball_product(x.ball, layout)
    weights.compute(*(each for each in (box, ball) if each is not None))
    stored = step.input(index)
    if not _is_finite(stored):
        require_finite(weights.elements())
    most = np.full((math.prod(lead), n), np.inf)
    least, most = (-most, most) if box is None else _in_box(step, box.result, layout.k)
    if ball is not None:
        (lows, highs), size = ball.result
        error = product_error(size, layout.k + 3, step.dtypes[0])
        least, most = np.maximum(least, lows - error), np.minimum(most, highs + error)
    if x.weights_axis is not None and x.weights_axis == len(x.dims or ()) - 1:
        held = weights.elements()
        least, most = convex(step, held.min(axis=0), held.max(axis=0), layout.k, least, most)
    nan = x.nan or x.infinite
    shape = (*lead, n) if dims is None or len(dims) >= len(lead) + 1 else (n,)
    return step.result(least.reshape(shape), most.reshape(shape), dims, x, stored, nan=nan)


def _is_finite(stored: Interval) -> bool:
    return stored.finite and not (stored.nan or stored.infinite)


def _is_no_narrower(x: Interval, ball: Ball, k: int) -> bool:
    """True if the elements of x are bounded by half the ball at least, whose norm then is nearly always the better."""
    half = (np.broadcast_to(x.high, (*x.high.shape[:-1], k)) - np.broadcast_to(x.low, (*x.low.shape[:-1], k))) / 2
    return bool((half >= ball.radius * np.abs(np.broadcast_to(ball.scale, (k,))) / 2).all())


def convex(step: Step, low: Array, high: Array, count: int, least: Array, most: Array) -> Ends:
    """Bounds of weights that sum up to at most 1, times rows in [low, high]."""
    low, high = np.minimum(low.astype(np.float64), 0), np.maximum(high.astype(np.float64), 0)
    margin, error = 1 + 4 * sum_error(count + 1, step.dtypes[0]), vanished(count, step.dtypes[0])
    with np.errstate(all="ignore"):
        return np.maximum(least, low * margin - error), np.minimum(most, high * margin + error)


def _weights_first(step: Step, weights: Weights, dims: Dims | None) -> Interval:
    """W @ x for a constant W (m, k)."""
    x, turned = step.input(1), weights.transposed
    low, high = joined_along(x, [*range(x.low.ndim - 2), x.low.ndim - 1])
    product = _product_with_box(low.reshape(1, -1), high.reshape(1, -1), turned.layout)
    turned.compute(product)
    stored = step.input(0)
    if not _is_finite(stored):
        require_finite(weights.elements())
    lead = (1,) * (len(x.dims or ()) - 2)
    low, high = (each.reshape((*lead, -1, 1)) for each in _in_box(step, product.result, turned.layout.k))
    return step.result(low, high, dims, x, stored, nan=x.nan or x.infinite)


def _of_two(step: Step, a: Interval, b: Interval, dims: Dims | None) -> Interval:
    """A @ b, neither constant: k times the largest product, or each term of k where bounds differ along it."""
    assert a.dims is not None
    assert b.dims is not None
    k = a.dims[-1] if a.dims[-1] is not None else b.dims[-2 if len(b.dims) > 1 else 0]
    flag: dict[str, Any] = {"nan": a.nan or b.nan or a.infinite or b.infinite}
    weights = a.weights_axis is not None and a.weights_axis == len(a.dims) - 1
    low, high = _terms(a, b, k)
    size: Array = np.full((1,), np.inf)
    if k is not None:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(low), np.abs(high))
        error = product_error(size, k, step.dtypes[0])
        low, high = summed(low - error, high + error, size, step.dtypes[0])
    if weights and len(b.dims) >= 2:
        bl, bh = joined_along(b, [b.low.ndim - 2])
        low, high = convex(step, bl, bh, k or LONGEST, low, high)
        if k is None:
            flag["assumes"] = a.assumes | b.assumes | {LENGTHS}
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


def transposed(x: Interval) -> Interval:
    """The last two dimensions in the other order."""
    if x.dims is None or len(x.dims) < 2:
        return x
    dims = (*x.dims[:-2], x.dims[-1], x.dims[-2])
    return with_bounds(x, x.low.swapaxes(-1, -2), x.high.swapaxes(-1, -2), dims)


def gemm(step: Step) -> Interval:
    """Alpha A' B' + beta C."""
    a, weights = step.input(0), step.weights(1)
    alpha, beta = step.float("alpha", 1.0), step.float("beta", 1.0)
    a = as_rows(a) if a.dims is None else a
    if step.int("transA", 0):
        a = transposed(a)
    dtype = step.dtypes[0]
    rows = None if a.dims is None else a.dims[0]
    bare = replace(step, dims=[None])
    if weights is not None:
        matrix = weights.transposed if step.int("transB", 0) else weights
        columns = matrix.layout.n
        product = _by_weights(bare, a, matrix, (rows, columns), 1)
        b = step.input(1)
    else:
        b = step.input(1)
        b = as_rows(b) if b.dims is None else b
        right = transposed(b) if step.int("transB", 0) else b
        columns = (right.dims or (None, None))[-1]
        product = _of_two(bare, a, right, (rows, columns))
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
    error = product_error(np.maximum(np.abs(low), np.abs(high)), count + len(terms), step.dtypes[0])
    given = [each for each in step.inputs if each is not None]
    nan = any(each.nan or each.infinite for each in given)
    return step.result(low - error, high + error, tuple(sizes[each] for each in right), *given, nan=nan)


RULES: dict[str, Rule] = {
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": _einsum,
}
