"""Products of matrices: by the positive and negative weights of each output, and by norms.

An output of a constant matrix W is at most W+ high - W- low, which some input in the box reaches. Where the rows of the
operand are bounded in norm (after a normalization), it is also at most the norm of the column times that of the row.
"""

from __future__ import annotations

import math

import numpy as np

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    Ball,
    Bits,
    Ends,
    Interval,
    Shares,
    UnknownRangeError,
    aligned,
    collapsed,
    inherited,
    joined_along,
    number,
    products,
)
from castsmith.analysis.bounds.rounding import Array, is_float, vanished
from castsmith.analysis.bounds.rules.arithmetic import special_products, special_sums, special_totals
from castsmith.analysis.bounds.step import LENGTHS, LONGEST, Rule, Step, longest, require_finite, spoilt
from castsmith.analysis.bounds.weights import Weights

_ROWS = 64
"""Rows of an operand that are followed one by one."""


def matmul(step: Step, turned: tuple[bool, bool] = (False, False)) -> Interval:
    """A @ b. turned: operands whose last two dimensions are exchanged."""
    a, b = (transposed(step.input(index)) if turned[index] else step.input(index) for index in range(2))
    weights = step.weights(1)
    if () in (a.dims, b.dims):
        raise UnknownRangeError
    if weights is not None:
        return by_weights(step, a, weights.transposed if turned[1] else weights, 1)
    return _of_two(step, a, b)


def as_rows(x: Interval) -> Interval:
    """A value of unknown rank as a matrix of unknown size, all of whose elements share one entry."""
    return collapsed(x, (None, None))


def by_weights(step: Step, x: Interval, weights: Weights, index: int) -> Interval:
    """X @ W for a constant W (k, n), the operand number `index`."""
    layout, x = weights.layout, as_rows(x) if x.dims is None else x
    narrow = joined_along(x, range(x.low.ndim - 1)) if math.prod(x.low.shape[:-1]) > _ROWS else x
    lead, n, wide = narrow.low.shape[:-1], layout.n, narrow.low.shape[-1]
    if wide not in (1, layout.k):
        raise UnknownRangeError
    if not step.input(index).finite:
        require_finite(weights.elements())
    least, most = np.full((math.prod(lead), n), -np.inf), np.full((math.prod(lead), n), np.inf)
    assumes, over = x.assumes, np.asarray(ANYTHING)
    if x.ball is None or not layout.is_large or not _is_no_narrower(x, x.ball, layout.k):
        least, most, size = weights.box(narrow.low.reshape(-1, wide), narrow.high.reshape(-1, wide))
        if x.shares is not None and x.shares.axis == len(x.dims or ()) - 1:
            held = weights.elements()
            parts = held.min(axis=0, initial=0), held.max(axis=0, initial=0)  # there may be no part
            least, most, size = _shared(x.shares, parts, (least, most), size)
            assumes |= x.shares.assumes
        least, most, over = step.total(least, most, size, layout.k, x)
    if x.ball is not None:
        (lows, highs), size = weights.ball(x.ball)
        with np.errstate(all="ignore"):
            error = x.ball.slack * size
            lows, highs, overflowing = step.total(lows - error, highs + error, size, layout.k + 3, x)
        least, most, over = np.maximum(least, lows), np.minimum(most, highs), over & overflowing
    special: Bits = np.broadcast_to(spoilt(x) | over, least.shape)
    least, most = (end.reshape(*lead, n) for end in (least, most))
    return step.result(least, most, x, special=special.reshape(*lead, n), assumes=assumes)


def _is_no_narrower(x: Interval, ball: Ball, k: int) -> bool:
    """True if the elements of x are bounded by half the ball at least, whose norm then is nearly always the better."""
    half = (np.broadcast_to(x.high, (*x.high.shape[:-1], k)) - np.broadcast_to(x.low, (*x.low.shape[:-1], k))) / 2
    return bool((half >= ball.radius * np.abs(np.broadcast_to(ball.scale, (k,))) / 2).all())


def _shared(shares: Shares, parts: Ends, ends: Ends, size: Array) -> tuple[Array, Array, Array]:
    """Bounds of sums of the parts, each times its share, and of their absolute values, if they are less than before."""
    low, high = (part.astype(np.float64) for part in parts)
    with np.errstate(all="ignore"):
        most = np.maximum(np.abs(low), np.abs(high)) * shares.most
        low, high = np.minimum(low, 0) * shares.most, np.maximum(high, 0) * shares.most
    return np.maximum(ends[0], low), np.minimum(ends[1], high), np.minimum(size, most)


def _of_two(step: Step, a: Interval, b: Interval) -> Interval:
    """A @ b, neither constant: k times the largest product, or each term of k where bounds differ along it."""
    if a.dims is None or b.dims is None:
        return step.unbounded()
    k = a.dims[-1] if a.dims[-1] is not None else b.dims[-2 if len(b.dims) > 1 else 0]
    count, assumes = float(LONGEST if k is None else k), a.assumes | b.assumes
    low, high, size = _terms(a, b, count)
    if a.shares is not None and a.shares.axis == len(a.dims) - 1 and len(b.dims) >= 2:
        rows = joined_along(b, [b.low.ndim - 2])
        low, high, size = _shared(a.shares, (rows.low, rows.high), (low, high), size)
        assumes |= a.shares.assumes
    if k is None:
        assumes |= {LENGTHS}
    low, high, over = step.total(low, high, size, count, a, b)
    return step.result(low, high, a, b, special=spoilt(a, b) | over, assumes=assumes)


