"""Functions of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    NAN,
    NONE,
    PLUS,
    Ends,
    Interval,
    UnknownRangeError,
    absolute,
    aligned,
    possible,
    products,
)
from castsmith.analysis.bounds.rounding import Array, is_float, largest, rounded, thinnest, with_slack
from castsmith.analysis.bounds.step import Step


def _rising(
    function: Callable[[Array], Array], within: tuple[float, float] | None = None
) -> Callable[[Step], Interval]:
    """A function that never decreases, also towards the infinities. within: what no implementation leaves."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        if not is_float(step.dtypes[0]):  # runtimes round to an integer in ways of their own
            return step.anything()
        with np.errstate(all="ignore"):
            low, high, least, most = (function(end) for end in (x.low, x.high, np.asarray(-np.inf), np.asarray(np.inf)))
        special = (x.special & NAN) | possible(plus=x.plus & np.isposinf(most), minus=x.minus & np.isneginf(least))
        low = np.where(x.minus & np.isfinite(least), least, low)
        high = np.where(x.plus & np.isfinite(most), most, high)
        low, high = with_slack(low, high, step.dtypes[0])
        if within is not None:
            low, high = np.clip(low, *within), np.clip(high, *within)
        return step.result(low, high, x, special=special)

    return rule


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(step: Step) -> Interval:
    """log(1 + exp(x)), of which ONNX defines the exponential to be computed first: it may overflow."""
    x, exact = step.input(0), _rising(lambda v: np.logaddexp(0.0, v), (0.0, math.inf))(step)
    dtype = step.dtypes[0]
    if not is_float(dtype):
        return step.anything()
    over = np.isfinite(x.high) & (x.high > math.log(largest(dtype)) * (1 - 2.0**-7))
    return step.picked(exact.low, exact.high, x, special=exact.special | np.where(over, PLUS, NONE))


def _relu(step: Step) -> Interval:
    """The greater of x and 0, also of NaN in some runtimes."""
    x = step.input(0)
    low = np.where(x.nan | x.minus, 0.0, np.maximum(x.low, 0))
    return step.picked(low, np.maximum(x.high, 0), x, special=x.special & (NAN | PLUS))


def _leaky(step: Step) -> Interval:
    """Runtimes round the slope to the type first, or not."""
    x, alpha, dtype = step.input(0), np.asarray(step.float("alpha", 0.01)), step.dtypes[0]
    if not is_float(dtype):
        return step.anything()
    least, most = rounded(alpha, alpha, dtype)
    least, most = np.minimum(alpha, least), np.maximum(alpha, most)
    if not np.isfinite(most - least):
        return step.anything()
    negative = products((np.minimum(x.low, 0), np.minimum(x.high, 0)), (least, most))
    flat = (least <= 0) & (most >= 0)
    special = possible(x.nan | (x.minus & flat), x.plus | (x.minus & (least < 0)), x.minus & (most > 0))
    return step.result(*_by_sign(x, negative), x, special=special)


def _prelu(step: Step) -> Interval:
    x, slope = step.input(0), step.input(1)
    a, b = aligned(x, slope)
    negative = products((np.minimum(a.low, 0), np.minimum(a.high, 0)), (b.low, b.high))
    spoilt = ((a.low <= 0) & (b.special != NONE)) | a.minus
    special = (a.special & (NAN | PLUS)) | np.where(spoilt, ANYTHING, NONE)
    return step.result(*_by_sign(a, negative), x, slope, special=special)


def _by_sign(x: Interval, negative: Ends) -> Ends:
    """Keep positive elements; `negative` bounds the results of the others, or is 0 if all are positive."""
    low = np.where(x.low >= 0, x.low, np.minimum(negative[0], np.maximum(x.low, 0)))
    high = np.where(x.high <= 0, negative[1], np.maximum(negative[1], x.high))
    return low, high


def _elu(step: Step) -> Interval:
    kind = step.node.op_type
    alpha = step.float("alpha", {"Elu": 1.0, "Selu": 1.67326319217681884765625}[kind])
    gamma = step.float("gamma", 1.05070102214813232421875) if kind == "Selu" else 1.0
    if alpha <= 0 or gamma <= 0:
        raise UnknownRangeError

    def function(v: Array) -> Array:
        return gamma * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))

    return _rising(function)(step)


def _hard_sigmoid(step: Step) -> Interval:
    x, alpha, beta = step.input(0), step.float("alpha", 0.2), step.float("beta", 0.5)
    factor = np.asarray(alpha)
    low, high = products(x.reach, (factor, factor))
    low, high = with_slack(low + beta, high + beta, step.dtypes[0])
    special = possible(nan=x.nan | (x.infinite & (alpha == 0)))
    return step.result(np.clip(low, 0, 1), np.clip(high, 0, 1), x, special=special)


