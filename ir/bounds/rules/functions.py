"""Functions of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Ends, Interval, absolute, aligned, products, with_bounds
from castsmith.ir.bounds.rounding import Array, largest, with_slack
from castsmith.ir.bounds.step import Rule, Step, UnknownRangeError


def _of_one(
    function: Callable[[Array], Array], within: tuple[float, float] | None = None, exact: bool = False
) -> Callable[[Step], Interval]:
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


def _softsign(step: Step) -> Interval:
    """X / (1 + |x|), NaN for an infinity."""
    x = step.input(0)
    with np.errstate(all="ignore"):
        low, high = (np.where(np.isinf(each), np.sign(each), each / (1 + np.abs(each))) for each in (x.low, x.high))
    ends = with_slack(low, high, step.dtypes[0])
    return step.result(*ends, x.dims, x, nan=x.nan or x.infinite, infinite=False)


def _relu(step: Step) -> Interval:
    x = step.input(0)
    return step.result(np.maximum(x.low, 0), np.maximum(x.high, 0), x.dims, x, infinite=x.plus_infinity)


def _leaky(step: Step) -> Interval:
    x = step.input(0)
    alpha = step.float("alpha", 0.01)
    negative = products((np.minimum(x.low, 0), np.minimum(x.high, 0)), (np.asarray(alpha), np.asarray(alpha)))
    nan = x.nan or (alpha == 0 and x.minus_infinity)
    return step.result(*_by_sign(x, negative), x.dims, x, nan=nan)


def _prelu(step: Step) -> Interval:
    x, slope = step.input(0), step.input(1)
    (low, high), ends = aligned(x, slope)
    negative = products((np.minimum(low, 0), np.minimum(high, 0)), ends)
    low, high = _by_sign(with_bounds(x, low, high, x.dims), negative)
    undefined = (slope.infinite and bool((x.low <= 0).any())) or (x.minus_infinity and slope.may_be_zero)
    return step.result(low, high, x.dims, x, slope, nan=x.nan or slope.nan or undefined)


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

    return _of_one(function)(step)


def _thresholded(step: Step) -> Interval:
    x = step.input(0)
    alpha = step.float("alpha", 1.0)
    low = np.where(x.low > alpha, x.low, min(0.0, alpha))
    return step.result(low, np.maximum(x.high, 0), x.dims, x)


def _shrink(step: Step) -> Interval:
    x = step.input(0)
    bias = abs(step.float("bias", 0.0))
    low, high = np.minimum(x.low - bias, 0), np.maximum(x.high + bias, 0)
    if step.dtypes[0] == DataType.DOUBLE:  # computed in float by ONNX Runtime
        if max(-low.min(initial=0.0), high.max(initial=0.0)) > largest(DataType.FLOAT):
            raise UnknownRangeError
        low, high = with_slack(low, high, DataType.FLOAT)
    return step.result(low, high, x.dims, x)


def _hard_sigmoid(step: Step) -> Interval:
    x = step.input(0)
    alpha, beta = step.float("alpha", 0.2), step.float("beta", 0.5)
    low, high = products((x.low, x.high), (np.asarray(alpha), np.asarray(alpha)))
    low, high = with_slack(low + beta, high + beta, step.dtypes[0])
    return step.result(np.clip(low, 0, 1), np.clip(high, 0, 1), x.dims, x, infinite=False)


def _gated(gate: Callable[[Array], Array], lowest: float) -> Callable[[Step], Interval]:
    """X * gate(x) for a gate between 0 and 1 that never decreases. lowest: its least value."""

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


def gelu(step: Step, *, tanh: bool | None = None) -> Interval:
    tanh = step.text("approximate", "none") == "tanh" if tanh is None else tanh
    return _gated(_tanh_gelu if tanh else _erf_gelu, -0.171)(step)


def _mish(step: Step) -> Interval:
    return _gated(lambda x: np.tanh(_softplus(x)), -0.3089)(step)


def swish(step: Step, default: float = 1.0) -> Interval:
    """X * sigmoid(alpha * x)."""
    alpha = step.float("alpha", default)
    if alpha <= 0:
        raise UnknownRangeError
    return _gated(lambda x: _sigmoid(alpha * x), -0.2785 / alpha)(step)


def _hard_swish(step: Step) -> Interval:
    return _gated(lambda x: np.clip(x / 6 + 0.5, 0, 1), -0.3751)(step)


def _bounded(low: float, high: float) -> Rule:
    """Whatever finite number comes in, the result is between the two."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        ends = with_slack(np.full(x.low.shape, low), np.full(x.low.shape, high), step.dtypes[0])
        return step.result(*ends, x.dims, x, nan=x.nan or x.infinite, infinite=False)

    return rule


