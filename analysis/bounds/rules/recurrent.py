"""Recurrent layers: an LSTM, whose hidden state is between -1 and 1."""

from __future__ import annotations

import math

import numpy as np

from castsmith.analysis.bounds.interval import ANYTHING, NAN, NONE, Interval, UnknownRangeError
from castsmith.analysis.bounds.rounding import overflows, slack
from castsmith.analysis.bounds.step import LONGEST, Rule, Step, longest

_MOST_EXPONENT = 700.0
"""Powers of e up to which float64 reaches."""
_RANK = 3
"""Turns, batches, and elements of each."""


def _lstm(step: Step) -> list[Interval]:
    """LSTM with its default functions. A gate is at most 1, and each turn adds at most 1 to the cell."""
    if "activations" in step.node.attributes or "clip" in step.node.attributes:
        raise UnknownRangeError
    x, dtype = step.input(0), step.dtypes[0]
    if x.dims is not None and len(x.dims) != _RANK:
        raise UnknownRangeError
    turns, assumes = longest(x.dims or (None,) * _RANK, [1 if step.int("layout", 0) else 0])
    one = 1 + 2 * sum(slack(dtype))
    hidden, cell = step.optional(5), step.optional(6)
    growth = math.exp(min(turns * math.log(one) * 2, _MOST_EXPONENT))
    most = ((0.0 if cell is None else cell.size) + turns * one**2) * growth
    special = NONE if all(operand.finite for operand in step.operands) else ANYTHING
    size, count = _gate_size(step, max(one**2, 0.0 if hidden is None else hidden.size), most)
    if overflows(size, count, dtype, bounded=all(operand.bounded for operand in step.operands)):
        special |= NAN
    sizes = [one**2, one**2, most]
    results: list[Interval] = []
    for index in range(len(step.node.outputs)):
        low, high = np.asarray(-sizes[index]), np.asarray(sizes[index])
        if index == 1 and hidden is not None:  # of a sequence of no element
            low, high = np.minimum(low, hidden.least), np.maximum(high, hidden.greatest)
        assumed = assumes.union(*(operand.assumes for operand in step.operands))
        results.append(step.result(low, high, *step.operands, special=special, index=index, assumes=assumed))
    return results


def _gate_size(step: Step, state: float, cell: float) -> tuple[float, float]:
    """The largest sum of absolute values in a gate, which is NaN where parts of it overflow, and how many these are."""
    total, count = 0.0, 0.0
    for size, index in ((step.input(0).size, 1), (state, 2)):
        weights = step.input(index)
        width = float(weights.dims[-1] or LONGEST) if weights.dims else float(LONGEST)
        total, count = total + size * weights.size * width, count + width
    bias, peepholes = step.optional(3), step.optional(7)
    total += (0.0 if bias is None else 2 * bias.size) + (0.0 if peepholes is None else peepholes.size * cell)
    return total, count + 3


RULES: dict[str, Rule] = {"LSTM": _lstm}
