"""Operators that compute each element of the result from the elements in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Interval, absolute, broadcast_dims, hull, kept_axis, with_bounds
from castsmith.ir.bounds.rounding import Array, is_float, is_integer, largest, limits_of, sum_error, with_slack
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError

Ends = tuple[Array, Array]


def aligned(*intervals: Interval) -> list[Ends]:
    """The bounds of operands, broadcast as the operands are; one interval each where a rank is unknown."""
    if any(each.dims is None for each in intervals):
        return [(np.asarray(each.least), np.asarray(each.greatest)) for each in intervals]
    return [(each.low, each.high) for each in intervals]


# Arithmetic.


def _add(step: Step, sign: int) -> Interval:
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


def products(a: Ends, b: Ends) -> Ends:
    """Bounds of the products of numbers; a bound of infinity stands for numbers without bound, so 0 times it is 0."""
    with np.errstate(all="ignore"):
        corners = [np.nan_to_num(x * y, nan=0.0, posinf=np.inf, neginf=-np.inf) for x in a for y in b]
    return np.minimum.reduce(np.broadcast_arrays(*corners)), np.maximum.reduce(np.broadcast_arrays(*corners))


def _mul(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    ends = aligned(a, b)
    dims = broadcast_dims(a.dims, b.dims)
    undefined = (a.infinite and _may_be_zero(b)) or (b.infinite and _may_be_zero(a))
    if step.value(0) is step.value(1):
        return step.result(*_square(*ends[0]), dims, a, nan=a.nan)
    low, high = products(*ends)
    axis = kept_axis(a, b) if b.least >= 0 and b.greatest <= 1 else None
    return step.result(low, high, dims, a, b, nan=a.nan or b.nan or undefined, weights_axis=axis)


def _may_be_zero(interval: Interval) -> bool:
    return bool(((interval.low <= 0) & (interval.high >= 0)).any())


def _square(low: Array, high: Array) -> Ends:
    nearest, farthest = absolute(low, high)
    with np.errstate(all="ignore"):
        return nearest * nearest, farthest * farthest


def _div(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    dims = broadcast_dims(a.dims, b.dims)
    if is_integer(step.dtypes[0]):
        return _integer_quotient(step, a, b)
    (al, ah), (bl, bh) = aligned(a, b)
    spans = (bl <= 0) & (bh >= 0)
    with np.errstate(all="ignore"):
        low, high = products((al, ah), (1 / np.where(spans, 1.0, bh), 1 / np.where(spans, 1.0, bl)))
        # a divisor of one sign that reaches 0 keeps the sign of the quotient
        positive, negative = spans & (bl >= 0), spans & (bh <= 0) & (bl < 0)
        least_low = np.where(al >= 0, 0.0, -np.inf)
        least_high = np.where(ah <= 0, 0.0, np.inf)
        low = np.where(positive, least_low, np.where(negative, -least_high, np.where(spans, -np.inf, low)))
        high = np.where(positive, least_high, np.where(negative, -least_low, np.where(spans, np.inf, high)))
    zero_by_zero = bool(spans.any()) and _may_be_zero(a)
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
    undefined = a.infinite or _may_be_zero(b)
    if is_integer(step.dtypes[0]) and undefined:
        return step.unbounded()
    return step.result(low, high, dims, a, b, nan=a.nan or b.nan or undefined)


def _pow(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    dims = broadcast_dims(a.dims, b.dims)
    exponent = b.least if b.least == b.greatest else None
    (low, high), _ = aligned(a, b)
    with np.errstate(all="ignore"):
        if exponent is not None and exponent == int(exponent) and exponent >= 0:
            if exponent % 2 == 0:
                nearest, farthest = _square(low, high)
                low, high = nearest ** (exponent / 2), farthest ** (exponent / 2)
            else:
                low, high = low**exponent, high**exponent
            infinite = a.infinite
            nan = a.nan
        elif exponent is not None and a.least >= 0:
            ends = (low**exponent, high**exponent)
            low, high = np.minimum(*ends), np.maximum(*ends)
            infinite, nan = a.infinite or (exponent < 0 and _may_be_zero(a)), a.nan
        elif a.least > 0:
            bl, bh = b.least, b.greatest
            corners = [x**y for x in (low, high) for y in (bl, bh)]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
            infinite, nan = a.infinite or b.infinite, a.nan or b.nan
        else:
            return step.unbounded(nan=True, infinite=True)
    if is_float(step.dtypes[0]):
        low, high = with_slack(low, high, step.dtypes[0])
        if (exponent is not None and exponent % 2 == 0) or a.least >= 0:
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


# Functions of one operand.


def _of_one(function: Callable[[Array], Array], within: tuple[float, float] | None = None, exact: bool = False) -> Rule:
    """A function that never decreases. within: what no implementation leaves."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        with np.errstate(all="ignore"):
            low, high = function(x.low), function(x.high)
        if not exact:
            low, high = with_slack(low, high, step.dtypes[0])
        if within is not None:
            low, high = np.clip(low, *within), np.clip(high, *within)
        infinite = x.infinite and not (np.isfinite(low).all() and np.isfinite(high).all())
        return step.result(low, high, x.dims, x, infinite=infinite)

    return rule


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _softsign(x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))