def _terms(a: Interval, b: Interval, count: float) -> tuple[Array, Array, Array]:
    """Bounds of the sums over k of the products, and of their absolute values, joined along all but the batch."""
    rows = joined_along(a, [a.low.ndim - 2]) if a.low.ndim > 1 else a
    columns = transposed(joined_along(b, [b.low.ndim - 1])) if b.low.ndim > 1 else b
    aligned(rows, columns)
    low, high = products((rows.low, rows.high), (columns.low, columns.high))
    times = 1.0 if low.shape[-1] == count else count
    with np.errstate(all="ignore"):
        sums = [
            terms.sum(axis=-1, keepdims=True) * times for terms in (low, high, np.maximum(np.abs(low), np.abs(high)))
        ]
    return sums[0], sums[1], sums[2]


def transposed(x: Interval) -> Interval:
    """The last two dimensions in the other order."""
    if x.dims is None or len(x.dims) < 2:
        return x
    return x.moved(lambda ends: ends.swapaxes(-1, -2), (*x.dims[:-2], x.dims[-1], x.dims[-2]))


def gemm(step: Step) -> Interval:
    """Alpha A' B' + beta C; a product that overflows does so before it is multiplied by alpha, or after."""
    a, weights = step.input(0), step.weights(1)
    alpha, beta = step.float("alpha", 1.0), step.float("beta", 1.0)
    if not is_float(step.dtypes[0]) and (alpha, beta) != (1, 1):
        return step.anything()
    a = as_rows(a) if a.dims is None else a
    if len(a.dims or ()) != 2:
        raise UnknownRangeError
    if step.int("transA", 0):
        a = transposed(a)
    rows = (a.dims or (None, None))[0]
    if weights is not None:
        matrix = weights.transposed if step.int("transB", 0) else weights
        columns, depth = matrix.layout.n, float(matrix.layout.k)
        step = step if step.dims[0] else step.shaped((rows, columns))
        product = by_weights(step, a, matrix, 1)
        b = step.input(1)
    else:
        b = step.input(1)
        b = as_rows(b) if b.dims is None else b
        right = transposed(b) if step.int("transB", 0) else b
        if right.dims is None or len(right.dims) != 2:
            raise UnknownRangeError
        columns, depth = right.dims[1], float(LONGEST if right.dims[0] is None else right.dims[0])
        step = step if step.dims[0] else step.shaped((rows, columns))
        product = _of_two(step, a, right)
    factor = number(alpha, product.dtype)
    low, high = products((product.low, product.high), (np.asarray(alpha), np.asarray(alpha)))
    special, size, operands = special_products(product, factor), np.maximum(np.abs(low), np.abs(high)), [product, a]
    c = step.optional(2)
    if c is not None:
        if c.dims is None or len(c.dims) > 2:
            c = collapsed(c, ())
        aligned(product, c)
        ends = products((c.low, c.high), (np.asarray(beta), np.asarray(beta)))
        special = special_sums(special, special_products(c, number(beta, c.dtype)))
        with np.errstate(all="ignore"):
            low, high, size = low + ends[0], high + ends[1], size + np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        operands.append(c)
    low, high, over = step.total(low, high, np.maximum(size, abs(alpha) * a.size), 4, *operands)
    # alpha A may be below the smallest normal number
    lost = vanished(depth, step.dtypes[0]) * b.size if alpha != 1 and b.bounded else 0.0
    return step.result(low - lost, high + lost, *operands, special=special | over)


def _einsum(step: Step) -> Interval:
    """Up to two operands: the number of terms of each sum times the largest product."""
    equation = step.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms, operands = left.split(","), step.operands
    if "." in equation or len(terms) != len(operands) or len(terms) > 2:
        return step.unbounded()
    if not arrow:
        letters = "".join(terms)
        right = "".join(letter for letter in letters if letters.count(letter) == 1)
    sizes: dict[str, int | None] = {}
    for term, operand in zip(terms, operands, strict=True):
        if operand.dims is None:
            return step.unbounded()
        if len(operand.dims) != len(term):
            raise UnknownRangeError
        for letter, dim in zip(term, operand.dims, strict=True):
            sizes[letter] = dim if sizes.get(letter) is None else sizes[letter]
    if not set(right) <= set(sizes):
        raise UnknownRangeError
    summed = [sizes[letter] for letter in sizes if letter not in right]
    count, assumes = longest(summed, range(len(summed)))
    low, high = np.ones(()), np.ones(())
    for operand in operands:
        low, high = products((low, high), (np.asarray(operand.least), np.asarray(operand.greatest)))
    shortest = 1.0 if None in summed else count
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(low), np.abs(high)) * count
        low, high = np.minimum(low * shortest, low * count), np.maximum(high * shortest, high * count)
    low, high, over = step.total(low, high, size, count + len(terms), *operands)
    facts = inherited(*operands)["assumes"] | assumes
    special = (spoilt(*operands) if len(operands) > 1 else special_totals(operands[0].bits)) | over
    return step.result(low, high, *operands, special=special, assumes=facts)


RULES: dict[str, Rule] = {
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": _einsum,
}
