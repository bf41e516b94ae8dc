"""Add, Sub, Mul and Div, with what is known of normalizations that exporters write out in them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from castsmith.analysis.bounds.interval import Ball, Interval, UnknownRangeError
from castsmith.analysis.bounds.patterns import (
    Root,
    Standardized,
    inverse_root,
    is_node,
    root,
    same,
    standardized,
)
from castsmith.analysis.bounds.rounding import is_float, largest, slack, smallest, unit_roundoff
from castsmith.analysis.bounds.rules.arithmetic import add, divide, multiply
from castsmith.analysis.bounds.rules.normalization import (
    known_row,
    radius_of,
    scaled_rows,
    sound_ball,
    with_ball,
)
from castsmith.analysis.bounds.step import Rule, Step, axis_of, longest

_LEAST_SWISH = -0.2785
"""The least value of x * sigmoid(x), near x = -1.2785."""
_MOST_SLACK = 2.0**10
"""Growth of the slack of a ball, where its offset is cancelled, up to which it is kept."""


def _divided(step: Step) -> Interval:
    """Div, and what is known of a vector over its own norm."""
    plain, norm = divide(step), root(step.value(1), step.intervals)
    if norm is None or not same(norm.source, step.value(0), step.intervals):
        return plain
    return _over_norm(step, plain, step.input(0), norm, step.input(1).least)


def _multiplied(step: Step) -> Interval:
    """Mul, and what is known of a vector times the reciprocal of its own norm; a ball that is scaled."""
    plain = multiply(step)
    for one, other in ((0, 1), (1, 0)):
        norm = inverse_root(step.value(other), step.intervals)
        if norm is not None and same(norm.source, step.value(one), step.intervals):
            return _over_norm(step, plain, step.input(one), norm, _least_norm(step.input(other)))
        gate = is_node(step.value(other), "Sigmoid")
        if gate is not None and same(gate.inputs[0], step.value(one), step.intervals):
            return _gated(step, plain, step.input(one))
    return _scaled(step, plain, by=True)


def _gated(step: Step, plain: Interval, x: Interval) -> Interval:
    """X * sigmoid(x), which has a least value, but for the error of the sigmoid."""
    relative, absolute = slack(step.dtypes[0])
    with np.errstate(invalid="ignore"):
        least = _LEAST_SWISH * (1 + relative) - absolute * np.maximum(-x.low, 0)
    return replace(plain, low=np.maximum(plain.low, least))


def _least_norm(inverse: Interval) -> float:
    """The least norm whose reciprocal is in the interval; 0 if it may be infinite."""
    if inverse.plus.any() or not inverse.greatest > 0:
        return 0.0
    return 1 / (inverse.greatest * (1 + 2.0**-8))


def _added(sign: int, step: Step) -> Interval:
    """Add or Sub, and a ball that is moved."""
    plain = add(step, sign)
    form = standardized(step.node, step.intervals) if sign > 0 else None
    if form is not None:
        return _standardized(step, plain, form)
    return _scaled(step, plain, by=False, sign=sign)


def _radius(x: Interval, norm: Root, least: float) -> tuple[float, list[int], frozenset[str]] | None:
    """The largest element of x over its norm, along which axes that is, and what it assumes."""
    if x.dims is None:
        return None
    axes = [*range(len(x.dims))] if norm.axes is None else [axis_of(axis, len(x.dims)) for axis in norm.axes]
    terms, assumes = longest(x.dims, axes)
    reciprocal = smallest(norm.coarsest) * largest(norm.coarsest)  # the rounding of the reciprocal of a large norm
    radius = radius_of(terms if norm.mean else 1.0, terms, norm.coarsest, max(least, 0.0) ** 2) * (1 + reciprocal)
    return radius, axes, assumes


def _over_norm(step: Step, plain: Interval, x: Interval, norm: Root, least: float) -> Interval:
    """The elements of rows over their norm, which is at least `least`."""
    bound, dtype = _radius(x, norm, least), step.dtypes[0]
    if bound is None or plain.dims != x.dims or not is_float(dtype):
        return plain
    radius, axes, assumes = bound
    most = radius * (1 + 8 * unit_roundoff(dtype)) + smallest(dtype)
    low, high = np.clip(plain.low, -most, most), np.clip(plain.high, -most, most)
    held = replace(plain, low=low, high=high, assumes=plain.assumes | assumes)
    return with_ball(step, held, radius, None, None) if axes == [len(x.dims or ()) - 1] else held


def _standardized(step: Step, plain: Interval, form: Standardized) -> Interval:
    """By the norm; the roundings of the two products count, which are larger than their difference."""
    values = form.x, form.offset, form.factor, *form.products
    x, offset, factor, *parts = (step.intervals[value] for value in values)
    bound, dtype = _radius(x, form.norm, _least_norm(factor)), step.dtypes[0]
    if bound is None or plain.dims != x.dims or not is_float(dtype):
        return plain
    radius, _, assumes = bound
    scale = None if form.scale is None else step.intervals[form.scale]
    unit = max(unit_roundoff(dtype), unit_roundoff(form.norm.coarsest))
    most = 3 * unit * sum(part.size for part in (*parts, offset)) + 8 * smallest(dtype)
    try:
        rows = scaled_rows(step, x, radius, scale, offset, plain.special)
    except UnknownRangeError:
        return plain
    low, high = np.maximum(plain.low, rows.low - most), np.minimum(plain.high, rows.high + most)
    return replace(
        plain, low=low, high=high, special=np.broadcast_to(plain.special, low.shape), assumes=plain.assumes | assumes
    )


def _scaled(step: Step, plain: Interval, *, by: bool, sign: int = 1) -> Interval:
    """The ball of the rows after a row is multiplied or added."""
    dtype = step.dtypes[0]
    for one, other in ((0, 1), (1, 0)):
        x, constant = step.input(one), step.input(other)
        row = known_row(constant, 0.0)
        if constant.dims == () and constant.exact is not None:
            row = constant.low.reshape(1)
        if x.ball is None or row is None or dtype is None or (sign < 0 and one == 1) or plain.dims != x.dims:
            continue
        ball, unit = x.ball, unit_roundoff(dtype)
        slack = (1 + ball.slack) * (1 + unit) - 1
        if by:
            moved = Ball(ball.radius, ball.scale * row, ball.offset * row, slack)
        else:
            offset, size = ball.offset + sign * row, np.abs(ball.scale) * ball.radius
            with np.errstate(all="ignore"):
                growth = float(np.max(np.nan_to_num((size + np.abs(ball.offset)) / (size + np.abs(offset)), nan=1.0)))
            if not growth < _MOST_SLACK:
                continue
            moved = Ball(ball.radius, ball.scale, offset, slack * max(growth, 1.0))
        return replace(plain, ball=sound_ball(moved, dtype))
    return plain


RULES: dict[str, Rule] = {
    "Div": _divided,
    "Mul": _multiplied,
    "Add": partial(_added, 1),
    "Sub": partial(_added, -1),
}
