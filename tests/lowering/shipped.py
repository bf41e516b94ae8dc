"""float16 models as they are shipped, each rebuilt from a public thread: its architecture with random weights, scaled.

`Case.original` is the model in float, `Case.shipped` is what a plain conversion of all types makes of it. The last
cases are healthy: what overflows or vanishes there is absorbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]
_WIDTH = 32


def draw(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A model, and how it goes wrong.

    Attributes:
        name: What it is.
        thread: Where it was reported; empty for a healthy model.
        body: Its nodes, from x, of 32 columns, to y.
        weights: Its constants; w0 and w1 are 32 by 32.
        scale: The magnitude of the input.
        more: Further inputs.
        limit: The error that is to be reached: what float16 loses without overflow.
        functions: Functions of the domain `own`.
    """

    name: str
    thread: str
    body: str
    weights: Mapping[str, Any]
    scale: float = 1.0
    more: Mapping[str, Array] = field(default_factory=dict[str, Array])
    input_type: str = "float[2, 6, 32]"
    output_type: str = "float[2, 6, 32]"
    opset: int = 17
    limit: float = 5e-3
    functions: str = ""

    def __str__(self) -> str:
        return self.name

    def original(self) -> ModelProto:
        """The model in float."""
        more = "".join(f", float{list(array.shape)} {name}" for name, array in self.more.items())
        own = ', "own": 1' if self.functions else ""
        head = f'<ir_version: 8, opset_import: ["": {self.opset}{own}]>'
        graph = f"g ({self.input_type} x{more}) => ({self.output_type} y) {{ {self.body} }}"
        model = onnx.parser.parse_model(f"{head} {graph} {self.functions}")
        for name, array in self.weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return model

    def shipped(self) -> ModelProto:
        """The model with all of its types replaced by float16."""
        model = self.original()
        for scope in (model.graph, *model.functions):
            _halve(scope)
        return model

    def inputs(self) -> dict[str, Array]:
        """The inputs in float, of numbers that float16 has."""
        shape = [int(size) for size in self.input_type.partition("[")[2].rstrip("]").split(",")]
        inputs = {"x": draw(*shape, scale=self.scale, seed=9), **self.more}
        return {name: array.astype(np.float16).astype(np.float32) for name, array in inputs.items()}

    def error(self, model: ModelProto) -> float:
        """The largest error of the output, relative to its largest element, where float16 rounds."""
        (expected,) = run(self.original(), self.inputs())
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        (output,) = run(model, {n: a.astype(_NUMPY[types[n]]) for n, a in self.inputs().items()})
        with np.errstate(all="ignore"):
            error = np.abs(output.astype(np.float64) - expected).max() / np.abs(expected).max()
        return float(error) if np.isfinite(error) else np.inf


_NUMPY: dict[int, Any] = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}


def run(model: ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
    """Return the outputs as the reference implementation computes them."""
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, dict(inputs)))  # pyright: ignore[reportArgumentType]


def _halve(graph: GraphProto | FunctionProto) -> None:
    for tensor in graph.initializer if isinstance(graph, GraphProto) else ():
        _halve_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info) if isinstance(graph, GraphProto) else ():
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.FLOAT16
        if attribute.type == AttributeProto.TENSOR:
            _halve_tensor(attribute.t)
        if attribute.type == AttributeProto.GRAPH:
            _halve(attribute.g)


def _halve_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        with np.errstate(over="ignore"):
            array = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def rms_norm(source: str, result: str) -> str:
    """The nodes of an RMSNorm as exporters write it."""
    r = result
    return (
        f"{r}_sq = Pow ({source}, two) {r}_mean = ReduceMean <axes = [-1]> ({r}_sq) {r}_var = Add ({r}_mean, eps)"
        f" {r}_std = Sqrt ({r}_var) {r}_inv = Reciprocal ({r}_std) {r}_norm = Mul ({source}, {r}_inv)"
        f" {r} = Mul ({r}_norm, gain)"
    )


