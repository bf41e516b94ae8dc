"""Operators that take, join or replace parts: places keep their bounds where the parts are known."""

from __future__ import annotations

import numpy as np

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    NONE,
    Interval,
    UnknownRangeError,
    collapsed,
    joined_along,
    number,
    with_dims,
)
from castsmith.analysis.bounds.rounding import is_float, largest, unit_roundoff
from castsmith.analysis.bounds.step import Rule, Step, along, axis_of


def _pad(step: Step) -> Interval:
    x = step.input(0)
    mode = step.text("mode", "constant")
    pads = step.ints("pads") or step.ints("paddings") or step.integers(1)
    rank = len(x.dims or ())
    axes = None if x.dims is None else step.axes(rank, "axes", 3)
    axes = list(range(rank)) if axes is None else axes
    dims, padded = step.dims[0], axes
    if pads is not None and x.dims is not None:
        if len(pads) != 2 * len(axes):
            raise UnknownRangeError
        padded = [axis for index, axis in enumerate(axes) if pads[index] or pads[index + len(axes)]]
    spread = collapsed(x, dims) if x.dims is None else joined_along(x, padded)
    if mode != "constant" or (x.dims is not None and not padded):
        return with_dims(spread, dims)
    filling = step.optional(2) or number(step.number("value", 0.0), x.dtype)
    low, high = np.minimum(spread.low, filling.least), np.maximum(spread.high, filling.greatest)
    return step.picked(low, high, x, filling, special=spread.special | filling.bits)


def _one_hot(step: Step) -> Interval:
    """The two values, or `off + (on - off) * 0 or 1` as some runtimes compute."""
    values, dtype = step.input(2), step.dtypes[0]
    if not is_float(dtype):
        return collapsed(values, step.dims[0])
    error = np.asarray(8 * unit_roundoff(dtype) * values.size)
    spoilt = not values.finite or 2 * values.size > largest(dtype)
    with np.errstate(over="ignore"):
        low, high = np.asarray(values.least) - error, np.asarray(values.greatest) + error
    return step.result(low, high, values, special=ANYTHING if spoilt else NONE)


def _top_k(step: Step) -> list[Interval]:
    """Elements along an axis, and where they were."""
    x = step.input(0)
    axes = None if x.dims is None else [axis_of(step.int("axis", -1), len(x.dims))]
    values = along(x, step.dims[0], axes)
    return [values, *(step.anything(index) for index in range(1, len(step.node.outputs)))]


RULES: dict[str, Rule] = {
    "Pad": _pad,
    "OneHot": _one_hot,
    "TopK": _top_k,
}
