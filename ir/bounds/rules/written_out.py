"""Add, Sub, Mul and Div, with what is known of normalizations and softmax that exporters write out in them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Ball, Interval, broadcast_dims, length_of, with_bounds
from castsmith.ir.bounds.patterns import (
    Standardized,
    exponentials_over_sum,
    inverse_root,
    is_node,
    root,
    same,
    shifted_by_maximum,
    standardized,
)
from castsmith.ir.bounds.rounding import sum_error, unit_roundoff
from castsmith.ir.bounds.rules.arithmetic import add, divide, multiply
from castsmith.ir.bounds.rules.normalization import known_row, normalized, weights_of
from castsmith.ir.bounds.step import Rule, Step

_LEAST_SWISH = -0.2785
"""The least value of x * sigmoid(x), near x = -1.2785."""


def _divided(step: Step) -> Interval:
    """Div, and what is known of a vector over its own norm, or of exponentials over their sum."""
    plain = divide(step)
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
    plain = multiply(step)
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
    plain = add(step, sign)
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
    found = normalized(step, x, count, scale, offset, ball=False, own=False)
    most = sum(float(part.magnitude.max(initial=0.0)) for part in parts)
    error = 4 * unit_roundoff(step.dtypes[0] or DataType.FLOAT) * most if math.isfinite(most) else 0.0
    if plain.dims != found.dims or len(parts) < 2:
        return plain
    low, high = np.maximum(plain.low, found.low - error), np.minimum(plain.high, found.high + error)
    return with_bounds(plain, low, high, plain.dims)


def _scaled(step: Step, plain: Interval, *, by: bool, sign: int = 1) -> Interval:
    for one, other in ((0, 1), (1, 0)):
        x, constant = step.input(one), step.input(other)
        row = known_row(constant, 0.0) if constant.dims and step.tensor(other) is not None else None
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
    "Div": _divided,
    "Mul": _multiplied,
    "Add": partial(_added, 1),
    "Sub": partial(_added, -1),
}
