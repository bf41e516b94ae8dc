"""Operators of com.microsoft, which ONNX Runtime puts into optimized models, and exporters into language models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import ANYTHING, Ball, Interval, UnknownRangeError, collapsed, number, products
from castsmith.analysis.bounds.rounding import is_float, largest, overflows, unit_roundoff
from castsmith.analysis.bounds.rules import experts
from castsmith.analysis.bounds.rules.arithmetic import add
from castsmith.analysis.bounds.rules.attention import Heads, combined, held, rotary, turned
from castsmith.analysis.bounds.rules.functions import gelu, swish
from castsmith.analysis.bounds.rules.linear import by_weights, matmul
from castsmith.analysis.bounds.rules.normalization import normalized
from castsmith.analysis.bounds.step import LONGEST, Rule, Step, require_finite, spoilt
from castsmith.analysis.bounds.weights import is_followed, weights_of
from castsmith.numerics.quantize.packed import unpacked_weights

_MS = "com.microsoft"
_FLOAT_OF_INPUT, _INT8 = (0, 1), 4
"""Values of `accuracy_level`: the input as it is, and rounded to int8 in blocks."""
_STEPS = 254.0
"""Twice the number of steps from 0 to the largest element of a block of int8."""


def _biased(function: Callable[[Step], Interval]) -> Rule:
    """A function of the first operand plus the second."""

    def rule(step: Step) -> Interval:
        if step.value(1) is None:
            return function(step)
        return function(replace(step, inputs=[add(step, 1)]))

    return rule


def _skip_norm(step: Step) -> list[Interval]:
    """SkipLayerNormalization and its simplified form: the norm of a sum, which is the fourth output."""
    simple = step.node.op_type.startswith("SkipSimplified")
    total, bias = add(step, 1), step.optional(3 if simple else 4)
    if bias is not None:
        total = add(replace(step, inputs=[total, bias]), 1)
    if not total.dims:
        raise UnknownRangeError
    norm = normalized(step, total, [len(total.dims) - 1], step.input(2), None if simple else step.optional(3))
    results = [norm, *(step.anything(index) for index in range(1, len(step.node.outputs)))]
    return [*results[:3], total] if len(results) > 3 else results


# Products.


def _matmul_nbits(step: Step) -> Interval:
    """A @ b for weights of 2, 4 or 8 bits, in blocks, plus a bias. Kernels round each weight to the type, or not."""
    x, bias = step.input(0), step.optional(5)
    depth, width, block = (step.int(name, 0) for name in ("K", "N", "block_size"))
    bits, level = step.int("bits", 4), step.int("accuracy_level", 0)
    packed, factors = step.tensor(1), step.array(2)
    if packed is None or factors is None or not is_followed(packed) or step.value(4) is not None:
        return step.unbounded()
    points = step.array(3)
    if (points is None and step.value(3) is not None) or bits not in (2, 4, 8) or min(depth, width, block) < 1:
        raise UnknownRangeError
    if level not in (*_FLOAT_OF_INPUT, _INT8) or not is_float(x.dtype):
        raise UnknownRangeError
    try:
        codes = np.asarray(packed.numpy()).reshape(width, -1)
        with np.errstate(all="ignore"):
            matrix = unpacked_weights(codes, factors, points, depth=depth, block=block, bits=bits).T
    except ValueError:  # sizes that do not fit
        raise UnknownRangeError from None
    require_finite(matrix)
    x = _rounded_to_int8(x) if level == _INT8 else x
    product = by_weights(step, _loosened(x), weights_of(matrix), 2)
    # Kernels add up codes times elements, in float at least, and subtract those of the zero points.
    size = x.size * depth * 2**bits * max(1.0, float(np.abs(factors.astype(np.float64)).max(initial=0.0)))
    if overflows(size, depth, max((DataType.FLOAT, x.dtype), key=largest), bounded=x.bounded):
        product = replace(product, special=product.special | ANYTHING)
    if bias is None:
        return product
    return add(replace(step, inputs=[product, bias]), 1)


def _rounded_to_int8(x: Interval) -> Interval:
    """The elements of blocks, each of which may be off by half a step of its largest element."""
    block = collapsed(x, x.dims)
    error = block.magnitude / _STEPS * (1 + 2.0**-10)
    return replace(block, low=block.low - error, high=block.high + error, ball=None, shares=None)


def _loosened(x: Interval) -> Interval:
    """X a little larger, for factors that are rounded."""
    unit = 2 * unit_roundoff(x.dtype)  # pyright: ignore[reportArgumentType]
    ball = x.ball
    with np.errstate(all="ignore"):
        return replace(
            x,
            low=x.low - np.abs(x.low) * unit,
            high=x.high + np.abs(x.high) * unit,
            ball=None if ball is None else Ball(ball.radius, ball.scale, ball.offset, ball.slack + unit),
        )


def _fused_matmul(step: Step) -> Interval:
    """Alpha times the product of operands whose last two dimensions may be exchanged."""
    if step.int("transBatchA", 0) or step.int("transBatchB", 0):
        return step.unbounded()
    alpha, turned = step.float("alpha", 1.0), (bool(step.int("transA", 0)), bool(step.int("transB", 0)))
    product = matmul(step, turned)
    if alpha == 1:
        return product
    low, high = products((product.low, product.high), (np.asarray(alpha), np.asarray(alpha)))
    # kernels multiply an operand by alpha first, or the product
    size = np.maximum(np.abs(low), np.abs(high))
    low, high, over = step.total(low, high, np.maximum(size, product.magnitude), 4, product)
    special = spoilt(product) | over
    return step.result(low, high, product, special=special)


# Attention.


def _grouped_query(step: Step) -> list[Interval]:
    """GroupQueryAttention: queries, keys and values may be packed into one, and turned by their positions."""
    query, key, value = step.input(0), step.optional(1), step.optional(2)
    past, groups, count = (step.optional(3), step.optional(4)), step.int("kv_num_heads", 1), step.int("num_heads", 1)
    if any(step.value(index) is not None for index in (12, 13, 14, 15)) or count < 1 or groups < 1:
        raise UnknownRangeError  # quantized caches, and norms of queries and keys
    heads, sink = count, step.optional(11)
    if key is None or value is None:  # packed
        key, value, heads = query, query, count + 2 * groups
    turned_query, turned_key = query, key
    if step.int("do_rotary", 0):
        angles = step.input(7), step.input(8)
        turned_query, turned_key = (turned(step, operand, *angles, part=True) for operand in (query, key))
    if sink is not None and not sink.finite:
        raise UnknownRangeError
    operands = _heads(step, (turned_query, turned_key, value), past, step.optional(10), _width(query, heads))
    return _attended(step, operands)


def _multi_head(step: Step) -> list[Interval]:
    """MultiHeadAttention: queries, keys and values, packed or not, each plus a part of the bias."""
    query, key, value = step.input(0), step.optional(1), step.optional(2)
    key = query if key is None else key
    value = key if value is None else value
    bias = step.optional(3)
    step.float("mask_filter_value", -10000.0)
    if bias is not None:
        query, key, value = (_plus(step, operand, bias) for operand in (query, key, value))
    past = step.optional(6), step.optional(7)
    packed = step.value(2) is None
    width = _width(step.input(0), max(step.int("num_heads", 1), 1)) if not packed else float(LONGEST)
    heads = _heads(step, (query, key, value), past, step.optional(5), width)
    return _attended(step, heads)


def _attention(step: Step) -> list[Interval]:
    """Attention: the product of the input with the weights holds the queries, the keys and the values."""
    x, weights, bias = step.input(0), step.weights(1), step.optional(2)
    if weights is None or x.dims is None or step.int("do_rotary", 0) or step.value(6) is not None:
        return [step.anything(index) for index in range(len(step.node.outputs))]
    step.float("mask_filter_value", -10000.0)
    width = weights.layout.n
    packed = step.shaped((*x.dims[:-1], width))
    product = by_weights(packed, x, weights, 1)
    if bias is not None:
        product = add(replace(packed, inputs=[product, bias]), 1)
    sizes = step.ints("qkv_hidden_sizes") or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise UnknownRangeError
    first, second = sizes[0], sizes[0] + sizes[1]
    parts = ((0, first), (first, second), (second, width))
    query, key, value = (_columns(product, *ends) for ends in parts)
    past = step.optional(4)
    head = float(-(-sizes[0] // max(step.int("num_heads", 1), 1)))
    heads = _heads(step, (query, key, value), (past, past), step.optional(5), head)
    combination = combined(step, heads, heads.narrowest, divided_last=True)
    return [combination, *(step.anything(index) for index in range(1, len(step.node.outputs)))]


def _columns(x: Interval, start: int, end: int) -> Interval:
    """Return some columns of rows."""
    dims = *(x.dims or ())[:-1], end - start
    return x.moved(lambda ends: ends[..., start:end] if ends.shape[-1] > 1 else ends, dims)


def _plus(step: Step, x: Interval, bias: Interval) -> Interval:
    """Elements plus any of a bias."""
    operands = [collapsed(x, ()), collapsed(bias, ())]
    return collapsed(add(replace(step, inputs=operands, dims=[()]), 1), x.dims)


def _heads(
    step: Step,
    operands: tuple[Interval, Interval, Interval],
    past: Sequence[Interval | None],
    mask: Interval | None,
    width: float,
) -> Heads:
    """Return the operands. Raises UnknownRangeError for those of several types, such as a quantized past."""
    query, *current = operands
    keys, values = ([part for part in pair if part is not None] for pair in zip(current, past, strict=True))
    if any(operand.dtype != step.dtypes[0] for operand in (query, *keys, *values)):
        raise UnknownRangeError
    step.float("softcap", 0.0)
    ranked = (None if x.dims is None or len(x.dims) < 2 + (index > 0) else x.dims[-2] for index, x in enumerate(values))
    scale = step.number("scale", 1.0)  # by default the inverse root of the width, which is less
    return Heads(query, keys, values, mask, width, scale, _float(step.dtypes[0]), [*ranked])


def _attended(step: Step, heads: Heads) -> list[Interval]:
    """The combinations; the keys and values with those of the past, behind which a cache may hold zeros."""
    zero = number(0.0, heads.query.dtype)
    cached = replace(heads, keys=[*heads.keys, zero], values=[*heads.values, zero])
    return [combined(step, heads, heads.narrowest, divided_last=True), *held(step, cached)]


def _float(dtype: DataType | None) -> DataType:
    if not is_float(dtype):
        raise UnknownRangeError
    return dtype


def _width(query: Interval, heads: int) -> float:
    """The number of terms of a score."""
    last = None if not query.dims else query.dims[-1]
    return float(LONGEST) if last is None else float(-(-last // heads))


RULES: dict[tuple[str, str], Rule] = {
    (_MS, "Gelu"): gelu,
    (_MS, "FastGelu"): _biased(lambda step: gelu(step, tanh=True)),
    (_MS, "BiasGelu"): _biased(gelu),
    (_MS, "QuickGelu"): lambda step: swish(step, 1.702),
    (_MS, "SkipLayerNormalization"): _skip_norm,
    (_MS, "SkipSimplifiedLayerNormalization"): _skip_norm,
    (_MS, "MatMulNBits"): _matmul_nbits,
    (_MS, "FusedMatMul"): _fused_matmul,
    (_MS, "RotaryEmbedding"): lambda step: rotary(step, 2),
    (_MS, "GroupQueryAttention"): _grouped_query,
    (_MS, "MultiHeadAttention"): _multi_head,
    (_MS, "Attention"): _attention,
    **experts.RULES,
}
