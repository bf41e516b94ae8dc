"""Arithmetic of two and more operands, choices between operands, and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Interval, aligned, broadcast_dims, kept_axis, products, square
from castsmith.ir.bounds.rounding import Array, is_float, is_integer, largest, limits_of, sum_error, summed, with_slack
from castsmith.ir.bounds.rules.functions import swish
from castsmith.ir.bounds.step import Rule, Step


def add(step: Step, sign: int) -> Interval:
    a, b = step.input(0), step.input(1)
    (al, ah), (bl, bh) = aligned(a, b)
    if sign < 0:
        bl, bh = -bh, -bl
    same = sign < 0 and step.value(0) is step.value(1)
    opposite = (a.plus_infinity and (b.minus_infinity if sign > 0 else b.plus_infinity)) or (
        a.minus_infinity and (b.plus_infinity if sign > 0 else b.minus_infinity)
    )
    with np.errstate(all="ignore"):
        low, high = (al + bl, ah + bh) if not same or a.infinite else (np.zeros(()), np.zeros(()))
    return step.result(low, high, broadcast_dims(a.dims, b.dims), a, b, nan=a.nan or b.nan or opposite)


def multiply(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    ends = aligned(a, b)
    dims = broadcast_dims(a.dims, b.dims)
    undefined = (a.infinite and b.may_be_zero) or (b.infinite and a.may_be_zero)
    if step.value(0) is step.value(1):
        return step.result(*square(*ends[0]), dims, a, nan=a.nan)
    low, high = products(*ends)
    axis = kept_axis(a, b) if b.least >= 0 and b.greatest <= 1 else None
    return step.result(low, high, dims, a, b, nan=a.nan or b.nan or undefined, weights_axis=axis)


def _swiglu(step: Step) -> Interval:
    """SwiGLU: swish(a) * b."""
    gate, b = swish(replace(step, inputs=[step.input(0)])), step.input(1)
    undefined = (gate.infinite and b.may_be_zero) or (b.infinite and gate.may_be_zero)
    low, high = with_slack(*products(*aligned(gate, b)), step.dtypes[0])
    return step.result(low, high, broadcast_dims(gate.dims, b.dims), gate, b, nan=gate.nan or b.nan or undefined)


def divide(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    dims = broadcast_dims(a.dims, b.dims)
    if is_integer(step.dtypes[0]):
        return _integer_quotient(step, a, b)
    (al, ah), (bl, bh) = aligned(a, b)
    spans = (bl <= 0) & (bh >= 0)
    with np.errstate(all="ignore"):
        low, high = products((al, ah), (1 / np.where(spans, 1.0, bh), 1 / np.where(spans, 1.0, bl)))
    # a divisor of 0 has either sign: 1 / -0.0 is -inf
    low, high = np.where(spans, -np.inf, low), np.where(spans, np.inf, high)
    zero_by_zero = bool(spans.any()) and a.may_be_zero
    undefined = zero_by_zero or (a.infinite and b.infinite)
    infinite = a.infinite or bool(spans.any())
    return step.result(low, high, dims, a, b, nan=a.nan or b.nan or undefined, infinite=infinite)


def _integer_quotient(step: Step, a: Interval, b: Interval) -> Interval:
    (al, ah), (bl, bh) = aligned(a, b)
    if ((bl <= 0) & (bh >= 0)).any():
        return step.unbounded()
    with np.errstate(all="ignore"):
        corners = [np.trunc(x / y) for x in (al, ah) for y in (bl, bh)]
    low = np.minimum.reduce(np.broadcast_arrays(*corners))
    high = np.maximum.reduce(np.broadcast_arrays(*corners))
    return step.result(low - 1, high + 1, broadcast_dims(a.dims, b.dims), a, b)


def _mod(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    most = float(b.magnitude.max())
    dims = broadcast_dims(a.dims, b.dims)
    low = np.asarray(-most if b.least < 0 or (step.int("fmod", 0) and a.least < 0) else 0.0)
    high = np.asarray(most if b.greatest > 0 or step.int("fmod", 0) else 0.0)
    undefined = a.infinite or b.may_be_zero
    if is_integer(step.dtypes[0]) and undefined:
        return step.unbounded()
    return step.result(low, high, dims, a, b, nan=a.nan or b.nan or undefined)


def _pow(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    dims = broadcast_dims(a.dims, b.dims)
    exponent, negative = b.least if b.least == b.greatest else None, False
    (low, high), _ = aligned(a, b)
    with np.errstate(all="ignore"):
        if exponent is not None and exponent == int(exponent) and exponent >= 0:
            if exponent % 2 == 0:
                nearest, farthest = square(low, high)
                low, high = nearest ** (exponent / 2), farthest ** (exponent / 2)
            else:
                low, high = low**exponent, high**exponent
            infinite = a.infinite
            nan = a.nan
        elif exponent is not None and a.least >= 0:
            ends = (low**exponent, high**exponent)
            low, high = np.minimum(*ends), np.maximum(*ends)
            infinite, nan = a.infinite or (exponent < 0 and a.may_be_zero), a.nan
            negative = exponent < 0 and exponent % 2 == 1 and a.least == 0  # an odd power of -0.0 is -inf
            low = np.where(negative & (a.low <= 0), -np.inf, low)
        elif a.least > 0:
            bl, bh = b.least, b.greatest
            corners = [x**y for x in (low, high) for y in (bl, bh)]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
            infinite, nan = a.infinite or b.infinite, a.nan or b.nan
        else:
            return step.unbounded(nan=True, infinite=True)
    if is_float(step.dtypes[0]):
        low, high = with_slack(low, high, step.dtypes[0])
        if (exponent is not None and exponent % 2 == 0) or (a.least >= 0 and not negative):
            low = np.maximum(low, 0.0)
    return step.result(low, high, dims, a, b, nan=nan, infinite=infinite)


def _sum(step: Step) -> Interval:
    operands = [each for each in step.inputs if each is not None]
    total_low, total_high = np.zeros(()), np.zeros(())
    with np.errstate(all="ignore"):
        for low, high in aligned(*operands):
            total_low, total_high = total_low + low, total_high + high
    share = sum(float(each.magnitude.max(initial=0.0)) for each in operands)
    if step.node.op_type == "Mean":
        total_low, total_high = total_low / len(operands), total_high / len(operands)
    spread = 2 * share * sum_error(len(operands), step.dtypes[0])
    spread = spread if math.isfinite(spread) else 0.0
    total_low, total_high = summed(total_low, total_high, np.asarray(share), step.dtypes[0])
    nan = any(each.nan or each.infinite for each in operands)
    dims = broadcast_dims(*(each.dims for each in operands))
    return step.result(total_low - spread, total_high + spread, dims, *operands, nan=nan)


def _extreme(pick: Callable[[Array, Array], Array]) -> Rule:
    def rule(step: Step) -> Interval:
        operands = [each for each in step.inputs if each is not None]
        low, high = aligned(*operands)[0]
        for other_low, other_high in aligned(*operands)[1:]:
            low, high = pick(low, other_low), pick(high, other_high)
        return step.result(low, high, broadcast_dims(*(each.dims for each in operands)), *operands)

    return rule


def _clip(step: Step) -> Interval:
    x = step.input(0)
    low, high = x.low, x.high
    least: Interval | None
    if step.opset < 11:
        ends = step.float("min", -np.inf), step.float("max", np.inf)
        low, high = np.clip(low, *ends), np.clip(high, *ends)
        infinite = x.infinite and not (np.isfinite(low).all() and np.isfinite(high).all())
        return step.result(low, high, x.dims, x, infinite=infinite)
    least, most = step.optional(1), step.optional(2)
    if least is not None:
        low, high = np.maximum(low, least.least), np.maximum(high, least.greatest)
    if most is not None:
        low, high = np.minimum(low, most.least), np.minimum(high, most.greatest)
    infinite = x.infinite and not (np.isfinite(low).all() and np.isfinite(high).all())
    operands = [each for each in (x, least, most) if each is not None]
    return step.result(low, high, x.dims, *operands, infinite=infinite)


def boolean(step: Step) -> Interval:
    """Bounds of the result of a comparison, a question or logic."""
    dims = broadcast_dims(*(each.dims if each is not None else None for each in step.inputs))
    return step.result(np.zeros(()), np.ones(()), dims, nan=False, infinite=False)


def _cast(step: Step) -> Interval:
    x, to = step.input(0), step.dtypes[0]
    if to is None or x.dtype in (None, DataType.STRING) or to == DataType.STRING:
        return step.unbounded(nan=True, infinite=True)
    if to == DataType.BOOL:
        return step.result(np.zeros(()), np.ones(()), x.dims, x, nan=False, infinite=False)
    if is_float(to):
        kept = {"weights_axis": x.weights_axis, "ball": None}
        if to == DataType.FLOAT8E8M0:
            return step.unbounded(nan=True, infinite=False)
        if largest(to) < float(x.magnitude.max(initial=0.0)) and _saturates(to):
            if not step.int("saturate", 1):
                return step.unbounded(nan=True, infinite=True)
            low, high = np.clip(x.low, -largest(to), largest(to)), np.clip(x.high, -largest(to), largest(to))
            return step.result(low, high, x.dims, x, infinite=False, nan=x.nan)
        return step.result(x.low, x.high, x.dims, x, **kept)
    least, greatest = limits_of(to)
    inside = x.least > least - 1 and x.greatest < greatest + 1 and not x.nan and not x.infinite
    if not inside:
        return step.unbounded(nan=False, infinite=False)
    return step.result(np.trunc(x.low), np.trunc(x.high), x.dims, x)


def _saturates(dtype: DataType) -> bool:
    return largest(dtype) < largest(DataType.FLOAT16)


def _where(step: Step) -> Interval:
    condition, a, b = step.input(0), _bounded_by(step, 1, True), _bounded_by(step, 2, False)
    dims = broadcast_dims(condition.dims, a.dims, b.dims)
    (al, ah), (bl, bh) = aligned(a, b)
    chosen = [a, b]
    axis = kept_axis(a, b, condition) if b.least == b.greatest == 0 else None
    if axis is None and a.least == a.greatest == 0:
        axis = kept_axis(b, a, condition)
    low, high = np.minimum(al, bl), np.maximum(ah, bh)
    if condition.exact is not None and condition.dims is not None and None not in (a.dims, b.dims):
        low = np.where(condition.exact != 0, al, bl)
        high = np.where(condition.exact != 0, ah, bh)
    return step.result(low, high, dims, *chosen, weights_axis=axis)


def _bounded_by(step: Step, index: int, holds: bool) -> Interval:
    """An operand of Where, bounded by the comparison that chooses it: `Where (Less (x, c), x, y)`."""
    interval, value, condition = step.input(index), step.value(index), step.value(0)
    test = None if condition is None else condition.producer()
    if (
        test is None
        or not test.op_type.startswith(("Less", "Greater"))
        or value is None
        or value not in test.inputs[:2]
    ):
        return interval
    other = test.inputs[1] if test.inputs[0] is value else test.inputs[0]
    bound = None if other is None else step.known.get(other)
    if bound is None or other is value or bound.nan:
        return interval
    upper = test.op_type.startswith("Less") == (test.inputs[0] is value)
    if not holds:
        if interval.nan:
            return interval
        upper = not upper
    if upper:
        return replace(interval, high=np.minimum(interval.high, bound.greatest), nan=False if holds else interval.nan)
    return replace(interval, low=np.maximum(interval.low, bound.least), nan=False if holds else interval.nan)


def _range(step: Step) -> Interval:
    start, limit = step.input(0), step.input(1)
    low, high = min(start.least, limit.least), max(start.greatest, limit.greatest)
    exact = [step.input(i).exact for i in range(3)]
    if all(each is not None for each in exact):
        first, last, by = (float(each.reshape(-1)[0]) for each in exact if each is not None)
        count = max(0, math.ceil((last - first) / by)) if by else 0
        if is_integer(step.dtypes[0]) and count <= 4096:
            elements = first + by * np.arange(count, dtype=np.float64)
            return step.result(elements, elements, (count,), start, limit)
        return step.result(np.asarray([low]), np.asarray([high]), (count,), start, limit)
    return step.result(np.asarray([low]), np.asarray([high]), (None,), start, limit)


def _bitwise(step: Step) -> Interval:
    operands = [each for each in step.inputs if each is not None]
    if step.node.op_type == "BitwiseAnd" and all(each.least >= 0 for each in operands):
        most = min(each.greatest for each in operands)
        return step.result(np.zeros(()), np.asarray(most), broadcast_dims(*(e.dims for e in operands)), *operands)
    return step.unbounded()


RULES: dict[str, Rule] = {
    "Add": lambda step: add(step, 1),
    "Sub": lambda step: add(step, -1),
    "Mul": multiply,
    "Div": divide,
    "Mod": _mod,
    "Pow": _pow,
    "SwiGLU": _swiglu,
    "Sum": _sum,
    "Mean": _sum,
    "Max": _extreme(np.maximum),
    "Min": _extreme(np.minimum),
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "Where": _where,
    "Range": _range,
    "BitwiseAnd": _bitwise,
}
