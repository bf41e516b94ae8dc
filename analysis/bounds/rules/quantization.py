"""Quantization: integers, and what they stand for."""

from __future__ import annotations

import math

import numpy as np

from castsmith.analysis.bounds.interval import ANYTHING, NAN, NONE, PLUS, Interval, products
from castsmith.analysis.bounds.rounding import is_float, largest, limits_of, unit_roundoff
from castsmith.analysis.bounds.step import Rule, Step, spoilt

_LEVELS = 255
"""Steps of an unsigned byte."""
_WRAPPED = 2.0**32
"""Differences of 32-bit integers lie below it, also if they wrap round."""


def _quantize(step: Step) -> Interval:
    """Return the range of the type: integers and float8 types saturate, unless the attribute says otherwise."""
    dtype, x, scale = step.dtypes[0], step.input(0), step.input(1)
    if dtype is None or not step.int("saturate", 1):
        return step.anything()
    if not is_float(dtype):
        least, most = (np.asarray(end) for end in limits_of(dtype))
        return step.picked(least, most, x, scale)
    most = np.asarray(largest(dtype))
    nan = not (x.finite and scale.finite) or scale.zero.any()
    return step.result(-most, most, x, scale, special=NAN if nan else NONE)


def _dequantize(step: Step) -> Interval:
    """(x - zero point) * scale: a difference that may be rounded to the type of the scale, and one more rounding."""
    x, scale, zero, dtype = step.input(0), step.input(1), step.optional(2), step.dtypes[0]
    if not is_float(dtype):
        return step.anything()
    least, most = x.least, x.greatest
    if zero is not None:
        least, most = least - zero.greatest, most - zero.least
    if max(-least, most) >= _WRAPPED / 2:  # of int32
        least, most = -_WRAPPED, _WRAPPED
    operands = [operand for operand in (x, scale, zero) if operand is not None]
    low, high = products((np.asarray(least), np.asarray(most)), (np.asarray(scale.least), np.asarray(scale.greatest)))
    with np.errstate(all="ignore"):
        error = np.maximum(np.abs(low), np.abs(high)) * 2 * unit_roundoff(dtype)
    special = spoilt(*operands) | (ANYTHING if max(-least, most) > largest(dtype) else NONE)
    return step.result(low - error, high + error, *operands, special=special)


def _dynamic_quantize(step: Step) -> list[Interval]:
    """The scale is the range of x, extended to 0, over 255; ONNX Runtime takes 1 if all of x is 0."""
    x, dtype = step.input(0), step.dtypes[1]
    if not x.finite or not is_float(dtype):
        return [step.anything(index) for index in range(3)]
    spread = max(x.greatest, 0.0) - min(x.least, 0.0)
    scale = max(spread / _LEVELS, 1.0) * (1 + 4 * unit_roundoff(dtype))
    special = PLUS if x.bounded and spread * (1 + unit_roundoff(dtype)) > largest(dtype) else NONE
    result = step.result(np.zeros(()), np.asarray(scale), x, special=special, index=1)
    return [step.anything(0), result, step.anything(2)]


def _integer_product(step: Step) -> Interval:
    """MatMulInteger and ConvInteger: sums of constant weights times differences to the zero point, or anything."""
    x, zero, weights = step.input(0), step.optional(2), step.array(1)
    offset = step.array(3) if step.value(3) is not None else np.zeros((), np.int64)
    if weights is None or offset is None or weights.ndim < 2:
        return step.anything()
    convolves, offset = step.node.op_type == "ConvInteger", offset.astype(np.int64)
    if offset.size > 1 and offset.size != (len(weights) if convolves else weights.shape[-1]):
        return step.anything()
    offset = offset.reshape((-1, *(1,) * (weights.ndim - 1)) if convolves else (-1,))
    terms = weights.astype(np.int64) - offset
    axes = tuple(range(1, terms.ndim)) if convolves else terms.ndim - 2
    low = x.least - (0.0 if zero is None else zero.greatest)
    high = x.greatest - (0.0 if zero is None else zero.least)
    if convolves:  # terms of the padding are 0
        low, high = min(low, 0.0), max(high, 0.0)
    positive, negative = np.maximum(terms, 0).sum(axis=axes), np.minimum(terms, 0).sum(axis=axes)
    least, most = low * positive + high * negative, high * positive + low * negative
    ends = np.asarray(float(least.min(initial=math.inf))), np.asarray(float(most.max(initial=-math.inf)))
    return step.result(*ends, x) if least.size else step.anything()


RULES: dict[str, Rule] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _integer_product,
    "ConvInteger": _integer_product,
}