def _inverse(function: Callable[[Array], Array], least: float, most: float, *, falls: bool = False) -> Rule:
    """A function that is defined between two numbers only, and never decreases, or never increases if it `falls`."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        with np.errstate(all="ignore"):
            low, high = function(np.clip(x.low, least, most)), function(np.clip(x.high, least, most))
        ends = with_slack(high, low, step.dtypes[0]) if falls else with_slack(low, high, step.dtypes[0])
        outside = x.least < least or x.greatest > most
        return step.result(*ends, x.dims, x, nan=x.nan or x.infinite or outside)

    return rule


def _cosh(step: Step) -> Interval:
    x = step.input(0)
    with np.errstate(all="ignore"):
        low, high = (np.cosh(each) for each in absolute(x.low, x.high))
    return step.result(*with_slack(low, high, step.dtypes[0]), x.dims, x)


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
        low = np.where(spans, -np.inf, 1 / x.high)  # 1 / -0.0 is -inf, 1 / 0.0 is inf
        high = np.where(spans, np.inf, 1 / x.low)
    return step.result(*with_slack(low, high, step.dtypes[0]), x.dims, x, infinite=bool(spans.any()))


def _abs(step: Step) -> Interval:
    x = step.input(0)
    return step.result(*absolute(x.low, x.high), x.dims, x)


def _neg(step: Step) -> Interval:
    x = step.input(0)
    return step.result(-x.high, -x.low, x.dims, x)


def _exact(function: Callable[[Array], Array]) -> Rule:
    return _of_one(function, exact=True)


def _sign(step: Step) -> Interval:
    x = step.input(0)
    return step.result(np.sign(x.low), np.sign(x.high), x.dims, x, infinite=False)


RULES: dict[str, Rule] = {
    "Exp": _of_one(np.exp, (0.0, math.inf)),
    "Tanh": _of_one(np.tanh),
    "Sigmoid": _of_one(_sigmoid, (0.0, math.inf)),
    "Erf": _of_one(_erf),
    "Softplus": _of_one(_softplus, (0.0, math.inf)),
    "Softsign": _softsign,
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
    "Gelu": gelu,
    "Mish": _mish,
    "Swish": swish,
    "Acos": _inverse(np.arccos, -1, 1, falls=True),
    "Asin": _inverse(np.arcsin, -1, 1),
    "Acosh": _inverse(np.arccosh, 1, math.inf),
    "Atanh": _inverse(np.arctanh, -1, 1),
    "Cosh": _cosh,
    "Hardmax": lambda step: step.result(np.zeros(()), np.ones(()), step.input(0).dims, nan=False, infinite=False),
    "Sin": _bounded(-1, 1),
    "Cos": _bounded(-1, 1),
    "Log": _log,
    "Sqrt": _sqrt,
    "Reciprocal": _reciprocal,
    "Abs": _abs,
    "Neg": _neg,
    "Ceil": _exact(np.ceil),
    "Floor": _exact(np.floor),
    "Round": _exact(np.rint),
    "Sign": _sign,
}