def layer_norm(source: str, result: str) -> str:
    """The nodes of a LayerNormalization as exporters write it."""
    r = result
    return (
        f"{r}_mean = ReduceMean <axes = [-1]> ({source}) {r}_d = Sub ({source}, {r}_mean) {r}_sq = Pow ({r}_d, two)"
        f" {r}_v = ReduceMean <axes = [-1]> ({r}_sq) {r}_var = Add ({r}_v, eps) {r}_std = Sqrt ({r}_var)"
        f" {r}_n = Div ({r}_d, {r}_std) {r}_g = Mul ({r}_n, gain) {r} = Add ({r}_g, shift)"
    )


def attention(scale: str) -> str:
    """The nodes of attention: the scores are made before they are scaled."""
    return (
        "q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv) kt = Transpose <perm = [0, 2, 1]> (k)"
        f" scores = MatMul (q, kt) {scale} p = Softmax (scaled) mixed = MatMul (p, v)"
    )


_NORM = {
    "two": np.float32(2),
    "eps": np.float32(1e-6),
    "gain": np.abs(draw(_WIDTH, seed=3)) + np.float32(0.5),
    "shift": draw(_WIDTH, seed=4),
}
_LAST = {"w1": draw(_WIDTH, _WIDTH, scale=0.2, seed=2)}


def _square(scale: float, seed: int = 1, rows: int = _WIDTH, columns: int = _WIDTH) -> Array:
    return draw(rows, columns, scale=scale, seed=seed)


def _blocks(count: int) -> str:
    text, stream = "", "x"
    for block in range(count):
        text += f" {rms_norm(stream, f'n{block}')} up{block} = MatMul (n{block}, wu) act{block} = Relu (up{block})"
        text += f" down{block} = MatMul (act{block}, wd) h{block} = Add ({stream}, down{block})"
        stream = f"h{block}"
    return f"{text} {rms_norm(stream, 'n')} y = MatMul (n, w1)"