def _gated(gate: Callable[[Array], Array], lowest: float) -> Callable[[Step], Interval]:
    """X * gate(x) for a gate between 0 and 1 that never decreases. lowest: its least value."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        with np.errstate(all="ignore"):
            ends = [np.where(np.isposinf(v), np.inf, np.nan_to_num(v * gate(v), nan=0.0)) for v in (x.low, x.high)]
        low = np.where((x.low >= 0) & ~x.minus, ends[0], lowest)
        high = np.maximum(np.maximum(*ends), 0.0)
        special = possible(nan=x.nan | x.minus, plus=x.plus)
        return step.result(*with_slack(low, high, step.dtypes[0]), x, special=special)

    return rule


def _tanh_gelu(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _erf_gelu(x: Array) -> Array:
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


def gelu(step: Step, *, tanh: bool | None = None) -> Interval:
    tanh = step.text("approximate", "none") == "tanh" if tanh is None else tanh
    return _gated(_tanh_gelu if tanh else _erf_gelu, -0.171)(step)


def swish(step: Step, default: float = 1.0) -> Interval:
    """X * sigmoid(alpha * x)."""
    alpha = step.float("alpha", default)
    if alpha <= 0:
        raise UnknownRangeError
    return _gated(lambda x: _sigmoid(alpha * x), -0.2785 / alpha)(step)


def _hard_swish(step: Step) -> Interval:
    return _gated(lambda x: np.clip(x / 6 + 0.5, 0, 1), -0.3751)(step)


def _wave(step: Step) -> Interval:
    """Sin and Cos: whatever finite number comes in, the result is between -1 and 1."""
    x = step.input(0)
    ends = with_slack(np.full(x.low.shape, -1.0), np.full(x.low.shape, 1.0), step.dtypes[0])
    return step.result(*ends, x, special=possible(nan=x.nan | x.infinite))


def _log(step: Step) -> Interval:
    """The logarithm: NaN of a negative number, minus infinity of 0."""
    x, dtype = step.input(0), step.dtypes[0]
    least = thinnest(dtype if is_float(dtype) else DataType.DOUBLE)
    with np.errstate(all="ignore"):
        low, high = np.log(np.maximum(x.low, least)), np.log(np.maximum(x.high, least))
    special = possible(nan=x.nan | x.negative, plus=x.plus, minus=x.zero)
    return step.result(*with_slack(low, high, dtype), x, special=special)


def _sqrt(step: Step) -> Interval:
    x = step.input(0)
    low, high = np.sqrt(np.maximum(x.low, 0)), np.sqrt(np.maximum(x.high, 0))
    return step.result(low, high, x, special=possible(nan=x.nan | x.negative, plus=x.plus))


def _abs(step: Step) -> Interval:
    x = step.input(0)
    return step.picked(*absolute(x.low, x.high), x, special=possible(nan=x.nan, plus=x.infinite))


def negated(x: Interval) -> Interval:
    """The negatives of the elements."""
    special = possible(nan=x.nan, plus=x.minus, minus=x.plus)
    return Interval(-x.high, -x.low, special, x.dims, x.dtype, assumes=x.assumes, blame=x.blame)


def _neg(step: Step) -> Interval:
    x = negated(step.input(0))
    return step.picked(x.low, x.high, x, special=x.special)


def _to_integer(function: Callable[[Array], Array]) -> Callable[[Step], Interval]:
    """The adjacent integer."""

    def rule(step: Step) -> Interval:
        x = step.input(0)
        return step.picked(function(x.low), function(x.high), x, special=x.special)

    return rule


def _sign(step: Step) -> Interval:
    """-1, 0 or 1, also of NaN in some runtimes."""
    x = step.input(0)
    low, high = (np.sign(end) for end in x.reach)
    low, high = np.where(x.nan, np.minimum(low, 0), low), np.where(x.nan, np.maximum(high, 0), high)
    return step.picked(low, high, x, special=x.special & NAN)


RULES: dict[str, Callable[[Step], Interval]] = {
    "Exp": _rising(np.exp, (0.0, math.inf)),
    "Tanh": _rising(np.tanh),
    "Sigmoid": _rising(_sigmoid, (0.0, math.inf)),
    "Erf": _rising(_erf),
    "Softplus": _softplus,
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Gelu": gelu,
    "Swish": swish,
    "Sin": _wave,
    "Cos": _wave,
    "Log": _log,
    "Sqrt": _sqrt,
    "Abs": _abs,
    "Neg": _neg,
    "Ceil": _to_integer(np.ceil),
    "Floor": _to_integer(np.floor),
    "Round": _to_integer(np.rint),
    "Sign": _sign,
}
