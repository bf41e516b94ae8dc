"""Attention, whose results are convex combinations of its values, and the rotation of its queries and keys."""

from __future__ import annotations

import math

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    NAN,
    NONE,
    Interval,
    UnknownRangeError,
    collapsed,
    products,
)
from castsmith.analysis.bounds.rounding import is_float, largest, overflows, rounded, shrinking, vanished
from castsmith.analysis.bounds.step import LENGTHS, LONGEST, Rule, Step, spoilt

_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_RANKS = (3, 4)


def _attention(step: Step) -> list[Interval]:
    """The combinations, and the keys and values including those of the past."""
    dtype, inputs = step.dtypes[0], step.operands
    keys, values = (
        [each for each in (step.input(index), step.optional(index + 3)) if each is not None] for index in (1, 2)
    )
    if dtype is None or any(each.dtype != dtype or not _is_ranked(each) for each in (step.input(0), *keys, *values)):
        raise UnknownRangeError
    turns = [None if each.dims is None else each.dims[-2] for each in values]
    count = float(sum(LONGEST if each is None else each for each in turns))
    assumes = frozenset[str]().union(*(each.assumes for each in inputs))
    assumes |= {LENGTHS} if None in turns else frozenset[str]()
    # Probabilities sum up to 1 but for their roundings, and to 0 in a masked row.
    most = shrinking(count + 5, dtype) + vanished(count, dtype)
    low, high = (np.asarray(end * most) for end in (min(_least(values), 0.0), max(_greatest(values), 0.0)))
    low, high, over = step.total(low, high, np.maximum(-low, high), count, *values)
    special = spoilt(*values) | over | _of_scores(step, keys, dtype)
    first = step.result(low, high, step.dims[0], *inputs, special=special, assumes=assumes)
    rest = [
        step.picked(
            np.asarray(_least(held)), np.asarray(_greatest(held)), None, *held, special=_bits(held), index=index
        )
        for index, held in ((1, keys), (2, values))
        if index < len(step.node.outputs)
    ]
    return [first, *rest, *(step.anything(index) for index in range(3, len(step.node.outputs)))]


def _is_ranked(x: Interval) -> bool:
    return x.dtype in _TYPES and (x.dims is None or len(x.dims) in _RANKS)


def _least(parts: list[Interval]) -> float:
    return min(each.least for each in parts)


def _greatest(parts: list[Interval]) -> float:
    return max(each.greatest for each in parts)


def _bits(parts: list[Interval]) -> np.uint8:
    return np.bitwise_or.reduce([each.bits for each in parts])


def _of_scores(step: Step, keys: list[Interval], dtype: DataType) -> np.uint8:
    """NaN, if a score may be NaN or infinity, or all scores of a row minus infinity."""
    query, mask = step.input(0), step.optional(3)
    width, scale = _head_size(step, query), step.number("scale", 1.0)
    finite = all(each.finite for each in (query, *keys)) and scale >= 0 and math.isfinite(step.float("softcap", 0.0))
    known = all(each.bounded for each in (query, *keys))
    narrowest = min((dtype, _precision(step, dtype)), key=largest)
    size = max(query.size, 1.0) * max(*(each.size for each in keys), 1.0) * width * max(scale, 1.0) * 2
    over = overflows(size, 1, narrowest, known=known)
    if mask is not None and mask.dtype != DataType.BOOL:
        finite = finite and mask.dtype == dtype and not (mask.nan.any() or mask.plus.any())
        total = size + mask.size  # the largest number of the type masks, and a score rounds away beside it
        known = known and mask.bounded
        over |= np.isinf(rounded(np.asarray(-total), np.asarray(total), narrowest)).any() and (
            known or math.isfinite(total)
        )
    return NAN if over or not finite or _may_mask_rows(mask) else NONE


def _precision(step: Step, dtype: DataType) -> DataType:
    """The type of the softmax."""
    number = step.int("softmax_precision", int(dtype))
    if number not in _TYPES:
        raise UnknownRangeError
    return DataType(number)


def _head_size(step: Step, query: Interval) -> float:
    """The number of terms of a score."""
    if query.dims is None or query.dims[-1] is None:
        return float(LONGEST)
    return float(query.dims[-1] // (max(step.int("q_num_heads", 1), 1) if len(query.dims) == 3 else 1))


def _may_mask_rows(mask: Interval | None) -> bool:
    """True if a row may be masked throughout: that gives NaN, or 0 in newer releases of onnx."""
    if mask is None:
        return False
    return mask.least <= 0 if mask.dtype == DataType.BOOL else bool(mask.minus.any())


def _rotary(step: Step) -> Interval:
    """Pairs of elements turned by an angle, whose cosine and sine are operands; those beyond `rotary_embedding_dim`."""
    x, cosine, sine = (collapsed(step.input(index), ()) for index in range(3))
    if not is_float(step.dtypes[0]):
        raise UnknownRangeError
    a, b = products((x.low, x.high), (cosine.low, cosine.high)), products((x.low, x.high), (sine.low, sine.high))
    with np.errstate(all="ignore"):
        most = np.maximum(-b[0], b[1])
        low, high, size = a[0] - most, a[1] + most, x.magnitude * (cosine.magnitude + sine.magnitude)
    low, high, over = step.total(low, high, size, 2, x, cosine, sine)
    if step.int("rotary_embedding_dim", 0):
        low, high = np.minimum(low, x.low), np.maximum(high, x.high)
    return step.result(low, high, step.input(0).dims, x, cosine, sine, special=spoilt(x, cosine, sine) | over)


RULES: dict[str, Rule] = {"Attention": _attention, "RotaryEmbedding": _rotary}