def _relu(step: Step) -> Interval:
    x = step.input(0)
    return step.result(np.maximum(x.low, 0), np.maximum(x.high, 0), x.dims, x, infinite=x.plus_infinity)


def _leaky(step: Step) -> Interval:
    x = step.input(0)
    alpha = step.float("alpha", 0.01)
    negative = products((np.minimum(x.low, 0), np.minimum(x.high, 0)), (np.asarray(alpha), np.asarray(alpha)))
    return step.result(*_by_sign(x, negative), x.dims, x)


def _prelu(step: Step) -> Interval:
    x, slope = step.input(0), step.input(1)
    (low, high), ends = aligned(x, slope)
    negative = products((np.minimum(low, 0), np.minimum(high, 0)), ends)
    low, high = _by_sign(with_bounds(x, low, high, x.dims), negative)
    return step.result(low, high, x.dims, x, slope)


def _by_sign(x: Interval, negative: Ends) -> Ends:
    """Keep positive elements; `negative` bounds the results of the others, or is 0 if all are positive."""
    low = np.where(x.low >= 0, x.low, np.minimum(negative[0], np.maximum(x.low, 0)))
    high = np.where(x.high <= 0, negative[1], np.maximum(negative[1], x.high))
    return low, high


def _elu(step: Step) -> Interval:
    kind = step.node.op_type
    alpha = step.float("alpha", {"Elu": 1.0, "Selu": 1.67326319217681884765625, "Celu": 1.0}[kind])
    gamma = step.float("gamma", 1.05070102214813232421875) if kind == "Selu" else 1.0
    divisor = alpha if kind == "Celu" else 1.0
    if alpha <= 0 or gamma <= 0:
        raise UnknownRangeError

    def function(v: Array) -> Array:
        return gamma * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0) / divisor))

    return _of_one(function)(step)  # pyright: ignore[reportReturnType]


def _thresholded(step: Step) -> Interval:
    x = step.input(0)
    alpha = step.float("alpha", 1.0)
    low = np.where(x.low > alpha, x.low, min(0.0, alpha))
    return step.result(low, np.maximum(x.high, 0), x.dims, x)


def _shrink(step: Step) -> Interval:
    x = step.input(0)
    bias = abs(step.float("bias", 0.0))
    low, high = np.minimum(x.low - bias, 0), np.maximum(x.high + bias, 0)
    return step.result(low, high, x.dims, x)


def _hard_sigmoid(step: Step) -> Interval:
    x = step.input(0)
    alpha, beta = step.float("alpha", 0.2), step.float("beta", 0.5)
    low, high = products((x.low, x.high), (np.asarray(alpha), np.asarray(alpha)))
    low, high = with_slack(low + beta, high + beta, step.dtypes[0])
    return step.result(np.clip(low, 0, 1), np.clip(high, 0, 1), x.dims, x, infinite=False)


def _gated(gate: Callable[[Array], Array], lowest: float) -> Rule:
    """x * gate(x) for a gate between 0 and 1 that never decreases. lowest: its least value."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        with np.errstate(all="ignore"):
            ends = [np.nan_to_num(v * gate(v), nan=0.0, posinf=np.inf, neginf=-np.inf) for v in (x.low, x.high)]
        ends = [np.where(np.isposinf(x.low), np.inf, ends[0]), np.where(np.isposinf(x.high), np.inf, ends[1])]
        low = np.where(x.low >= 0, ends[0], lowest)
        high = np.maximum(np.maximum(ends[0], ends[1]), 0.0)
        low, high = with_slack(low, high, step.dtypes[0])
        return step.result(low, high, x.dims, x, nan=x.nan or x.minus_infinity)

    return rule


def _tanh_gelu(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _erf_gelu(x: Array) -> Array:
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


def _gelu(step: Step) -> Interval:
    tanh = step.text("approximate", "none") == "tanh"
    return _gated(_tanh_gelu if tanh else _erf_gelu, -0.171)(step)  # pyright: ignore[reportReturnType]


def _mish(step: Step) -> Interval:
    return _gated(lambda x: np.tanh(_softplus(x)), -0.3089)(step)  # pyright: ignore[reportReturnType]


def _swish(step: Step) -> Interval:
    alpha = step.float("alpha", 1.0)
    if alpha <= 0:
        raise UnknownRangeError
    return _gated(lambda x: _sigmoid(alpha * x), -0.2785 / alpha)(step)  # pyright: ignore[reportReturnType]


def _hard_swish(step: Step) -> Interval:
    return _gated(lambda x: np.clip(x / 6 + 0.5, 0, 1), -0.3751)(step)  # pyright: ignore[reportReturnType]


def _bounded(low: float, high: float) -> Rule:
    """Whatever finite number comes in, the result is between the two."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        ends = with_slack(np.full(x.low.shape, low), np.full(x.low.shape, high), step.dtypes[0])
        return step.result(*ends, x.dims, x, nan=x.nan or x.infinite, infinite=False)

    return rule


