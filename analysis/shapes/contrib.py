"""Shapes of the results of operators of com.microsoft, of which onnx infers none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from castsmith.analysis.shapes.elements import Dims, Operation
from castsmith.ir.ops.movement import broadcast
from castsmith.numerics.symbols import UNKNOWN


def _as_first(node: Operation) -> Dims | None:
    return node.shapes[0]


def _by_width(node: Operation) -> Dims | None:
    """The product with a matrix of N columns."""
    first, width = node.shapes[0], node.integer("N", 0)
    return None if not first or not width else (*first[:-1], width)


def _fused_matmul(node: Operation) -> Dims | None:
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0):
        return None
    sides = [
        (*shape[:-2], shape[-1], shape[-2]) if shape and len(shape) > 1 and node.integer(name, 0) else shape
        for shape, name in zip(node.shapes[:2], ("transA", "transB"), strict=True)
    ]
    a, b = sides
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    return (*broadcast([a[:-2], b[:-2]]), a[-2], b[-1])


def _grouped_query(node: Operation) -> Dims | None:
    """The shape of the queries, of which those of keys and values are taken away if all are packed into one."""
    first = node.shapes[0]
    if not first or node.has(1):
        return first
    heads, groups, last = node.integer("num_heads", 0), node.integer("kv_num_heads", 0), first[-1]
    total = heads + 2 * groups
    return (*first[:-1], last // total * heads if isinstance(last, int) and total else UNKNOWN)


def _multi_head(node: Operation) -> Dims | None:
    """The shape of the queries, with the width of the values."""
    first = node.shapes[0]
    if first is None or len(first) != 3 or not node.has(2):
        return None
    values = node.shapes[2]
    if values is None or len(values) != 3:
        return (*first[:-1], UNKNOWN if values is None else first[-1])
    return (*first[:-1], values[-1])


def _attention(node: Operation) -> Dims | None:
    first, weights = node.shapes[0], node.shapes[1]
    sizes = node.node.attributes.get_ints("qkv_hidden_sizes") or ()
    if first is None or len(first) != 3:
        return None
    last = weights[-1] if weights else UNKNOWN
    width = sizes[2] if len(sizes) == 3 else last // 3 if isinstance(last, int) else UNKNOWN
    return (*first[:-1], width)


RULES: Mapping[str, Callable[[Operation], Dims | None]] = {
    **dict.fromkeys(
        (
            *("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "RotaryEmbedding", "QMoE", "MoE"),
            *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
        ),
        _as_first,
    ),
    "MatMulNBits": _by_width,
    "FusedMatMul": _fused_matmul,
    "GroupQueryAttention": _grouped_query,
    "MultiHeadAttention": _multi_head,
    "Attention": _attention,
}


def contrib_dims(node: Operation) -> Sequence[Dims | None]:
    """Return the shape of each output; that of the first, and of the sum that a skip normalization has as fourth."""
    count, rule = len(node.node.outputs), RULES.get(node.node.op_type)
    if rule is None or not node.shapes:
        return [None] * count
    dims = rule(node)
    sums = node.node.op_type.startswith("Skip")
    return [dims if index == 0 or (sums and index == 3) else None for index in range(count)]
