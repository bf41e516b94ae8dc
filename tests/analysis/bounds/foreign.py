"""What adds operators of com.microsoft to a case, for the test of their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.analysis.bounds.cases import Case, Make

_MS = "com.microsoft"


def matmul_nbits(case: Case) -> None:
    depth, width, block, bits = case.pick(16, 20, 40), case.pick(1, 5), case.pick(16, 32), case.pick(2, 4, 4, 8)
    blocks = -(-depth // block)
    codes = case.constant(case.rng.integers(0, 256, (width, blocks, block * bits // 8), dtype=np.uint8))
    scales = case.floats(width * blocks, low=-0.1, high=0.3)
    points = case.pick("", case.constant(case.rng.integers(0, 256, width * -(-blocks * bits // 8), dtype=np.uint8)))
    bias = ["", case.x(width)] if case.coin(0.3) else []
    shape = case.pick((depth,), (3, depth), (2, 3, depth))[-3:]
    x = case.x(*shape) if len(shape) > 1 else case.x(1, depth)
    if case.coin(0.3) and case.opset >= 17:
        x = case.node("LayerNormalization", x, case.floats(depth))
    given: dict[str, Any] = {"accuracy_level": case.pick(0, 1, 4)} if case.coin() else {}
    case.node("MatMulNBits", x, codes, scales, points, *bias, domain=_MS, K=depth, N=width, block_size=block, bits=bits,
              **given)  # fmt: skip


def fused_matmul(case: Case) -> None:
    m, k, n = case.shape(3, 1, case.pick(5, 30))
    ta, tb = case.pick(0, 1), case.pick(0, 1)
    batch = case.pick((), (2,))
    a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    left = case.x(*batch, *a) if case.coin(0.8) else case.floats(*a)
    right = case.floats(*b) if case.coin() else case.x(*batch, *b)
    case.node("FusedMatMul", left, right, domain=_MS, transA=ta, transB=tb, alpha=case.pick(1.0, 0.125, -3.0, 1e-30))


def rotary(case: Case) -> None:
    batch, heads, turns, width = case.pick(1, 2), case.pick(1, 2), case.pick(1, 3), case.pick(4, 8)
    flat, partial = case.coin(), width == 8 and case.coin()
    half = width // 4 if partial else width // 2
    x = case.x(batch, turns, heads * width) if flat else case.x(batch, heads, turns, width)
    caches = [case.floats(5, half, low=-1, high=1) if case.coin() else case.x(5, half) for _ in range(2)]
    places = case.constant(case.rng.integers(0, 5, (batch, turns)) if case.coin() else np.zeros(1, np.int64))
    given: dict[str, Any] = {"rotary_embedding_dim": 2 * half, "num_heads": heads} if partial else {}
    case.node("RotaryEmbedding", x, places, *caches, domain=_MS, interleaved=case.pick(0, 1), **given)


def grouped_query(case: Case) -> None:
    batch, groups, turns, width = 1, case.pick(1, 2), case.pick(1, 3), 16
    heads, before = groups * case.pick(1, 2), case.pick(0, 2)
    packed = case.coin(0.3)
    if packed:
        parts = [case.x(batch, turns, (heads + 2 * groups) * width), "", ""]
    else:
        parts = [case.x(batch, turns, number * width) for number in (heads, groups, groups)]
    past = [case.x(batch, groups, before, width) for _ in range(2)] if before else ["", ""]
    total = turns + before
    lengths = case.constant(np.full(batch, total - 1, np.int32)), case.constant(np.array(total, np.int32))
    given: dict[str, Any] = {"do_rotary": 1} if case.coin(0.4) else {}
    angles = [case.floats(8, width // 2, low=-1, high=1) for _ in range(2)] if given else ["", ""]
    mask = ["", case.x(batch, heads, turns, total)] if case.coin(0.3) else []
    given |= {"scale": case.pick(0.1, 1.0, 4.0)} if case.coin() else {}
    case.node("GroupQueryAttention", *parts, *past, *lengths, *angles, *mask, domain=_MS, num_heads=heads,
              kv_num_heads=groups, count=3, **given)  # fmt: skip


def multi_head(case: Case) -> None:
    batch, heads, turns, others, width = case.pick(1, 2), case.pick(1, 2), case.pick(1, 3), case.pick(1, 4), 4
    size, kind = heads * width, case.pick("plain", "plain", "packed", "pairs", "heads")
    if kind == "packed":
        parts, others = [case.x(batch, turns, heads, 3, width), "", ""], turns
    elif kind == "pairs":
        parts = [case.x(batch, turns, size), case.x(batch, others, heads, 2, width), ""]
    elif kind == "heads":
        parts = [case.x(batch, turns, size), *(case.x(batch, heads, others, width) for _ in range(2))]
    else:
        parts = [case.x(batch, turns, size), *(case.x(batch, others, size) for _ in range(2))]
    bias = case.x(3 * size) if kind == "plain" and case.coin() else ""
    mask = case.x(batch, heads, turns, others) if case.coin(0.3) else ""
    given: dict[str, Any] = {"scale": case.pick(0.1, 1.0, 4.0)} if case.coin() else {}
    case.node("MultiHeadAttention", *parts, bias, "", mask, domain=_MS, num_heads=heads, **given)


def attention(case: Case) -> None:
    batch, heads, turns, depth, width = case.pick(1, 2), case.pick(1, 2), case.pick(1, 3), case.pick(3, 8), 4
    size = heads * width
    x, weights = case.x(batch, turns, depth), case.floats(depth, 3 * size)
    bias = case.floats(3 * size) if case.coin(0.7) else case.x(3 * size)
    mask = case.pick("", case.constant(case.rng.integers(0, 2, (batch, turns)).astype(np.int32)))
    past, before = "", 0
    if case.coin(0.3) and not mask:
        past, before = case.x(2, batch, heads, 2, width), 2
    added = case.x(batch, heads, turns, turns + before) if case.coin(0.3) else ""
    given: dict[str, Any] = {"scale": case.pick(0.1, 1.0)} if case.coin() else {}
    given |= {"unidirectional": 1} if case.coin(0.3) else {}
    given |= {"qkv_hidden_sizes": [size, size, size]} if case.coin(0.3) and not past else {}
    case.node("Attention", x, weights, bias, mask, past, added, domain=_MS, num_heads=heads,
              count=2 if past else 1, **given)  # fmt: skip


def experts(op_type: str) -> Make:
    def make(case: Case) -> None:
        rows, count, hidden, inner = case.pick(1, 3), case.pick(2, 4), case.pick(16, 32), case.pick(16, 32)
        gated = case.coin(0.4)
        wide = 2 * inner if gated else inner
        x, router = case.x(rows, hidden), case.x(rows, count)
        given: dict[str, Any] = {"k": case.pick(1, 2), "normalize_routing_weights": case.pick(0, 1)}
        given["activation_type"] = "swiglu" if gated else case.pick("relu", "gelu", "silu", "identity")
        given |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0} if gated else {}
        bias = [case.floats(count, wide) if case.coin() else "", case.floats(count, hidden) if case.coin() else ""]
        if op_type == "MoE":
            layers = [case.floats(count, wide, hidden), bias[0], case.floats(count, hidden, inner), bias[1]]
        else:
            bits = case.pick(4, 8)
            given["expert_weight_bits"] = bits
            layers = list[str]()
            for n, k, held in ((wide, hidden, bias[0]), (hidden, inner, bias[1])):
                codes = case.rng.integers(0, 256, (count, n, k * bits // 8), dtype=np.uint8)
                layers += [case.constant(codes), case.floats(count, n, low=0.01, high=0.3), held]
        case.node(op_type, x, router, *layers, domain=_MS, **given)

    return make


def quick_gelu(case: Case) -> None:
    given: dict[str, Any] = {"alpha": case.pick(1.0, 0.5, 3.0)} if case.coin() else {}
    case.node("QuickGelu", case.x(2, 3, 4), domain=_MS, **given)


OPERATORS: dict[str, Make] = {
    "Attention": attention,
    "FusedMatMul": fused_matmul,
    "GroupQueryAttention": grouped_query,
    "MatMulNBits": matmul_nbits,
    "MoE": experts("MoE"),
    "MultiHeadAttention": multi_head,
    "QMoE": experts("QMoE"),
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": rotary,
}
"""By operator: what adds it to a case."""
