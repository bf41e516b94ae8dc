"""Layers of networks with random attributes, shapes and ranges: products, convolutions, norms, pools, images."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
from onnx import TensorProto

from tests.ir.bounds.cases import Case, Make


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
    w = case.floats(channels, outputs, *kernel) if case.coin(0.9) else case.x(channels, outputs, *kernel)
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
        if op_type == "LpPool":
            given["p"] = case.pick(1, 2, 3)
        if case.opset >= 10 and op_type != "LpPool" and "auto_pad" not in given:
            given["ceil_mode"] = case.pick(0, 1)
        if case.opset >= (10 if op_type == "MaxPool" else 19) and case.coin(0.3) and op_type != "LpPool":
            given["dilations"] = [case.pick(1, 2) if k * 2 - 1 <= s else 1 for k, s in zip(kernel, sizes, strict=True)]
            given.pop("auto_pad", None)
        case.node(op_type, x, kernel_shape=kernel, **given)

    return make


def global_pool(op_type: str) -> Make:
    def make(case: Case) -> None:
        given = {"p": case.pick(1, 2, 3)} if op_type == "GlobalLpPool" else {}
        case.node(op_type, spatial(case)[0], **given)

    return make


def matmul(case: Case) -> None:
    m, k, n = case.shape(3, 1, case.pick(5, 30))
    shapes = case.pick(
        ((m, k), (k, n)),
        ((k,), (k, n)),
        ((m, k), (k,)),
        ((2, m, k), (k, n)),
        ((m, k), (2, k, n)),
        ((2, m, k), (2, k, n)),
        ((3, 1, m, k), (2, k, n)),
        ((k,), (k,)),
    )
    sides = [case.floats(*shape) if case.coin(0.3) else case.x(*shape) for shape in shapes]
    if case.coin(0.2):
        sides[0] = case.node("Softmax", sides[0], axis=len(shapes[0]) - 1)
    case.node("MatMul", *sides)


def gemm(case: Case) -> None:
    m, k, n = case.shape(3)
    ta, tb = case.pick(0, 1), case.pick(0, 1)
    a = case.x(*((k, m) if ta else (m, k)))
    shape = (n, k) if tb else (k, n)
    b = case.floats(*shape) if case.coin() else case.x(*shape)
    c = [case.x(*case.pick((m, n), (n,), (1, n), (m, 1), (1,)))] if case.coin() or case.opset < 11 else []
    case.node("Gemm", a, b, *c, transA=ta, transB=tb, alpha=case.pick(1.0, -0.5, 3.0), beta=case.pick(1.0, -2.0, 0.0))


def einsum(case: Case) -> None:
    m, k, n = case.shape(3)
    equation, shapes = case.pick(
        ("ij,jk->ik", [(m, k), (k, n)]),
        ("ij,kj->ik", [(m, k), (n, k)]),
        ("bij,bjk->bik", [(2, m, k), (2, k, n)]),
        ("ij->ji", [(m, k)]),
        ("ij->", [(m, k)]),
        ("ii->i", [(m, m)]),
        ("i,i", [(m,), (m,)]),
        ("i,j->ij", [(m,), (n,)]),
        ("bhqd,bhkd->bhqk", [(1, 2, m, k), (1, 2, n, k)]),
        ("ij,jk,kl->il", [(m, k), (k, n), (n, 2)]),
        ("...ij,...jk->...ik", [(2, m, k), (2, k, n)]),
    )
    case.node("Einsum", *(case.floats(*s) if case.coin(0.4) else case.x(*s) for s in shapes), equation=equation)


def layer_norm(case: Case) -> None:
    shape = case.shape(3, 1, case.pick(5, 30))
    axis = case.pick(-1, 1, 2)
    tail = shape[axis:]
    bias = [case.floats(*tail)] if case.coin() else []
    scale = case.floats(*tail) if case.coin(0.7) else case.x(*tail)
    given = {"epsilon": case.pick(1e-5, 1e-12, 0.1)}
    case.node("LayerNormalization", case.x(*shape), scale, *bias, axis=axis, **given)


def rms_norm(case: Case) -> None:
    shape = case.shape(3, 1, case.pick(5, 30))
    axis = case.pick(-1, 1, 2)
    given = {"epsilon": case.pick(1e-5, 1e-12, 0.1, 0.0)}
    case.reference = case.dtype != TensorProto.FLOAT16  # it computes the norm in float16
    case.node("RMSNormalization", case.x(*shape), case.floats(*shape[axis:]), axis=axis, **given)


def instance_norm(case: Case) -> None:
    x, channels, _, _ = spatial(case)
    given = {"epsilon": case.pick(1e-5, 0.1)}
    case.node("InstanceNormalization", x, case.floats(channels), case.floats(channels), **given)


def group_norm(case: Case) -> None:
    x, channels, _, _ = spatial(case, 4)
    groups = case.pick(1, 2, 4)
    count = channels if case.opset >= 21 else groups
    given = {"epsilon": case.pick(1e-5, 0.1)}
    case.node("GroupNormalization", x, case.floats(count), case.floats(count), num_groups=groups, **given)


def batch_norm(case: Case) -> None:
    x, channels, _, _ = spatial(case)
    least = case.pick(0.0, 0.1, -0.5)
    parts = [case.floats(channels) if case.coin(0.8) else case.x(channels) for _ in range(3)]
    parts.append(case.floats(channels, low=least) if case.coin(0.8) else case.x(channels))
    given: dict[str, Any] = {"epsilon": case.pick(1e-5, 0.1)}
    case.reference = case.opset >= 14  # before, it takes the statistics of the batch
    if case.opset >= 14 and case.coin(0.2):
        case.node("BatchNormalization", x, *parts, count=3, training_mode=1, **given)
    else:
        case.node("BatchNormalization", x, *parts, **given)


def lp_norm(case: Case) -> None:
    rank = int(case.rng.integers(1, 4))
    power = case.pick(1, 2)
    case.reference = power == 2  # it sums up elements, not their absolute values
    case.node("LpNormalization", case.x(*case.shape(rank)), axis=case.pick(-1, 0), p=power)


def mean_variance(case: Case) -> None:
    rank = int(case.rng.integers(2, 5))
    given = {"axes": sorted({0, rank - 1})} if case.coin() or rank < 4 else {}
    case.node("MeanVarianceNormalization", case.x(*case.shape(rank)), **given)


def local_response(case: Case) -> None:
    x = case.x(1, 5, 2, 2)
    given = {"alpha": case.pick(1e-4, 0.5), "beta": case.pick(0.75, 0.0, 2.0), "bias": case.pick(1.0, 0.1, 3.0)}
    case.node("LRN", x, size=case.pick(1, 3, 5), **given)


def softmax(op_type: str) -> Make:
    def make(case: Case) -> None:
        rank = int(case.rng.integers(1, 4))
        x = case.x(*case.shape(rank))
        axis = int(case.rng.integers(-rank if case.opset >= 11 else 0, rank))
        y = case.node(op_type, x, axis=axis)
        if op_type == "Softmax" and case.coin():
            case.node("MatMul", y, case.floats(*case.shape(0))) if rank == 0 else case.node("Mul", y, case.floats(1))

    return make


def resize(case: Case) -> None:
    x = case.x(1, 2, 4, 5)
    mode = case.pick("nearest", "linear", "cubic")
    if case.opset < 11:
        case.node("Resize", x, case.constant(np.array([1, 1, 2, 1.5], np.float32)), mode=case.pick("nearest", "linear"))
        return
    scales = [1.0, 1.0, *case.pick((2.0, 2.0), (0.6, 0.6), (1.3, 0.7), (3.0, 1.0))]
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
    case.node("Resize", x, roi, case.constant(np.array(scales, np.float32)), **given)


def upsample(case: Case) -> None:
    scales = [1.0, 1.0, 2.0, 3.0]
    x, mode = case.x(1, 2, 3, 4), case.pick("nearest", "linear")
    if case.opset < 9:
        case.node("Upsample", x, scales=scales, mode=mode)
    else:
        case.node("Upsample", x, case.constant(np.array(scales, np.float32)), mode=mode)


def grid_sample(case: Case) -> None:
    modes = ("bilinear", "nearest", "bicubic") if case.opset < 20 else ("linear", "nearest", "cubic")
    places = case.like(1, 3, 3, 2, low=-1.5, high=1.5)
    given = {"mode": case.pick(*modes), "padding_mode": case.pick("zeros", "border", "reflection")}
    case.node("GridSample", case.x(1, 2, 4, 5), places, align_corners=case.pick(0, 1), **given)


def roi_align(case: Case) -> None:
    rois = case.constant(np.array([[0, 0, 3, 3], [1, 1, 2.5, 3.5], [-1, -2, 6, 5]], case_type(case)))
    given = {"mode": case.pick("avg", "max"), "output_height": 2, "output_width": 2, "sampling_ratio": case.pick(0, 2)}
    case.node("RoiAlign", case.x(1, 2, 4, 4), rois, case.constant(np.zeros(3, np.int64)), **given)


def max_roi_pool(case: Case) -> None:
    rois = case.constant(np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 3]], case_type(case)))
    case.node("MaxRoiPool", case.x(1, 2, 4, 4), rois, pooled_shape=[2, 2])


def case_type(case: Case) -> Any:
    return onnx.helper.tensor_dtype_to_np_dtype(case.dtype)


def max_unpool(case: Case) -> None:
    indices = case.constant(np.array([[[[0, 3], [9, 14]]]], np.int64))
    case.node("MaxUnpool", case.x(1, 1, 2, 2), indices, kernel_shape=[2, 2], strides=[2, 2])


def col2im(case: Case) -> None:
    case.node("Col2Im", case.x(1, 4, 9), case.ints(4, 4), case.ints(2, 2))


def deform_conv(case: Case) -> None:
    x, offset = case.x(1, 2, 4, 4), case.like(1, 8, 3, 3, low=-1, high=1)
    mask = [case.floats(3), case.like(1, 4, 3, 3, low=-1, high=2)] if case.coin() else []
    case.node("DeformConv", x, case.floats(3, 2, 2, 2), offset, *mask)


def recurrent(op_type: str) -> Make:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]

    def make(case: Case) -> None:
        turns, batch, size, hidden = 3, 2, 3, 4
        ways = case.pick(1, 2)
        given: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "forward"}
        rest = [case.floats(ways, 2 * gates * hidden)] if case.coin() else [""]
        start = [case.x(ways, batch, hidden, low=-3, high=3)] if case.coin(0.4) else []
        if start and op_type == "LSTM":
            start.append(case.x(ways, batch, hidden, low=-3, high=3))
        if op_type == "LSTM" and start and case.coin(0.4):
            start.append(case.floats(ways, 3 * hidden))
        if op_type == "GRU":
            given["linear_before_reset"] = case.pick(0, 1)
        kinds = {"RNN": [["Relu"], ["Sigmoid"]], "GRU": [["Sigmoid", "Relu"]], "LSTM": [["Sigmoid", "Tanh", "Relu"]]}
        if case.coin(0.2):
            given["activations"] = case.pick(*kinds[op_type]) * ways
        if case.coin(0.2):
            given["clip"] = 1.5
        weights = case.floats(ways, gates * hidden, size), case.floats(ways, gates * hidden, hidden)
        lengths = [""] if start else []
        count = 3 if op_type == "LSTM" else 2
        case.node(op_type, case.x(turns, batch, size), *weights, *rest, *lengths, *start, count=count, **given)

    return make


def attention(case: Case) -> None:
    q, k = case.x(1, 2, 3, 4), case.x(1, 2, 5, 4)
    mask = [case.x(3, 5, low=-10, high=0)] if case.coin(0.4) else []
    given: dict[str, Any] = {"is_causal": case.pick(0, 1)}
    if case.coin(0.3):
        given["softcap"] = 5.0
    case.node("Attention", q, k, case.x(1, 2, 5, 6), *mask, **given)


def rotary(case: Case) -> None:
    cosines = [case.like(4, 2, low=-1, high=1) for _ in range(2)]
    places = case.constant(case.rng.integers(0, 4, (1, 3)))
    case.node("RotaryEmbedding", case.x(1, 2, 3, 4), *cosines, places, interleaved=case.pick(0, 1))


def losses(op_type: str) -> Make:
    def make(case: Case) -> None:
        labels = case.constant(case.rng.integers(0, 4, (3,)))
        weights = [case.floats(4, low=0.1)] if case.coin(0.4) else []
        case.node(op_type, case.x(3, 4), labels, *weights, reduction=case.pick("none", "sum", "mean"))

    return make


def quantize(case: Case) -> None:
    kind = case.pick(np.int8, np.uint8)
    axis = case.pick(0, 1)
    per_axis = case.opset >= 13 and case.coin()
    case.dtype = TensorProto.FLOAT
    sizes = [(3, 4)[axis]] if per_axis else []
    scale = case.floats(*sizes, low=0.01, high=2)
    zero = [case.constant(case.rng.integers(0, 20, sizes).astype(kind))] if case.coin(0.8) or kind is np.int8 else []
    given = {"axis": axis} if per_axis else {}
    case.node(
        "DequantizeLinear", case.node("QuantizeLinear", case.x(3, 4), scale, *zero, **given), scale, *zero, **given
    )


def dynamic_quantize(case: Case) -> None:
    case.dtype = TensorProto.FLOAT
    q = case.node("DynamicQuantizeLinear", case.x(3, 4), count=3)
    case.node("Identity", f"{q}_")


def integer_product(case: Case) -> None:
    """A MatMulInteger or ConvInteger of what DynamicQuantizeLinear gives, times the scale."""
    case.dtype, conv = TensorProto.FLOAT, case.coin(0.4)
    if case.opset < 13:
        case.reference = False
    shape, weights = ((2, 3, 5), (4, 3, 2)) if conv else ((2, 5), (5, 4))
    kind = case.pick(np.int8, np.uint8)
    # Signed weights of 7 bits: without VNNI, the kernels of ONNX Runtime saturate sums of two products to int16.
    least, most = (-64, 63) if kind is np.int8 else (0, 255)
    q = case.node("DynamicQuantizeLinear", case.x(*shape), count=3)
    w = case.constant(case.rng.integers(least, most + 1, weights).astype(kind))
    zero = [case.constant(np.array(case.rng.integers(least, most + 1)).astype(kind))] if case.coin() else []
    pads = {"pads": [1, 1]} if conv else {}
    product = case.node("ConvInteger" if conv else "MatMulInteger", q, w, f"{q}__", *zero, **pads)
    case.node("Mul", case.node("Cast", product, to=1), f"{q}_")


def swiglu(case: Case) -> None:
    a = case.x(2, 3)
    case.node("SwiGLU", a, a if case.coin(0.2) else case.x(2, 3), alpha=case.pick(1.0, 0.5, 3.0, 1.702))


def dropout(case: Case) -> None:
    if case.opset < 12:
        case.node("Dropout", case.x(3, 4), ratio=0.5)
    else:
        case.node("Dropout", case.x(3, 4), case.floats(low=0.1, high=0.9), case.constant(np.array(case.coin())))
