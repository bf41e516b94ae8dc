"""Layers of networks with random attributes, shapes and ranges: products, convolutions, norms, pools, images."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.analysis.bounds.cases import Case, Make


def spatial(case: Case, channels: int | None = None) -> tuple[str, int, list[int], int]:
    """An image of random rank: its name, its number of channels, its sizes, and its number of spatial dimensions."""
    dims = case.pick(1, 2, 2)
    sizes = [int(each) for each in case.rng.integers(3, 7, size=dims)]
    channels = channels or int(case.rng.integers(1, 5))
    return case.x(case.pick(1, 2), channels, *sizes), channels, sizes, dims


def placing(case: Case, kernel: list[int], dilated: bool = True) -> dict[str, Any]:
    dims = len(kernel)
    given: dict[str, Any] = {"strides": [case.pick(1, 2) for _ in range(dims)]}
    if dilated and case.coin(0.3):
        given["dilations"] = [case.pick(1, 2) for _ in range(dims)]
    if case.coin(0.3):
        given["auto_pad"] = case.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        given.pop("dilations", None)
    else:
        given["pads"] = [int(case.rng.integers(0, each)) for each in kernel] * 2
    return given


def convolution(case: Case) -> None:
    group = case.pick(1, 1, 2)
    x, channels, sizes, _ = spatial(case, 4)
    kernel = [int(case.rng.integers(1, min(3, size) + 1)) for size in sizes]
    outputs = int(case.rng.integers(1, 4)) * group
    shape = (outputs, channels // group, *kernel)
    w = case.floats(*shape) if case.coin(0.8) else case.x(*shape)
    bias = [case.floats(outputs)] if case.coin() else []
    case.node("Conv", x, w, *bias, group=group, kernel_shape=kernel, **placing(case, kernel))


def transposed_convolution(case: Case) -> None:
    group = case.pick(1, 2)
    x, channels, sizes, dims = spatial(case, 4)
    kernel = [int(case.rng.integers(1, 5)) for _ in range(dims)]
    outputs = int(case.rng.integers(1, 4))
    shape = (channels, outputs, *kernel)
    w = case.floats(*shape) if case.coin(0.9) else case.x(*shape)
    bias = [case.floats(outputs * group)] if case.coin() else []
    strides = [case.pick(1, 2, 3) for _ in range(dims)]
    given: dict[str, Any] = {"strides": strides, "group": group}
    if case.coin(0.3):
        given["dilations"] = [case.pick(1, 2) for _ in range(dims)]
    if case.coin(0.4):
        given["output_padding"] = [int(case.rng.integers(0, each)) for each in strides]
    if case.coin(0.3):
        given["pads"] = [case.pick(0, 1) if size > 3 else 0 for size in sizes] * 2
    case.node("ConvTranspose", x, w, *bias, **given)


def pool(op_type: str) -> Make:
    def make(case: Case) -> None:
        x, _, sizes, _ = spatial(case)
        kernel = [int(case.rng.integers(1, min(3, size) + 1)) for size in sizes]
        given = placing(case, kernel, dilated=False)
        if op_type == "AveragePool":
            given["count_include_pad"] = case.pick(0, 1)
        if case.opset >= 10 and "auto_pad" not in given:
            given["ceil_mode"] = case.pick(0, 1)
            case.reference = not given["ceil_mode"]  # it adds zeros beside the padding
        if case.opset >= (10 if op_type == "MaxPool" else 19) and case.coin(0.3):
            given["dilations"] = [case.pick(1, 2) if k * 2 - 1 <= s else 1 for k, s in zip(kernel, sizes, strict=True)]
            given.pop("auto_pad", None)
        case.node(op_type, x, kernel_shape=kernel, **given)

    return make


def global_pool(case: Case) -> None:
    case.node("GlobalAveragePool", spatial(case)[0])


def matmul(case: Case) -> None:
    m, k, n = case.shape(3, 1, case.pick(5, 30))
    shapes = case.pick(
        ((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)), ((2, m, k), (k, n)), ((m, k), (2, k, n)),
        ((2, m, k), (2, k, n)), ((3, 1, m, k), (2, k, n)), ((k,), (k,)),
    )  # fmt: skip
    sides = [case.floats(*shape) if case.coin(0.3) else case.x(*shape) for shape in shapes]
    if case.dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
        if case.coin(0.2):
            sides[0] = case.node("Softmax", sides[0], axis=len(shapes[0]) - 1)
        elif case.coin(0.3) and case.opset >= 17:  # rows of a known norm, moved and scaled
            rows = case.node("LayerNormalization", sides[0], case.floats(k))
            sides[0] = case.node(case.pick("Add", "Mul", "Sub"), rows, case.floats(k))
    case.node("MatMul", *sides)


def gemm(case: Case) -> None:
    m, k, n = case.shape(3)
    ta, tb = case.pick(0, 1), case.pick(0, 1)
    a = case.x(*((k, m) if ta else (m, k)))
    shape = (n, k) if tb else (k, n)
    b = case.floats(*shape) if case.coin() else case.x(*shape)
    c = [case.x(*case.pick((m, n), (n,), (1, n), (m, 1), (1,)))] if case.coin() or case.opset < 11 else []
    given = {"alpha": case.pick(1.0, -0.5, 3.0, 0.0, 1e-30), "beta": case.pick(1.0, -2.0, 0.0)}
    case.node("Gemm", a, b, *c, transA=ta, transB=tb, **given)


def einsum(case: Case) -> None:
    m, k, n = case.shape(3)
    equation, shapes = case.pick(
        ("ij,jk->ik", [(m, k), (k, n)]), ("ij,kj->ik", [(m, k), (n, k)]), ("bij,bjk->bik", [(2, m, k), (2, k, n)]),
        ("ij->ji", [(m, k)]), ("ij->", [(m, k)]), ("ii->i", [(m, m)]), ("i,i", [(m,), (m,)]), ("i,j->ij", [(m,), (n,)]),
        ("bhqd,bhkd->bhqk", [(1, 2, m, k), (1, 2, n, k)]), ("ij,jk,kl->il", [(m, k), (k, n), (n, 2)]),
        ("...ij,...jk->...ik", [(2, m, k), (2, k, n)]),
    )  # fmt: skip
    case.node("Einsum", *(case.floats(*s) if case.coin(0.4) else case.x(*s) for s in shapes), equation=equation)


def layer_norm(op_type: str) -> Make:
    def make(case: Case) -> None:
        shape = case.shape(3, 1, case.pick(5, 30))
        axis = case.pick(-1, 1, 2)
        tail = shape[axis:]
        bias = [case.floats(*tail)] if case.coin() and op_type == "LayerNormalization" else []
        scale = case.floats(*tail) if case.coin(0.7) else case.x(*tail)
        given = {"epsilon": case.pick(1e-5, 1e-12, 0.1, 0.0, 1e-40)}
        case.reference = case.dtype != TensorProto.FLOAT16  # it computes the norm in float16, against `stash_type`
        case.node(op_type, case.x(*shape), scale, *bias, axis=axis, **given)

    return make


def instance_norm(case: Case) -> None:
    x, channels, _, _ = spatial(case)
    given = {"epsilon": case.pick(1e-5, 0.1, 1e-12)}
    case.node("InstanceNormalization", x, case.floats(channels), case.floats(channels), **given)


def group_norm(case: Case) -> None:
    """One of a small variance beside its epsilon: runtimes compute it as E[x^2] - E[x]^2, as the standard does."""
    groups, each = case.pick(1, 2, 3), case.pick(1, 2)
    sizes = case.pick((), (3,), (2, 4))
    wide = case.opset >= 21 and case.dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    most = case.pick(
        0.01, 0.5, *((30.0, 1e-30) if wide or case.dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) else ())
    )
    x = case.x(case.pick(1, 2), groups * each, *sizes, low=-most, high=case.pick(most, 0.0))
    shape = groups * each if case.opset >= 21 else groups
    parts = [case.floats(shape) if case.coin(0.7) else case.x(shape) for _ in range(2)]
    case.node("GroupNormalization", x, *parts, num_groups=groups, epsilon=case.pick(0.1, 0.2))


def attention(case: Case) -> None:
    batch, heads, q, k, width = case.pick(1, 2), case.pick(1, 2), case.pick(1, 3), case.pick(1, 2, 5), case.pick(2, 4)
    flat = case.coin(0.4)
    given: dict[str, Any] = {"q_num_heads": 2 * heads, "kv_num_heads": heads} if flat else {}
    shapes = [(q, 2 * heads, width), (k, heads, width), (k, heads, width)]
    parts = [case.x(batch, n, number * size) if flat else case.x(batch, number, n, size) for n, number, size in shapes]
    past = [case.x(batch, heads, 3, width) for _ in range(2)] if case.coin(0.3) else []
    total = k + (3 if past else 0)
    mask = case.pick("", "", case.x(q, total), case.x(q, total, low=0, high=1, dtype=TensorProto.BOOL))
    if case.coin(0.5):
        given["scale"] = case.pick(1.0, 0.1, 4.0)
    if case.coin(0.3):
        given["softcap"] = case.pick(5.0, 1e-3)
    case.node("Attention", *parts, mask, *past, is_causal=case.pick(0, 0, 1), count=3 if past else 1, **given)


def rotary(case: Case) -> None:
    batch, heads, turns, width = case.pick(1, 2), case.pick(1, 2), case.pick(1, 3), case.pick(4, 8)
    flat, partial = case.coin(), width == 8 and case.coin()
    x = case.x(batch, turns, heads * width) if flat else case.x(batch, heads, turns, width)
    half = width // 4 if partial else width // 2
    placed = case.coin()
    shape = (5, half) if placed else (batch, turns, half)
    caches = [case.floats(*shape, low=-1, high=1) if case.coin() else case.x(*shape) for _ in range(2)]
    places = [case.constant(case.rng.integers(0, 5, (batch, turns)))] if placed else []
    given: dict[str, Any] = {"num_heads": heads} if flat else {}
    given |= {"rotary_embedding_dim": 2 * half, "num_heads": heads} if partial else {}
    case.node("RotaryEmbedding", x, *caches, *places, interleaved=case.pick(0, 1), **given)


def batch_norm(case: Case) -> None:
    x, channels, _, _ = spatial(case)
    least = case.pick(0.0, 0.1, -0.5)
    parts = [case.floats(channels) if case.coin(0.8) else case.x(channels) for _ in range(3)]
    parts.append(case.floats(channels, low=least) if case.coin(0.8) else case.x(channels))
    given: dict[str, Any] = {"epsilon": case.pick(1e-5, 0.1, 1e-40)}
    case.reference = case.opset >= 14  # before, it takes the statistics of the batch
    if case.opset >= 14 and case.coin(0.2):
        case.node("BatchNormalization", x, *parts, count=3, training_mode=1, **given)
    else:
        case.node("BatchNormalization", x, *parts, **given)


def softmax(op_type: str) -> Make:
    def make(case: Case) -> None:
        rank = int(case.rng.integers(1, 4))
        axis = int(case.rng.integers(-rank if case.opset >= 11 else 0, rank))
        y = case.node(op_type, case.x(*case.shape(rank)), axis=axis)
        if op_type == "Softmax" and case.coin():
            y = case.node("Mul", y, case.floats(1, low=0, high=1))
        if op_type == "Softmax" and case.opset < 13 and case.coin():
            case.node("ReduceSum", y, axes=[axis])

    return make


def resize(case: Case) -> None:
    x = case.x(1, 2, 4, 5)
    mode = case.pick("nearest", "linear", "cubic")
    if case.opset < 11:
        case.node("Resize", x, case.constant(np.array([1, 1, 2, 1.5], np.float32)), mode=case.pick("nearest", "linear"))
        return
    scales = [1.0, 1.0, *case.pick((2.0, 2.0), (0.6, 0.6), (1.3, 0.7), (3.0, 1.0), (1.01, 1.0))]
    given: dict[str, Any] = {"mode": mode}
    given["coordinate_transformation_mode"] = case.pick(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
    )
    if mode == "cubic":
        given["cubic_coeff_a"] = case.pick(-0.75, -0.5, 0.25, -1.5)
        given["exclude_outside"] = case.pick(0, 1)
    if case.opset >= 18 and mode != "nearest":
        given["antialias"] = case.pick(0, 1)
    roi = ""
    if case.coin(0.2):
        given["coordinate_transformation_mode"], given["extrapolation_value"] = "tf_crop_and_resize", 7.5
        roi = case.constant(np.array([0, 0, -0.2, 0.1, 1, 1, 1.2, 0.8], np.float32))
    if case.opset < 13 and not roi:
        roi = case.constant(np.zeros(0, np.float32))
    if case.coin(0.3) and not roi:
        case.node("Resize", x, roi, "", case.ints(1, 2, *case.pick((4, 9), (8, 5), (3, 3))), **given)
    else:
        case.node("Resize", x, roi, case.constant(np.array(scales, np.float32)), **given)


def recurrent(case: Case) -> None:
    turns, batch, size, hidden, gates = 3, 2, 3, 4, 4
    ways = case.pick(1, 2)
    given: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "forward"}
    rest = [case.floats(ways, 2 * gates * hidden)] if case.coin() else [""]
    start = [case.x(ways, batch, hidden, low=-3, high=3) for _ in range(2)] if case.coin(0.4) else []
    if start and case.coin(0.4):
        start.append(case.floats(ways, 3 * hidden))
    if case.coin(0.2):
        given["activations"] = ["Sigmoid", "Tanh", "Relu"] * ways
    if case.coin(0.2):
        given["clip"] = 1.5
    weights = case.floats(ways, gates * hidden, size), case.floats(ways, gates * hidden, hidden)
    lengths = [case.constant(np.array([3, 1], np.int32)) if case.coin() else ""] if start else []
    case.node("LSTM", case.x(turns, batch, size), *weights, *rest, *lengths, *start, count=3, **given)


def quantize(case: Case) -> None:
    kind = case.pick(np.int8, np.uint8)
    case.node("QuantizeLinear", case.x(3, 4), case.floats(low=0.01, high=2), case.constant(np.array(3, kind)))


def dequantize(case: Case) -> None:
    kind = case.pick(np.int8, np.uint8, np.int32)
    axis = case.pick(0, 1)
    sizes = [(3, 4)[axis]] if case.opset >= 13 and case.coin() else []
    limits = np.iinfo(kind)
    low, high = case.pick((0, 10), (int(limits.min), int(limits.max)))
    x = case.constant(case.rng.integers(low, high, (3, 4)).astype(kind))
    if case.coin():
        x = case.like(3, 4, low=low, high=high, dtype=int(onnx_type(kind)))
    zero = [case.constant(case.rng.integers(0, 20, sizes).astype(kind))] if case.coin() and kind is not np.int32 else []
    scale = case.floats(*sizes, low=0.01, high=2) if case.coin() else case.x(*sizes)
    case.node("DequantizeLinear", x, scale, *zero, **({"axis": axis} if sizes else {}))


def onnx_type(kind: Any) -> int:
    return {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8, np.int32: TensorProto.INT32}[kind]


def dynamic_quantize(case: Case) -> None:
    q = case.node("DynamicQuantizeLinear", case.x(3, 4), count=3)
    case.node("Identity", f"{q}_")


def integer_product(op_type: str) -> Make:
    """A MatMulInteger or ConvInteger of what DynamicQuantizeLinear gives, times the scale."""

    def make(case: Case) -> None:
        conv = op_type == "ConvInteger"
        if case.opset < 13:
            case.reference = False
        shape, weights = ((2, 3, 5), (4, 3, 2)) if conv else ((2, 5), (5, 4))
        kind = case.pick(np.int8, np.uint8)
        least, most = (-64, 63) if kind is np.int8 else (0, 255)  # ONNX Runtime adds two products in 16 bits
        if case.opset < 11:
            x = case.like(*shape, low=0, high=255, dtype=TensorProto.UINT8)
            zero = case.constant(np.uint8(case.rng.integers(0, 255)))
        else:
            q = case.node("DynamicQuantizeLinear", case.x(*shape), count=3)
            x, zero = q, f"{q}__"
        w = case.constant(case.rng.integers(least, most + 1, weights).astype(kind))
        offset = [case.constant(np.array(case.rng.integers(least, most + 1)).astype(kind))] if case.coin() else []
        case.node(op_type, x, w, zero, *offset, **({"pads": [1, 1]} if conv else {}))

    return make


def dropout(case: Case) -> None:
    if case.opset < 12:
        case.node("Dropout", case.x(3, 4), ratio=0.5)
    else:
        case.node("Dropout", case.x(3, 4), case.floats(low=0.1, high=0.9), case.constant(np.array(case.coin())))


def fourier(case: Case) -> None:
    window = [case.floats(4)] if case.coin() else []
    case.node("STFT", case.x(1, 12, 1), case.scalar(2), *(window or [""]), case.scalar(4))


OPERATORS: dict[str, Make] = {
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "MaxPool": pool("MaxPool"),
    "AveragePool": pool("AveragePool"),
    "GlobalAveragePool": global_pool,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "LayerNormalization": layer_norm("LayerNormalization"),
    "RMSNormalization": layer_norm("RMSNormalization"),
    "InstanceNormalization": instance_norm,
    "BatchNormalization": batch_norm,
    "GroupNormalization": group_norm,
    "Attention": attention,
    "RotaryEmbedding": rotary,
    "Softmax": softmax("Softmax"),
    "LogSoftmax": softmax("LogSoftmax"),
    "Resize": resize,
    "LSTM": recurrent,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": integer_product("MatMulInteger"),
    "ConvInteger": integer_product("ConvInteger"),
    "Dropout": dropout,
    "STFT": fourier,
}
