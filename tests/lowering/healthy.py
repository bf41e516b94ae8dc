"""Healthy float16 exports: common architectures with random weights of ordinary sizes, at the opsets of their time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lowering.shipped import Case, draw, layer_norm, rms_norm

_WIDTH, _STEPS, _IMAGE = 32, 6, "float[1, 3, 16, 16]"
_NORM: dict[str, Any] = {
    "two": np.float32(2),
    "eps": np.float32(1e-5),
    "gain": np.abs(draw(_WIDTH, seed=3)) + np.float32(0.5),
    "shift": draw(_WIDTH, scale=0.1, seed=4),
}
_CAUSAL = np.triu(np.full((_STEPS, _STEPS), -65504, np.float32), 1)
_ROOT = np.float32(_WIDTH**-0.5)


def _weights(*names: str, rows: int = _WIDTH, columns: int = _WIDTH) -> dict[str, Any]:
    return {n: draw(rows, columns, scale=rows**-0.5, seed=seed) for seed, n in enumerate(names, start=20)}


def _kernel(name: str, *shape: int, seed: int = 40) -> dict[str, Any]:
    return {name: draw(*shape, scale=float(np.prod(shape[1:])) ** -0.5, seed=seed)}


def _bias(name: str, size: int) -> dict[str, Any]:
    return {name: draw(size, scale=0.1, seed=60)}


def _attention(source: str, result: str, *, memory: str = "", mask: str = "", scaled: str = "root") -> str:
    """The nodes of attention; the mask is added, and a memory makes it cross attention."""
    m = memory or source
    masked = f"{result}_m = Add ({result}_s, {mask})" if mask else f"{result}_m = Identity ({result}_s)"
    return (
        f" {result}_q = MatMul ({source}, wq) {result}_qs = Mul ({result}_q, {scaled}) {result}_k = MatMul ({m}, wk)"
        f" {result}_v = MatMul ({m}, wv) {result}_t = Transpose <perm = [0, 2, 1]> ({result}_k)"
        f" {result}_s = MatMul ({result}_qs, {result}_t) {masked} {result}_p = Softmax <axis = -1> ({result}_m)"
        f" {result}_o = MatMul ({result}_p, {result}_v) {result} = MatMul ({result}_o, wo) "
    )


def _gelu(source: str, result: str) -> str:
    r = result
    return (
        f" {r}_d = Div ({source}, rt2) {r}_e = Erf ({r}_d) {r}_1 = Add ({r}_e, one) {r}_m = Mul ({source}, {r}_1)"
        f" {r} = Mul ({r}_m, half) "
    )


_GELU = {"rt2": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
_HEADS = {**_weights("wq", "wk", "wv", "wo"), "root": _ROOT}


def _ffn(source: str, result: str, act: str) -> str:
    return f" {result}_u = MatMul ({source}, wu) {act} {result} = MatMul ({result}_a, wd) "


_SILU = "f_g = MatMul (n2, wg) f_i = Sigmoid (f_g) f_l = Mul (f_g, f_i) f_a = Mul (f_l, f_u)"
_BIG = {**_weights("wu", "wg", columns=64), **_weights("wd", rows=64), **_weights("w1")}

TEXT = [
    Case(
        "a decoder with RMSNorm, a causal mask and a gated feed-forward",
        "",
        f"{rms_norm('x', 'n1')} {_attention('n1', 'a', mask='causal')} h = Add (x, a) {rms_norm('h', 'n2')}"
        f" {_ffn('n2', 'f', _SILU)} h2 = Add (h, f) {rms_norm('h2', 'n3')} y = MatMul (n3, w1)",
        {**_NORM, **_HEADS, **_BIG, "causal": _CAUSAL},
        opset=14,
    ),
    Case(
        "a decoder with rotary positions",
        "",
        f"{rms_norm('x', 'n')} q = MatMul (n, wq) a, b = Split <axis = -1> (q, halves) nb = Neg (b)"
        " r = Concat <axis = -1> (nb, a) qc = Mul (q, cos) rs = Mul (r, sin) rot = Add (qc, rs)"
        " t = Transpose <perm = [0, 2, 1]> (rot) s = MatMul (rot, t) d = Mul (s, root) p = Softmax (d)"
        " v = MatMul (p, n) y = MatMul (v, w1)",
        {
            **_NORM,
            **_HEADS,
            **_BIG,
            "halves": np.array([16, 16]),
            "cos": np.cos(np.outer(np.arange(6), np.arange(32)) / 9).astype(np.float32),
            "sin": np.sin(np.outer(np.arange(6), np.arange(32)) / 9).astype(np.float32),
        },
        opset=13,
    ),
    Case(
        "an encoder with LayerNormalization and Gelu by Erf",
        "",
        f"{_attention('x', 'a')} h = Add (x, a) n = LayerNormalization (h, gain, shift)"
        f" u = MatMul (n, wu) {_gelu('u', 'g')} d = MatMul (g, wd) h2 = Add (n, d)"
        " y = LayerNormalization (h2, gain, shift)",
        {**_NORM, **_HEADS, **_BIG, **_GELU},
    ),
    Case(
        "an old encoder with its layer norm written out",
        "",
        f"{_attention('x', 'a')} h = Add (x, a) {layer_norm('h', 'n')} u = MatMul (n, wu) r = Relu (u)"
        f" d = MatMul (r, wd) h2 = Add (n, d) {layer_norm('h2', 'o')} y = MatMul (o, w1)",
        {**_NORM, **_HEADS, **_BIG},
        opset=11,
    ),
    Case(
        "T5 with relative positions and no scale of its scores",
        "",
        f"{rms_norm('x', 'n1')} {_attention('n1', 'a', mask='bias', scaled='one')} h = Add (x, a)"
        f" {rms_norm('h', 'n2')} u = MatMul (n2, wu) r = Relu (u) d = MatMul (r, wd) h2 = Add (h, d)"
        f" {rms_norm('h2', 'n3')} y = MatMul (n3, w1)",
        {**_NORM, **_HEADS, **_BIG, **_GELU, "bias": draw(6, 6, seed=50), "wq": draw(32, 32, scale=0.03, seed=51)},
        opset=12,
    ),
    Case(
        "a text encoder with quick Gelu and an embedding of length 1",
        "",
        f"{_attention('x', 'a', mask='causal')} h = Add (x, a) n = LayerNormalization (h, gain, shift)"
        " u = MatMul (n, wu) c = Mul (u, quick) s = Sigmoid (c) g = Mul (u, s) d = MatMul (g, wd)"
        " l = ReduceL2 <axes = [-1]> (d) y = Div (d, l)",
        {**_NORM, **_HEADS, **_BIG, "causal": _CAUSAL, "quick": np.float32(1.702)},
    ),
    Case(
        "a decoder with cross attention",
        "",
        f"{_attention('x', 'a', mask='causal')} h = Add (x, a) {_attention('h', 'c', memory='memory')}"
        " h2 = Add (h, c) n = LayerNormalization (h2, gain, shift) y = MatMul (n, w1)",
        {**_NORM, **_HEADS, **_BIG, "causal": _CAUSAL},
        more={"memory": draw(2, 9, 32, seed=52)},
        opset=18,
    ),
    Case(
        "a mixture of experts with the two best of four",
        "",
        "g = MatMul (x, wr) p = Softmax (g) best, which = TopK <axis = -1> (p, k) t = ReduceSum (best, last)"
        " share = Div (best, t) e = ScatterElements <axis = -1> (none, which, share) a = MatMul (x, wu) r = Relu (a)"
        " d = MatMul (r, wd) f, f1, f2, f3 = Split <axis = -1> (e, ones) y = Mul (d, f)",
        {
            **_BIG,
            **_weights("wr", columns=4),
            "k": np.array([2]),
            "last": np.array([-1]),
            "none": np.zeros((2, 6, 4), np.float32),
            "ones": np.ones(4, np.int64),
        },
        opset=16,
    ),
    Case(
        "a state space with Softplus and a cumulative sum",
        "",
        f"{rms_norm('x', 'n')} d = MatMul (n, wq) s = Softplus (d) a = Neg (s) c = CumSum (a, axis) e = Exp (c)"
        " b = MatMul (n, wk) m = Mul (b, e) z = MatMul (n, wv) i = Sigmoid (z) l = Mul (z, i) g = Mul (m, l)"
        " o = MatMul (g, wo) y = Add (x, o)",
        {**_NORM, **_HEADS, "axis": np.array(1)},
    ),
    Case(
        "time steps by sines, as diffusion models embed them",
        "",
        "f = Mul (x, freq) s = Sin (f) c = Cos (f) e = Concat <axis = -1> (s, c) u = MatMul (e, w2) i = Sigmoid (u)"
        " l = Mul (u, i) y = MatMul (l, w1)",
        {**_BIG, **_weights("w2", rows=64), "freq": np.exp(-np.arange(32) / 4).astype(np.float32)},
        opset=15,
    ),
]


def _conv(source: str, result: str, weight: str, attributes: str = "pads = [1, 1, 1, 1]") -> str:
    return f" {result} = Conv <{attributes}> ({source}, {weight}) "


def _pooled(source: str, result: str) -> str:
    return f" {result} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ({source}) "


_BN = {
    "bs": np.abs(draw(8, seed=70)) + np.float32(0.5),
    "bb": draw(8, scale=0.1, seed=71),
    "bm": draw(8, scale=0.2, seed=72),
    "bv": np.abs(draw(8, seed=73)) + np.float32(0.5),
}
_FIRST = _kernel("k0", 8, 3, 3, 3)
_NEXT = _kernel("k1", 8, 8, 3, 3, seed=41)
_HEAD = {**_weights("wh", rows=8, columns=10), "flat": np.array([1, 8])}
_TO_HEAD = "p = GlobalAveragePool (last) f = Reshape (p, flat) y = MatMul (f, wh)"

IMAGE = [
    Case(
        "a residual net with batch normalization",
        "",
        f"{_conv('x', 'c', 'k0')} b = BatchNormalization (c, bs, bb, bm, bv) r = Relu (b) {_conv('r', 'd', 'k1')}"
        f" b2 = BatchNormalization (d, bs, bb, bm, bv) s = Add (b2, r) last = Relu (s) {_TO_HEAD}",
        {**_FIRST, **_NEXT, **_BN, **_HEAD},
        input_type=_IMAGE,
        output_type="float[1, 10]",
        opset=11,
    ),
    Case(
        "a mobile net with depthwise convolutions and hard swish",
        "",
        f"{_conv('x', 'c', 'k0')} h = Add (c, three) g = Clip (h, zero, six) m = Mul (c, g) w = Div (m, six)"
        f" {_conv('w', 'd', 'kd', 'group = 8, pads = [1, 1, 1, 1]')} sq = GlobalAveragePool (d)"
        f" e = Conv (sq, k2) i = Sigmoid (e) last = Mul (d, i) {_TO_HEAD}",
        {
            **_FIRST,
            **_kernel("kd", 8, 1, 3, 3),
            **_kernel("k2", 8, 8, 1, 1),
            **_HEAD,
            "three": np.float32(3),
            "zero": np.float32(0),
            "six": np.float32(6),
        },
        input_type=_IMAGE,
        output_type="float[1, 10]",
        opset=13,
    ),
    Case(
        "a U-Net with group normalization as InstanceNormalization",
        "",
        f"{_conv('x', 'c', 'k0')} g = Reshape (c, groups) n = InstanceNormalization <epsilon = 1e-5> (g, is, ib)"
        f" o = Reshape (n, back) i = Sigmoid (o) l = Mul (o, i) {_pooled('l', 'd')}"
        " u = ConvTranspose <strides = [2, 2]> (d, kt) j = Concat <axis = 1> (u, l)"
        f" {_conv('j', 'y', 'k3')}",
        {
            **_FIRST,
            **_kernel("kt", 8, 8, 2, 2),
            **_kernel("k3", 3, 16, 3, 3),
            "groups": np.array([1, 2, -1]),
            "back": np.array([1, 8, 16, 16]),
            "is": np.ones(2, np.float32),
            "ib": np.zeros(2, np.float32),
        },
        input_type=_IMAGE,
        output_type=_IMAGE,
        opset=17,
    ),
    Case(
        "a vision transformer",
        "",
        "c = Conv <strides = [4, 4]> (x, kp) f = Reshape (c, tokens) t = Transpose <perm = [0, 2, 1]> (f)"
        f" e = Add (t, positions) n = LayerNormalization (e, gain, shift) {_attention('n', 'a')} h = Add (e, a)"
        f" n2 = LayerNormalization (h, gain, shift) u = MatMul (n2, wu) {_gelu('u', 'g')} d = MatMul (g, wd)"
        " h2 = Add (h, d) m = ReduceMean <axes = [1], keepdims = 0> (h2) y = MatMul (m, w1)",
        {
            **_NORM,
            **_HEADS,
            **_BIG,
            **_GELU,
            **_kernel("kp", 32, 3, 4, 4),
            "tokens": np.array([1, 32, 16]),
            "positions": draw(16, 32, scale=0.02, seed=75),
        },
        input_type=_IMAGE,
        output_type="float[1, 32]",
    ),
    Case(
        "ConvNeXt with a layer norm over channels and a scale of each",
        "",
        "c = Conv <strides = [4, 4]> (x, kp) d = Conv <group = 32, pads = [3, 3, 3, 3]> (c, k7)"
        " t = Transpose <perm = [0, 2, 3, 1]> (d) n = LayerNormalization (t, gain, shift) u = MatMul (n, wu)"
        f" {_gelu('u', 'g')} o = MatMul (g, wd) s = Mul (o, gamma) b = Transpose <perm = [0, 3, 1, 2]> (s)"
        " y = Add (c, b)",
        {
            **_NORM,
            **_BIG,
            **_GELU,
            **_kernel("kp", 32, 3, 4, 4),
            **_kernel("k7", 32, 1, 7, 7),
            "gamma": np.full(32, 1e-3, np.float32),
        },
        input_type=_IMAGE,
        output_type="float[1, 32, 4, 4]",
        opset=20,
    ),
    Case(
        "a detector with SiLU, Resize and boxes in pixels",
        "",
        f"{_conv('x', 'c', 'k0')} i = Sigmoid (c) l = Mul (c, i) {_pooled('l', 'm')}"
        ' u = Resize <mode = "nearest"> (m, , , sizes) j = Concat <axis = 1> (u, l)'
        f" {_conv('j', 'd', 'k3')} s = Sigmoid (d) b = Mul (s, pixels) y = Add (b, shift8)",
        {
            **_FIRST,
            **_kernel("k3", 3, 16, 3, 3),
            "sizes": np.array([1, 8, 16, 16]),
            "pixels": np.float32(640),
            "shift8": np.float32(8),
        },
        input_type=_IMAGE,
        output_type=_IMAGE,
        opset=13,
    ),
    Case(
        "a style net with instance normalization and Tanh",
        "",
        f"{_conv('x', 'c', 'k0')} n = InstanceNormalization <epsilon = 1e-5> (c, bs, bb) r = LeakyRelu (n)"
        f" {_conv('r', 'd', 'k4')} t = Tanh (d) z = Mul (t, s) y = Add (z, s)",
        {**_FIRST, **_BN, **_kernel("k4", 3, 8, 3, 3), "s": np.float32(127.5)},
        input_type=_IMAGE,
        output_type=_IMAGE,
        opset=9,
    ),
]
SOUND = [
    Case(
        "whisper: convolutions over a spectrum, and an encoder",
        "",
        f"c = Conv <pads = [1, 1]> (x, ks, cb) {_gelu('c', 'g')} d = Conv <pads = [1, 1], strides = [2]> (g, ks2)"
        f" t = Transpose <perm = [0, 2, 1]> (d) n = LayerNormalization (t, gain, shift) {_attention('n', 'a')}"
        " h = Add (t, a) y = LayerNormalization (h, gain, shift)",
        {**_NORM, **_HEADS, **_GELU, **_kernel("ks", 32, 8, 3), **_kernel("ks2", 32, 32, 3), **_bias("cb", 32)},
        input_type="float[1, 8, 20]",
        output_type="float[1, 10, 32]",
    ),
    Case(
        "a Conformer with a gated convolution",
        "",
        "n = LayerNormalization (x, gain, shift) u = MatMul (n, wu) a, b = Split <axis = -1> (u, halves)"
        " s = Sigmoid (b) g = Mul (a, s) t = Transpose <perm = [0, 2, 1]> (g)"
        " c = Conv <group = 32, pads = [2, 2]> (t, k5)"
        " i = Sigmoid (c) l = Mul (c, i) o = Transpose <perm = [0, 2, 1]> (l) m = Mul (o, half) y = Add (x, m)",
        {**_NORM, **_BIG, **_GELU, **_kernel("k5", 32, 1, 5), "halves": np.array([32, 32])},
    ),
    Case(
        "log mel features",
        "",
        "e = Mul (x, x) m = MatMul (e, wq2) f = Max (m, floor) l = Log (f) top = ReduceMax <keepdims = 0> (l)"
        " low = Sub (top, eight) c = Max (l, low) d = Add (c, four) y = Div (d, four)",
        {
            "wq2": np.abs(draw(32, 32, scale=0.1, seed=80)),
            "floor": np.float32(1e-4),
            "eight": np.float32(8),
            "four": np.float32(4),
        },
        opset=13,
    ),
]
HEALTHY_EXPORTS = [*TEXT, *IMAGE, *SOUND]