def _log(step: Step) -> Interval:
    x = step.input(0)
    with np.errstate(all="ignore"):
        low, high = np.log(np.maximum(x.low, 0)), np.log(np.maximum(x.high, 0))
    low, high = with_slack(low, high, step.dtypes[0])
    zero = x.least <= 0
    return step.result(low, high, x.dims, x, nan=x.nan or x.least < 0, infinite=x.infinite or zero)


def _sqrt(step: Step) -> Interval:
    x = step.input(0)
    with np.errstate(all="ignore"):
        low, high = np.sqrt(np.maximum(x.low, 0)), np.sqrt(np.maximum(x.high, 0))
    return step.result(low, high, x.dims, x, nan=x.nan or x.least < 0)


def _reciprocal(step: Step) -> Interval:
    x = step.input(0)
    spans = (x.low <= 0) & (x.high >= 0)
    with np.errstate(all="ignore"):
        low = np.where(spans, np.where(x.low >= 0, 1 / x.high, -np.inf), 1 / np.where(spans, 1.0, x.high))
        high = np.where(spans, np.where(x.high <= 0, 1 / x.low, np.inf), 1 / np.where(spans, 1.0, x.low))
    return step.result(*with_slack(low, high, step.dtypes[0]), x.dims, x, infinite=bool(spans.any()))


def _abs(step: Step) -> Interval:
    x = step.input(0)
    return step.result(*absolute(x.low, x.high), x.dims, x)


def _neg(step: Step) -> Interval:
    x = step.input(0)
    return step.result(-x.high, -x.low, x.dims, x)


def _exact(function: Callable[[Array], Array]) -> Rule:
    return _of_one(function, exact=True)


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


def _sign(step: Step) -> Interval:
    x = step.input(0)
    return step.result(np.sign(x.low), np.sign(x.high), x.dims, x, infinite=False)


def _boolean(step: Step) -> Interval:
    dims = broadcast_dims(*(each.dims if each is not None else None for each in step.inputs))
    return step.result(np.zeros(()), np.ones(()), dims, nan=False, infinite=False)


def _round_to_even(x: Array) -> Array:
    return np.rint(x)


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


def _random(step: Step) -> Interval:
    if step.node.op_type.startswith("RandomUniform"):
        low, high = step.float("low", 0.0), step.float("high", 1.0)
        return step.result(np.asarray(low), np.asarray(high), step.dims[0], *_none(step))
    return step.unbounded()


def _none(step: Step) -> Sequence[Interval]:
    return [replace(step.unbounded(), nan=False, infinite=False)]


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
    "Add": lambda step: _add(step, 1),
    "Sub": lambda step: _add(step, -1),
    "Mul": _mul,
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "Sum": _sum,
    "Mean": _sum,
    "Max": _extreme(np.maximum),
    "Min": _extreme(np.minimum),
    "Exp": _of_one(np.exp, (0.0, math.inf)),
    "Tanh": _of_one(np.tanh),
    "Sigmoid": _of_one(_sigmoid, (0.0, 1.0)),
    "Erf": _of_one(_erf),
    "Softplus": _of_one(_softplus, (0.0, math.inf)),
    "Softsign": _of_one(_softsign),
    "Atan": _of_one(np.arctan),
    "Sinh": _of_one(np.sinh),
    "Asinh": _of_one(np.arcsinh),
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _elu,
    "Celu": _elu,
    "ThresholdedRelu": _thresholded,
    "Shrink": _shrink,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Gelu": _gelu,
    "Mish": _mish,
    "Swish": _swish,
    "Sin": _bounded(-1, 1),
    "Cos": _bounded(-1, 1),
    "Log": _log,
    "Sqrt": _sqrt,
    "Reciprocal": _reciprocal,
    "Abs": _abs,
    "Neg": _neg,
    "Ceil": _exact(np.ceil),
    "Floor": _exact(np.floor),
    "Round": _exact(_round_to_even),
    "Clip": _clip,
    "Sign": _sign,
    "Cast": _cast,
    "CastLike": _cast,
    "Where": _where,
    "Range": _range,
    "BitwiseAnd": _bitwise,
    "RandomUniform": _random,
    "RandomUniformLike": _random,
}


def boolean(step: Step) -> Interval:
    """Bounds of the result of a comparison, a question or logic."""
    return _boolean(step)


def joined(step: Step) -> Interval:
    """The hull of all operands."""
    return hull([each for each in step.inputs if each is not None])


def is_node(value: onnx_ir.Value | None, *op_types: str) -> onnx_ir.Node | None:
    """The node that makes the value, if it is of one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.domain in ("", "ai.onnx") and node.op_type in op_types else None
