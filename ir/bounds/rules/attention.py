"""Attention, recurrent layers and quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Interval, products
from castsmith.ir.bounds.rounding import (
    is_float,
    is_integer,
    largest,
    sum_error,
    unit_roundoff,
    vanished,
    with_slack,
)
from castsmith.ir.bounds.rules.normalization import NOT_MASKED
from castsmith.ir.bounds.step import LENGTHS, LONGEST, Rule, Step, UnknownRangeError


def convex_of_values(
    step: Step, q: Interval, k: Interval, v: Interval, masks: Sequence[Interval], past: Interval | None = None
) -> list[Interval]:
    """Attention: convex combinations of the values, and of those of the past."""
    dtype = step.dtypes[0] or DataType.FLOAT
    turns = None if v.dims is None or past is not None else v.dims[-2]
    margin = 1 + 8 * sum_error(LONGEST if turns is None else turns, dtype)
    least, most = min(v.least, 0.0), max(v.greatest, 0.0)
    given = [each for each in step.inputs if each is not None]
    if past is not None:
        least, most = min(least, past.least), max(most, past.greatest)
    error = vanished(LONGEST if turns is None else turns, dtype)
    low, high = np.asarray(least * margin - error), np.asarray(most * margin + error)
    width = (None if q.dims is None else q.dims[-1]) or LONGEST
    scores = float(q.magnitude.max(initial=0.0)) * float(k.magnitude.max(initial=0.0)) * width
    scores *= max(1.0, abs(step.float("scale", 1.0)))
    overflows = q.finite and k.finite and scores > largest(dtype)
    nan = overflows or any(each.nan or each.plus_infinity for each in given)
    assumes = frozenset[str]().union(*(each.assumes for each in given))
    assumes |= ({NOT_MASKED} if masks else set[str]()) | ({LENGTHS} if turns is None else set[str]())
    first = step.result(low, high, step.dims[0], *given, nan=nan, infinite=v.infinite, assumes=assumes)
    return [first, *(step.unbounded(index, nan=True) for index in range(1, len(step.node.outputs)))]


def _attention(step: Step) -> list[Interval]:
    masks = [each for each in (step.optional(3),) if each is not None]
    return convex_of_values(step, step.input(0), step.input(1), step.input(2), masks, step.optional(5))


def _recurrent(step: Step) -> list[Interval]:
    """LSTM and GRU with their default functions: hidden states are between -1 and 1."""
    if "activations" in step.node.attributes or "clip" in step.node.attributes:
        raise UnknownRangeError
    start = step.optional(5)
    most = 1.0 if start is None or step.node.op_type == "LSTM" else max(1.0, float(start.magnitude.max(initial=0.0)))
    given = [each for each in step.inputs if each is not None]
    nan = any(each.nan or each.infinite for each in given) or _gates_overflow(step, most)
    turns = _turns(step)
    most *= 1 + 4 * (turns or LONGEST) * unit_roundoff(step.dtypes[0] or DataType.FLOAT)
    results: list[Interval] = []
    for index in range(len(step.node.outputs)):
        if index == 2:
            results.append(_cell_state(step, given, nan))
            continue
        held = replace(step, dims=[step.dims[index]], dtypes=[step.dtypes[index]])
        ends = with_slack(np.asarray(-most), np.asarray(most), step.dtypes[index])
        if index == 1 and start is not None:
            ends = np.minimum(ends[0], start.least), np.maximum(ends[1], start.greatest)
        facts = {"nan": nan, "infinite": False, "assumes": _of_turns(turns, given)}
        results.append(held.result(*ends, step.dims[index], *given, **facts))
    return results


def _turns(step: Step) -> int | None:
    x = step.input(0)
    return None if x.dims is None else x.dims[1 if step.int("layout", 0) else 0]


def _of_turns(turns: int | None, given: Sequence[Interval]) -> frozenset[str]:
    assumes = frozenset[str]().union(*(each.assumes for each in given))
    return assumes if turns is not None else assumes | {LENGTHS}


def _gates_overflow(step: Step, state: float) -> bool:
    """True if a product of the weights may overflow: the gate is then infinity minus infinity."""
    x = step.input(0)
    total = 0.0
    parts = ((float(x.magnitude.max(initial=0.0)), step.input(1)), (state, step.input(2)))
    for most, weight in parts:
        width = (None if weight.dims is None else weight.dims[-1]) or LONGEST
        total += most * float(weight.magnitude.max(initial=0.0)) * width
    finite = x.finite and all(weight.finite for _, weight in parts)
    return finite and total > largest(step.dtypes[0] or DataType.FLOAT)


def _cell_state(step: Step, given: Sequence[Interval], nan: bool) -> Interval:
    """Each turn of an LSTM adds at most 1 to the magnitude of its cell state."""
    start = step.optional(6)
    found = _turns(step)
    turns = LONGEST if found is None else found
    most = turns + (0.0 if start is None else float(start.magnitude.max(initial=0.0)))
    most *= 1 + sum_error(2 * turns + 8, step.dtypes[2])
    held = replace(step, dims=[step.dims[2]], dtypes=[step.dtypes[2]])
    ends = with_slack(np.asarray(-most), np.asarray(most), step.dtypes[2])
    return held.result(*ends, step.dims[2], *given, nan=nan, infinite=False, assumes=_of_turns(found, given))


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


def _dynamic_quantize(step: Step) -> list[Interval]:
    """The scale is the range of x, extended to 0, over 255; ONNX Runtime takes 1 if all of x is 0."""
    x = step.input(0)
    held = replace(step, dims=[step.dims[1]], dtypes=[step.dtypes[1]])
    spread = max(x.greatest, 0.0) - min(x.least, 0.0)
    scale = spread / 255 if spread > largest(step.dtypes[1] or DataType.FLOAT) else max(spread / 255, 1.0)
    scale *= 1 + 4 * unit_roundoff(step.dtypes[1] or DataType.FLOAT)
    found = held.result(np.asarray(0.0), np.asarray(scale), step.dims[1], x, nan=x.nan or x.infinite)
    return [step.unbounded(0, nan=False, infinite=False), found, step.unbounded(2, nan=False, infinite=False)]


def _integer_product(step: Step) -> Interval:
    """MatMulInteger and ConvInteger: sums of constant weights times differences to the zero point, or anything."""
    x, zero, weights = step.input(0), step.optional(2), step.array(1)
    offset = step.array(3) if step.value(3) is not None else np.zeros(())
    if weights is None or offset is None or weights.ndim == 0:
        return step.unbounded(nan=False, infinite=False)
    convolves = step.node.op_type == "ConvInteger"
    offset = offset.astype(np.int64).reshape(-1, *(1,) * (weights.ndim - 1)) if convolves else offset.astype(np.int64)
    terms = weights.astype(np.int64) - offset
    axes = tuple(range(1, terms.ndim)) if convolves else max(terms.ndim - 2, 0)
    low = x.least - (0.0 if zero is None else zero.greatest)
    high = x.greatest - (0.0 if zero is None else zero.least)
    if convolves:  # terms of the padding are 0
        low, high = min(low, 0.0), max(high, 0.0)
    positive, negative = np.maximum(terms, 0).sum(axis=axes), np.minimum(terms, 0).sum(axis=axes)
    least, most = low * positive + high * negative, high * positive + low * negative
    ends = np.asarray(least.min(initial=0.0)), np.asarray(most.max(initial=0.0))
    return step.result(*ends, step.dims[0], x, nan=False, infinite=False)


RULES: dict[str, Rule] = {
    "Attention": _attention,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _integer_product,
    "ConvInteger": _integer_product,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