BROKEN = [
    Case(
        "LayerNorm written out, after a large residual",
        "NVIDIA/TensorRT#2564",
        f"m = MatMul (x, w0) h = Add (x, m) {layer_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(100)},
    ),
    Case(
        "RMSNorm written out, whose result becomes 0",
        "microsoft/onnxruntime#31626",
        f"m = MatMul (x, w0) h = Add (x, m) {rms_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(200)},
    ),
    Case(
        "the residual stream of Gemma 3 grows beyond float16",
        "microsoft/onnxruntime#26732",
        _blocks(4),
        {**_NORM, **_LAST, "wu": _square(5), "wd": _square(400, 5)},
    ),
    Case(
        "the residual stream of gpt-oss, with channels far above the others",
        "ROCm/hip-ep#168",
        f"m = MatMul (x, w0) h = Add (x, m) b = Mul (h, massive) {rms_norm('b', 'n')} a = MatMul (n, w1)"
        f" h2 = Add (b, a) {rms_norm('h2', 'o')} y = MatMul (o, w1)",
        {**_NORM, **_LAST, "w0": _square(1), "massive": np.where(np.arange(_WIDTH) == 5, 2e4, 1).astype(np.float32)},
    ),
    Case(
        "the last product of the feed-forward of T5 exceeds 65504",
        "huggingface/transformers#5651",
        f"{rms_norm('x', 'n')} g = MatMul (n, wu) act = Relu (g) lin = MatMul (n, wl) h = Mul (act, lin)"
        f" d = MatMul (h, wd) r = Add (x, d) {rms_norm('r', 'o')} y = MatMul (o, w1)",
        {**_NORM, **_LAST, "wu": _square(5), "wl": _square(5, 5), "wd": _square(20, 6)},
    ),
    Case(
        "a gated feed-forward, whose product overflows",
        "openvinotoolkit/openvino#37041",
        "g = MatMul (x, wg) s = Sigmoid (g) a = Mul (g, s) u = MatMul (x, wu) h = Mul (a, u) d = MatMul (h, wd)"
        " y = Add (x, d)",
        {"wg": _square(60), "wu": _square(60, 5), "wd": _square(1e-4, 6)},
    ),
    Case(
        "attention scores overflow before they are scaled",
        "pytorch/pytorch#60939",
        f"{attention('scaled = Div (scores, root)')} y = Add (x, mixed)",
        {"wq": _square(40), "wk": _square(40, 5), "wv": _square(0.2, 6), "root": np.float32(60000)},
    ),
    Case(
        "a softmax written out without its maximum",
        "facebookresearch/xformers#98",
        "h = MatMul (x, w0) e = Exp (h) s = ReduceSum <keepdims = 1> (e, axes) p = Div (e, s) y = MatMul (p, w1)",
        {**_LAST, "w0": _square(1.2), "axes": np.array([-1])},
    ),
    Case(
        "L2 normalization, whose squares overflow inside of ReduceL2",
        "apache/mxnet#11938",
        "h = MatMul (x, w0) n = ReduceL2 <axes = [-1]> (h) d = Div (h, n) y = MatMul (d, w1)",
        {**_LAST, "w0": _square(40)},
    ),
    Case(
        "L2 normalization by LpNormalization",
        "NVIDIA/TensorRT#1954",
        "h = MatMul (x, w0) d = LpNormalization <axis = -1> (h) y = MatMul (d, w1)",
        {**_LAST, "w0": _square(40)},
    ),
    Case(
        "a sum of squares overflows, and its root would fit",
        "apache/mxnet#11403",
        "h = MatMul (x, w0) n = ReduceSumSquare <axes = [-1]> (h) l = Sqrt (n) d = Div (h, l) y = MatMul (d, w1)",
        {**_LAST, "w0": _square(40)},
    ),
    Case(
        "squares vanish, and so does the epsilon beside them",
        "pytorch/pytorch#32137",
        f"h = MatMul (x, w0) {rms_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "eps": np.float32(1e-12), "w0": _square(4e-5)},
    ),
    Case(
        "ReduceMean adds up more than float16 holds",
        "microsoft/onnxconverter-common#323",
        "h = Conv <pads = [1, 1, 1, 1]> (x, wc) r = Relu (h) m = ReduceMean <axes = [2, 3]> (r) z = Mul (m, small)"
        " g = Sigmoid (z) y = Mul (r, g)",
        {"wc": draw(4, 3, 3, 3, scale=100, seed=7), "small": np.float32(1e-3)},
        input_type="float[1, 3, 24, 24]",
        output_type="float[1, 4, 24, 24]",
    ),
    Case(
        "convolutions of PP-OCR exceed float16 before they are scaled down",
        "PaddlePaddle/PaddleOCR#10119",
        "h = Conv <pads = [1, 1, 1, 1]> (x, wc) r = Relu (h) s = Mul (r, small) b = Add (s, shift) y = Relu (b)",
        {"wc": draw(4, 3, 3, 3, scale=9000, seed=7), "small": np.float32(1e-4), "shift": draw(4, 1, 1, seed=8)},
        input_type="float[1, 3, 8, 8]",
        output_type="float[1, 4, 8, 8]",
    ),
    Case(
        "squares of a ReLU before a LayerNorm, as in lc0",
        "LeelaChessZero/lc0#1921",
        f"u = MatMul (x, w0) r = Relu (u) q = Mul (r, r) d = MatMul (q, wd) h = Add (x, d) {layer_norm('h', 'n')}"
        " y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(5), "wd": _square(0.5, 6)},
    ),
]
_EPS = {"eps": np.float32(1e-12)}
SIBLINGS = [
    Case(
        "squares of a ratio vanish, and so does the epsilon beside them",
        "",
        "h = MatMul (x, w0) g = MatMul (x, w5) a = Abs (g) p = Add (a, one) d = Div (h, p) q = Mul (d, d)"
        " s = ReduceMean <axes = [-1]> (q) e = Add (s, eps) l = Sqrt (e) z = Div (d, l) y = MatMul (z, w1)",
        {**_LAST, **_EPS, "w0": _square(1e-2), "w5": _square(1000, 8), "one": np.float32(1)},
        scale=0.1,
        limit=1e-2,
    ),
    Case(
        "a ratio of two means of squares, which both lose bits below the normal numbers",
        "",
        "h = MatMul (x, w0) g = MatMul (x, w5) q = Mul (h, h) q2 = Mul (g, g) s = ReduceMean <axes = [-1]> (q)"
        " s2 = ReduceMean <axes = [-1]> (q2) r = Div (s, s2) l = Sqrt (r) y = Mul (x, l)",
        {"w0": _square(1e-2), "w5": _square(1e-2, 8)},
        scale=1e-2,
    ),
    Case(
        "a cosine of two small vectors",
        "",
        "h = MatMul (x, w0) g = MatMul (x, w5) hg = Mul (h, g) n = ReduceSum <keepdims = 1> (hg, axes)"
        " a = ReduceL2 <axes = [-1]> (h) b = ReduceL2 <axes = [-1]> (g) ab = Mul (a, b) abm = Max (ab, eps)"
        " c = Div (n, abm) y = Mul (x, c)",
        {**_EPS, "w0": _square(1e-2), "w5": _square(1e-2, 8), "axes": np.array([-1])},
        scale=1e-2,
        limit=2.5e-2,
    ),
    Case(
        "a broken norm ahead of a sigmoid written out, whose exponential overflows harmlessly",
        "",
        f"m = MatMul (x, w0) h = Add (x, m) {rms_norm('h', 'n')} k = MatMul (n, w5) g = Neg (k) e = Exp (g)"
        " p = Add (e, one) s = Reciprocal (p) gg = Mul (n, s) y = MatMul (gg, w1)",
        {**_NORM, **_LAST, "w0": _square(200), "w5": _square(5), "one": np.float32(1)},
    ),
    Case(
        "a variance that loses bits below the normal numbers, and its root does not",
        "",
        f"h = MatMul (x, w0) {layer_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, **_EPS, "w0": _square(0.1)},
        scale=8e-4,
    ),
    Case(
        "attention by Einsum",
        "",
        'q = MatMul (x, wq) k = MatMul (x, wk) s = Einsum <equation = "bqd,bkd->bqk"> (q, k) z = Mul (s, small)'
        " p = Softmax (z) y = MatMul (p, x)",
        {"wq": _square(70), "wk": _square(70, 5), "small": np.float32(1e-5)},
    ),
    Case(
        "a softmax of scores that do not fit, after a mask",
        "",
        f"{attention('b = Mul (scores, ten) scaled = Add (b, mask)')} y = Add (x, mixed)",
        {"wq": _square(20), "wk": _square(20, 5), "wv": _square(0.2, 6), "ten": np.float32(10)},
        more={"mask": np.triu(np.full((6, 6), -30000, np.float32), 1)},
        opset=18,
    ),
    Case(
        "the logarithm of a sum of exponentials, without its axis",
        "",
        "h = MatMul (x, w0) e = Exp (h) s = ReduceSum <keepdims = 0> (e, axes) l = Log (s) u = Unsqueeze (l, axes)"
        " d = Sub (h, u) y = MatMul (d, w1)",
        {**_LAST, "w0": _square(1.5), "axes": np.array([-1])},
    ),
    Case(
        "a masked softmax written out, by a reciprocal",
        "",
        "h = MatMul (x, w0) e = Exp (h) m = Mul (e, kept) s = ReduceSum (m, axes) r = Reciprocal (s) p = Mul (m, r)"
        " y = MatMul (p, w1)",
        {**_LAST, "w0": _square(1.5), "axes": np.array([-1]), "kept": (np.arange(32) % 3 > 0).astype(np.float32)},
        opset=13,
    ),
    Case(
        "a stream that grows between LayerNormalizations, whose squares overflow where they are in float16",
        "",
        "a = LayerNormalization (x, gain, shift) u = MatMul (a, w0) h = Add (x, u)"
        " b = LayerNormalization (h, gain, shift) v = MatMul (b, w5) k = Add (h, v)"
        " n = LayerNormalization (k, gain, shift) y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(4000), "w5": _square(8000, 8)},
    ),
    Case(
        "squares between Elu, which is not homogeneous, each with its root",
        "",
        "h0 = MatMul (x, w0) "
        + " ".join(f"e{k} = Elu (h{k}) q{k} = Mul (e{k}, e{k}) h{k + 1} = Sqrt (q{k})" for k in range(4))
        + f" {rms_norm('h4', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(500)},
    ),
    Case(
        "the logarithm of a power spectrum, as of Whisper",
        "",
        "r = MatMul (x, w0) i = MatMul (x, w5) a = Mul (r, r) b = Mul (i, i) p = Add (a, b) mel = MatMul (p, wm)"
        " c = Clip (mel, eps) l = Log (c) y = MatMul (l, w1)",
        {**_LAST, **_EPS, "w0": _square(100), "w5": _square(100, 8), "wm": np.abs(_square(0.1, 9))},
    ),
    Case(
        "pooling by a power that is no whole number, and its root",
        "",
        "h = MatMul (x, w0) r = Relu (h) c = Pow (r, p) m = ReduceMean <axes = [-1]> (c) g = Pow (m, q) y = Div (r, g)",
        {"w0": _square(100), "p": np.float32(2.9), "q": np.float32(1 / 2.9)},
    ),
    Case(
        "batch normalization of numbers beyond float16, whose product with the scale is larger still",
        "",
        "h = Conv (x, wc) b = BatchNormalization (h, s, t, mean, var) y = Relu (b)",
        {
            "wc": draw(4, 3, 1, 1, scale=20000, seed=7),
            "s": np.array([1, 2, 0.5, 3], np.float32),
            "t": draw(4),
            "mean": draw(4, scale=3000),
            "var": np.array([1e4, 6e4, 100, 500], np.float32),
        },
        input_type="float[1, 3, 8, 8]",
        output_type="float[1, 4, 8, 8]",
    ),
    Case(
        "a masked softmax written out, with an epsilon, below what is masked",
        "",
        "h = MatMul (x, w0) b = Add (h, far) e = Exp (b) m = Mul (e, kept) s = ReduceSum (m, axes) t = Add (eps, s)"
        " p = Div (m, t) y = MatMul (p, w1)",
        {
            **_LAST,
            "eps": np.float32(1e-6),
            "w0": _square(1.5),
            "far": np.where(np.arange(32) % 3 > 0, 0, 60).astype(np.float32),
            "axes": np.array([-1]),
            "kept": (np.arange(32) % 3 > 0).astype(np.float32),
        },
        opset=13,
    ),
    Case(
        "a softplus written out, over more than float16 spans",
        "",
        "h = MatMul (x, w0) e = Exp (h) p = Add (e, one) l = Log (p) y = MatMul (l, w1)",
        {**_LAST, "w0": _square(3), "one": np.float32(1)},
    ),
    Case(
        "a softmax whose sum has a 1 beside it",
        "",
        "h = MatMul (x, w0) e = Exp (h) s = ReduceSum <axes = [-1]> (e) t = Add (one, s) p = Div (e, t)"
        " y = MatMul (p, w1)",
        {**_LAST, "w0": _square(1.5), "one": np.float32(1)},
        opset=12,
    ),
    Case(
        "scores of a Gemm that scales them itself",
        "",
        "f = Reshape (x, flat) q = MatMul (f, wq) k = MatMul (f, wk) s = Gemm <alpha = 0.0001, transB = 1> (q, k)"
        " p = Softmax (s) z = MatMul (p, f) y = Reshape (z, back)",
        {"wq": _square(70), "wk": _square(70, 5), "flat": np.array([12, 32]), "back": np.array([2, 6, 32])},
    ),
    Case(
        "a stream that overflows in the later turns of a loop alone",
        "",
        "n = Constant <value = int64 {4}> () c = Constant <value = bool {1}> () z = Loop (n, c, x) <body = b"
        " (int64 i, bool go, float[2, 6, 32] s) => (bool on, float[2, 6, 32] t) { on = Identity (go) q = Mul (s, s)"
        " v = ReduceMean <axes = [-1]> (q) r = Sqrt (v) d = Div (s, r) u = MatMul (d, w0) t = Add (s, u) }>"
        f" {rms_norm('z', 'o')} y = MatMul (o, w1)",
        {**_NORM, **_LAST, "w0": _square(80)},
    ),
    Case(
        "norms of branches in a branch, which use the same names",
        "",
        "c = Constant <value = bool {1}> () h = MatMul (x, w0) n = If (c) <then_branch = t () => (float[2, 6, 32] a) {"
        " a = If (c) <then_branch = tt () => (float[2, 6, 32] d) { l = ReduceL2 <axes = [-1]> (h) d = Div (h, l) },"
        " else_branch = te () => (float[2, 6, 32] d) { l = Abs (h) d = Neg (l) }> },"
        " else_branch = e () => (float[2, 6, 32] g) { g = Neg (h) }> y = MatMul (n, w1)",
        {**_LAST, "w0": _square(40)},
    ),
    Case(
        "a branch that normalizes what the other hands on as it is",
        "",
        "m = MatMul (x, w0) h = Add (x, m) c = Constant <value = bool {1}> () n = If (c) <then_branch = t () =>"
        " (float[2, 6, 32] a) { l = ReduceL1 <axes = [-1]> (h) a = Div (h, l) }, else_branch = e () =>"
        " (float[2, 6, 32] a) { a = Neg (h) }> y = MatMul (n, w1)",
        {**_LAST, "w0": _square(9000)},
    ),
    Case(
        "the reciprocal of a deviation far beyond float16",
        "",
        f"u = MatMul (x, w0) r = Relu (u) q = Mul (r, r) d = MatMul (q, w5) h = Add (d, x) {layer_norm('h', 'v')}"
        " i = Reciprocal (v_std) k = Mul (v_d, i) y = MatMul (k, w1)",
        {**_NORM, **_LAST, "w0": _square(80), "w5": _square(1, 8)},
    ),
    Case(
        "squares that vanish, and an epsilon that is larger",
        "",
        f"h = MatMul (x, w0) {layer_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, **_EPS, "w0": _square(3e-3)},
        scale=0.01,
    ),
    Case(
        "a softmax over all axes from one on, before opset 13",
        "",
        "q = MatMul (x, wq) k = MatMul (x, wk) t = Transpose <perm = [0, 2, 1]> (k) s = MatMul (q, t)"
        " p = Softmax <axis = 2> (s) y = MatMul (p, x)",
        {"wq": _square(50), "wk": _square(50, 5)},
        opset=11,
    ),
    Case(
        "a norm above a bound that is an attribute, before opset 11",
        "",
        "h = MatMul (x, w0) n = ReduceL2 <axes = [-1]> (h) c = Clip <min = 0.01> (n) d = Div (h, c) y = MatMul (d, w1)",
        {**_LAST, "w0": _square(40)},
        opset=10,
    ),
]
"""Relatives of those, which no thread names."""
HEALTHY = [
    Case(
        "LayerNorm of ordinary numbers",
        "",
        f"m = MatMul (x, w0) h = Add (x, m) {layer_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "w0": _square(1)},
    ),
    Case(
        "masks that add up to minus infinity before a Softmax",
        "",
        f"{attention('b = Mul (mask, low) b2 = Add (b, b) scaled = Add (scores, b2)')} y = Add (x, mixed)",
        {"wq": _square(0.1), "wk": _square(0.1, 5), "wv": _square(0.2, 6), "low": np.float32(-65000)},
        more={"mask": np.triu(np.ones((6, 6), np.float32), 1)},
    ),
    Case(
        "a cube that overflows below a Tanh",
        "",
        "h = MatMul (x, w0) c = Pow (h, three) m = Mul (c, a) s = Add (h, m) t = Tanh (s) o = Add (t, one)"
        " g = Mul (h, o) y = MatMul (g, w1)",
        {**_LAST, "w0": _square(20), "three": np.float32(3), "a": np.float32(0.044715), "one": np.float32(1)},
    ),
    Case(
        "a sigmoid written out, whose exponential overflows",
        "",
        "h = MatMul (x, w0) n = Neg (h) e = Exp (n) p = Add (e, one) s = Reciprocal (p) g = Mul (h, s)"
        " y = MatMul (g, w1)",
        {**_LAST, "w0": _square(5), "one": np.float32(1)},
    ),
    Case(
        "a variance that vanishes beside its epsilon",
        "",
        f"h = MatMul (x, w0) {layer_norm('h', 'n')} y = MatMul (n, w1)",
        {**_NORM, **_LAST, "eps": np.float32(1e-3), "w0": _square(2e-5)},
    ),
    Case(
        "shapes that are asked for twice",
        "",
        "a = Shape (x) b = Shape (x) h = MatMul (x, w0) f = Reshape (h, flat) r = Reshape (f, a) k = MatMul (r, w1)"
        " z = Reshape (k, flat) y = Reshape (z, b)",
        {**_LAST, "w0": _square(1), "flat": np.array([-1])},
    ),
    Case("a plain network", "", "h = MatMul (x, w0) r = Relu (h) y = MatMul (r, w1)", {**_LAST, "w0": _square(1)}),
]
