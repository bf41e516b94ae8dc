"""Mixtures of experts of com.microsoft: MoE, and QMoE with packed weights.

Each row of the result is a sum of what some experts make of a row, times weights that sum up to 1 at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from castsmith.analysis.bounds.interval import ANYTHING, NONE, Interval, UnknownRangeError
from castsmith.analysis.bounds.rounding import Array, is_float, overflows
from castsmith.analysis.bounds.step import Rule, Step, require_finite, spoilt
from castsmith.numerics.quantize.packed import unpacked_weights

_NO_LARGER = ("relu", "gelu", "silu", "identity")
"""Activations whose results are not larger than their operands."""
_GATED = "swiglu"


def _experts(step: Step) -> Interval:
    """The most that an expert may give, by the sizes of its weights."""
    x, router, dtype = step.input(0), step.input(1), step.dtypes[0]
    if not is_float(dtype) or x.dims is None:
        raise UnknownRangeError
    quantized = step.node.op_type == "QMoE"
    read = _quantized if quantized else _plain
    if not x.bounded or any(step.value(index) is not None for index in range(14 if quantized else 8, len(step.inputs))):
        return step.unbounded()
    layers = [read(step, layer) for layer in range(3)]
    (first, first_bias), (second, second_bias), (third, third_bias) = layers
    if first is None or second is None or (third is None and step.value(8 if quantized else 6) is not None):
        return step.unbounded()
    activation, parts = step.text("activation_type", "relu"), [x.size]
    inner = _most(first, first_bias, x.size)
    parts.append(inner.max(initial=0.0))
    if activation == _GATED:
        beta = abs(step.float("activation_beta", 0.0))
        inner = np.repeat(inner.max(axis=1, keepdims=True), second.shape[2], axis=1)
        inner = inner * (inner + beta)
    elif activation not in _NO_LARGER:
        raise UnknownRangeError
    if third is not None:
        gate = _most(third, third_bias, x.size)
        if gate.shape != inner.shape:
            raise UnknownRangeError
        inner = inner * gate
    parts.append(inner.max(initial=0.0))
    chosen = step.int("k", 1) if step.int("use_sparse_mixer", 0) else 1
    most = _most(second, second_bias, inner).max(initial=0.0) * chosen
    count = float(first.shape[2] + second.shape[2] + len(first) + 16)
    size = np.asarray(float(most))
    low, high, over = step.total(-size, size, size, count)
    over = over | (ANYTHING if any(overflows(float(part), count, dtype, bounded=True) for part in parts) else NONE)
    return step.result(low, high, x, router, special=spoilt(x, router) | over)


def _most(weights: Array, bias: Array | None, sizes: Array | float) -> Array:
    """Return the largest magnitudes of products with the weights (E, n, k) for operands of these sizes (E, k).

    Raises:
        UnknownRangeError: The shapes do not fit.
    """
    operands = weights.shape[0], weights.shape[2]
    if np.shape(sizes) not in ((), operands) or (bias is not None and bias.shape != weights.shape[:2]):
        raise UnknownRangeError
    with np.errstate(all="ignore"):
        sums = np.einsum("enk,ek->en", np.abs(weights), np.broadcast_to(sizes, operands))
        return sums if bias is None else sums + np.abs(bias)


def _plain(step: Step, layer: int) -> tuple[Array | None, Array | None]:
    """Return the weights (E, n, k) and the bias of a layer of MoE; None where it has none, or they are not constant."""
    weights = _numbers(step.array(2 * layer + 2))
    if weights is not None and weights.ndim != 3:
        raise UnknownRangeError
    return weights, _bias(step, 2 * layer + 3)


def _quantized(step: Step, layer: int) -> tuple[Array | None, Array | None]:
    """The same of QMoE, whose rows of weights have a scale each, or one for each block."""
    at, bits, block = 3 * layer + 2, step.int("expert_weight_bits", 4), step.int("block_size", 0)
    codes = step.array(at)
    if codes is None:
        return None, None
    scales, points = step.array(at + 1), step.array(11 + layer)
    if scales is None or (points is None and step.value(11 + layer) is not None) or codes.dtype != np.uint8:
        raise UnknownRangeError
    if bits not in (2, 4, 8) or codes.ndim != 3:
        raise UnknownRangeError
    count, rows, depth = codes.shape[0], codes.shape[1], codes.shape[2] * 8 // bits
    try:
        weights = unpacked_weights(
            codes.reshape(count * rows, -1), scales, points, depth=depth, block=block or depth, bits=bits
        )
    except ValueError:  # sizes that do not fit
        raise UnknownRangeError from None
    return _numbers(weights.reshape(count, rows, depth)), _bias(step, at + 2)


def _bias(step: Step, index: int) -> Array | None:
    """Return a bias. Raises UnknownRangeError for one that is not constant."""
    if step.value(index) is None:
        return None
    bias = _numbers(step.array(index))
    if bias is None:
        raise UnknownRangeError
    return bias


def _numbers(array: np.ndarray[Any, Any] | None) -> Array | None:
    """Return a constant in float64, if all of it is finite."""
    if array is None:
        return None
    require_finite(array)
    return array.astype(np.float64)


RULES: dict[tuple[str, str], Rule] = {("com.microsoft", name): _experts for name in ("MoE", "QMoE")}
