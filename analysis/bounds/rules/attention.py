"""Attention, whose results are convex combinations of its values, and the rotation of its queries and keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    NAN,
    NONE,
    Interval,
    UnknownRangeError,
    collapsed,
    products,
)
from castsmith.analysis.bounds.rounding import is_float, largest, overflows, rounded, shrinking, unit_roundoff, vanished
from castsmith.analysis.bounds.step import LENGTHS, LONGEST, Rule, Step, spoilt

_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_RANKS = (3, 4)


@dataclass(frozen=True)
class Heads:
    """The operands of an attention.

    Attributes:
        query: The queries.
        keys: The keys, and those of the past.
        values: The values, and those of the past.
        mask: What is added to the scores, or a mask of bool.
        width: The number of terms of a score.
        scale: The factor of a score.
        narrowest: The type in which the scores are computed.
        turns: The number of keys in each part of the values; None where it is unknown.
    """

    query: Interval
    keys: list[Interval]
    values: list[Interval]
    mask: Interval | None
    width: float
    scale: float
    narrowest: DataType
    turns: list[int | None]


def _attention(step: Step) -> list[Interval]:
    """The combinations, and the keys and values including those of the past."""
    dtype = step.dtypes[0]
    keys, values = (
        [part for part in (step.input(index), step.optional(index + 3)) if part is not None] for index in (1, 2)
    )
    if not is_float(dtype) or any(
        operand.dtype != dtype or (operand.dims is not None and len(operand.dims) not in _RANKS)
        for operand in (step.input(0), *keys, *values)
    ):
        raise UnknownRangeError
    turns = [None if value.dims is None else value.dims[-2] for value in values]
    step.float("softcap", 0.0)
    query, types = step.input(0), (dtype, _precision(step, dtype))
    heads = Heads(
        query,
        keys,
        values,
        step.optional(3),
        _head_size(step, query),
        step.number("scale", 1.0),
        min(types, key=largest),
        turns,
    )
    return [combined(step, heads, max(types, key=unit_roundoff)), *held(step, heads)]


def combined(step: Step, heads: Heads, dtype: DataType, *, divided_last: bool = False) -> Interval:
    """Combinations of the values whose factors are a softmax of scores.

    Args:
        step: The node.
        heads: Its operands.
        dtype: The type of the roundings.
        divided_last: Kernels divide the sum by that of the exponentials, none of which exceeds 1, at the end.
    """
    inputs, values = step.operands, heads.values
    count = float(sum(LONGEST if length is None else length for length in heads.turns))
    assumes = frozenset[str]().union(*(operand.assumes for operand in inputs))
    assumes |= {LENGTHS} if None in heads.turns else frozenset[str]()
    # Probabilities sum up to 1 but for their roundings, and to 0 in a masked row.
    most = shrinking(count + 5, dtype) + vanished(count, dtype)
    low, high = (np.asarray(end * most) for end in (min(_least(values), 0.0), max(_greatest(values), 0.0)))
    low, high, over = step.total(low, high, np.maximum(-low, high), count, *values)
    special = spoilt(*values) | over | _of_scores(heads)
    if divided_last:
        size = max(-float(low), float(high)) * count
        special = special | (
            ANYTHING if overflows(size, count, dtype, bounded=all(x.bounded for x in values)) else NONE
        )
    return step.result(low, high, *inputs, special=special, assumes=assumes)


def held(step: Step, heads: Heads) -> list[Interval]:
    """The keys and the values including those of the past, which are the second and third output, and further ones."""
    rest = [
        step.picked(np.asarray(_least(parts)), np.asarray(_greatest(parts)), *parts, special=_bits(parts), index=index)
        for index, parts in ((1, heads.keys), (2, heads.values))
        if index < len(step.node.outputs)
    ]
    return [*rest, *(step.anything(index) for index in range(3, len(step.node.outputs)))]


def _least(parts: list[Interval]) -> float:
    return min(part.least for part in parts)


def _greatest(parts: list[Interval]) -> float:
    return max(part.greatest for part in parts)


def _bits(parts: list[Interval]) -> np.uint8:
    return np.bitwise_or.reduce([part.bits for part in parts])


def _of_scores(heads: Heads) -> np.uint8:
    """NaN, if a score may be NaN or infinity, or all scores of a row minus infinity."""
    query, keys, mask, scale = heads.query, heads.keys, heads.mask, heads.scale
    finite = all(operand.finite for operand in (query, *keys)) and scale >= 0
    bounded = all(operand.bounded for operand in (query, *keys))
    size = max(query.size, 1.0) * max(*(key.size for key in keys), 1.0) * heads.width * max(scale, 1.0) * 2
    over = overflows(size, 1, heads.narrowest, bounded=bounded)
    if mask is not None and mask.dtype != DataType.BOOL:
        finite = finite and mask.dtype == query.dtype and not (mask.nan.any() or mask.plus.any())
        total = np.asarray(size + mask.size)  # the largest number of the type masks, and a score rounds away beside it
        over |= bounded and mask.bounded and np.isinf(rounded(total, total, heads.narrowest)).any()
    return NAN if over or not finite or _may_mask_rows(mask) else NONE


def _precision(step: Step, dtype: DataType) -> DataType:
    """The type of the softmax."""
    number = step.int("softmax_precision", dtype)
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


def rotary(step: Step, first: int = 1) -> Interval:
    """Pairs of elements turned by an angle, whose cosine and sine are operands; those beyond `rotary_embedding_dim`.

    Args:
        step: The node.
        first: The index of the operand of cosines.
    """
    part = bool(step.int("rotary_embedding_dim", 0))
    return turned(step, step.input(0), step.input(first), step.input(first + 1), part=part)


def turned(step: Step, x: Interval, cosine: Interval, sine: Interval, *, part: bool) -> Interval:
    """Pairs of elements turned by an angle. part: some elements stay."""
    x, cosine, sine = (collapsed(operand, ()) for operand in (x, cosine, sine))
    a, b = products((x.low, x.high), (cosine.low, cosine.high)), products((x.low, x.high), (sine.low, sine.high))
    with np.errstate(all="ignore"):
        most = np.maximum(-b[0], b[1])
        low, high, size = a[0] - most, a[1] + most, x.magnitude * (cosine.magnitude + sine.magnitude)
    low, high, over = step.total(low, high, size, 2, x, cosine, sine)
    if part:
        low, high = np.minimum(low, x.low), np.maximum(high, x.high)
    return step.result(low, high, x, cosine, sine, special=spoilt(x, cosine, sine) | over)


RULES: dict[str, Rule] = {"Attention": _attention, "RotaryEmbedding": rotary}
