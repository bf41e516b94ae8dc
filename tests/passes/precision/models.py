"""Models of every structure that a conversion has to follow, as ONNX text; each runs in ONNX Runtime."""

from __future__ import annotations

import onnx
import onnx.parser

_HEAD = '<ir_version: {ir}, opset_import: ["" : {opset}{domains}]>'
_WEIGHTS = "float[4,4] w = {" + ", ".join(str(round(0.1 * (i % 7) - 0.2, 2)) for i in range(16)) + "}"

TEXTS: dict[str, tuple[str, int, int, str]] = {
    "chain": ("g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) b = Relu (a) y = Add (b, w) }", 17, 8, ""),
    "output used inside": (
        "g (float[4,4] x) => (float[4,4] y, float[4,4] z) <W> { y = MatMul (x, w) z = Relu (y) }",
        17,
        8,
        "",
    ),
    "input is output": ("g (float[4,4] x) => (float[4,4] x, float[4,4] y) <W> { y = MatMul (x, w) }", 17, 8, ""),
    "weight is output": ("g (float[4,4] x) => (float[4,4] w, float[4,4] y) <W> { y = MatMul (x, w) }", 17, 8, ""),
    "softmax": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) s = Softmax (a) y = MatMul (s, w) }",
        17,
        8,
        "",
    ),
    "exponential": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) s = Exp (a) y = MatMul (s, w) }",
        17,
        8,
        "",
    ),
    "shared weight": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) s = Exp (w) y = Add (a, s) }",
        17,
        8,
        "",
    ),
    "constants": (
        "g (float[4,4] x) => (float[4,4] y) { k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()"
        " h = Constant <value_float = 0.5> () a = Mul (x, k) b = Add (a, h) c = Exp (k) y = Add (b, c) }",
        13,
        8,
        "",
    ),
    "if": (
        "g (float[4,4] x, bool c) => (float[4,4] y) <W> { a = MatMul (x, w) y = If (c)"
        " <then_branch = t () => (float[4,4] p) { q = MatMul (a, w) p = Relu (q) },"
        " else_branch = e () => (float[4,4] r) { r = Exp (a) }> }",
        17,
        8,
        "",
    ),
    "if of outer": (
        "g (float[4,4] x, bool c) => (float[4,4] y) <W> { a = MatMul (x, w) b = If (c)"
        " <then_branch = t () => (float[4,4] p) { p = Identity (a) },"
        " else_branch = e () => (float[4,4] r) <float[4,4] u = {" + ", ".join(["0.5"] * 16) + "}> { r = Add (x, u) }>"
        " y = MatMul (b, w) }",
        17,
        8,
        "",
    ),
    "loop": (
        "g (float[4,4] x, int64 n) => (float[4,4] y, float[m,4,4] z) <W> { t = Constant <value = bool {1}> ()"
        " y, z = Loop (n, t, x) <body = b (int64 i, bool c, float[4,4] s) => (bool d, float[4,4] u, float[4,4] v)"
        " { d = Identity (c) m = MatMul (s, w) u = Relu (m) v = Exp (m) }> }",
        17,
        8,
        "",
    ),
    "nested loop": (
        "g (float[4,4] x, int64 n) => (float[4,4] y) <W> { t = Constant <value = bool {1}> ()"
        " y = Loop (n, t, x) <body = b (int64 i, bool c, float[4,4] s) => (bool d, float[4,4] u)"
        " { d = Identity (c) u = If (c) <then_branch = p () => (float[4,4] q) { q = MatMul (s, w) },"
        " else_branch = o () => (float[4,4] r) { r = Add (s, x) }> }> }",
        17,
        8,
        "",
    ),
    "scan": (
        "g (float[4,4] x, float[3,4,4] xs) => (float[4,4] y, float[3,4,4] z) <W> {"
        " y, z = Scan <num_scan_inputs = 1, body = b (float[4,4] s, float[4,4] e) => (float[4,4] u, float[4,4] v)"
        " { m = MatMul (s, w) u = Add (m, e) v = Softmax (m) }> (x, xs) }",
        17,
        8,
        "",
    ),
    "function": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = local.block (x, w) b = local.block (a, w) y = Relu (b) }"
        ' <domain: "local", opset_import: ["" : 17]> block (p, q) => (r)'
        " { m = MatMul (p, q) k = Constant <value_float = 0.25> () s = Mul (m, k) r = Sigmoid (s) }",
        17,
        8,
        ', "local" : 1',
    ),
    "function in function": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = local.outer (x, w) y = local.inner (a, w) }"
        ' <domain: "local", opset_import: ["" : 17]> inner (p, q) => (r) { r = MatMul (p, q) }'
        ' <domain: "local", opset_import: ["" : 17, "local" : 1]> outer (p, q) => (r)'
        " { m = local.inner (p, q) e = Exp (m) r = Mul (e, m) }",
        17,
        8,
        ', "local" : 1',
    ),
    "sequence": (
        "g (float[4,4] x) => (float[8,4] y) <W> { a = MatMul (x, w) s = SequenceConstruct (a, x)"
        " i = Constant <value_int = 0> () e = SequenceAt (s, i) t = SequenceInsert (s, e) u = SequenceErase (t, i)"
        " y = ConcatFromSequence <axis = 0> (u) }",
        17,
        8,
        "",
    ),
    "sequence output": (
        "g (float[4,4] x) => (seq(float[4,4]) y) <W> { a = MatMul (x, w) y = SequenceConstruct (a, x) }",
        17,
        8,
        "",
    ),
    "casts": (
        "g (float[4,4] x, int64[4] i) => (float[4,4] y, int64[4,4] z) <W> { a = MatMul (x, w) z = Cast <to = 7> (a)"
        " f = Cast <to = 1> (i) g = Mul (f, f) d = Cast <to = 11> (a) e = Cast <to = 1> (d) b = CastLike (i, e)"
        " s = Add (e, b) y = Add (s, g) }",
        17,
        8,
        "",
    ),
    "typed": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) o = Shape (a)"
        " z = ConstantOfShape <value = float[1] {0.5}> (o) e = EyeLike (a) b = Add (a, z) c = Add (b, e)"
        " f = EyeLike <dtype = 1> (a) y = Add (c, f) }",
        17,
        8,
        "",
    ),
    "random": (
        "g (float[4,4] x) => (float[4,4] y) <W> { r = RandomNormal <shape = [4, 4], seed = 1.0> ()"
        " l = RandomUniformLike <dtype = 1, seed = 2.0> (x) z = Constant <value_float = 0.0> () q = Mul (r, z)"
        " p = Mul (l, z) a = MatMul (x, w) b = Add (a, q) y = Add (b, p) }",
        17,
        8,
        "",
    ),
    "quantized": (
        "g (float[4,4] x) => (float[4,4] y) <W, float s = {0.02}, uint8 z = {128}> { q = QuantizeLinear (x, s, z)"
        " d = DequantizeLinear (q, s, z) m = MatMul (d, w) r = QuantizeLinear (m, s, z)"
        " e = DequantizeLinear (r, s, z) y = Relu (e) }",
        13,
        8,
        "",
    ),
    "dynamically quantized": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) q, s, z = DynamicQuantizeLinear (a)"
        " y = DequantizeLinear (q, s, z) }",
        13,
        8,
        "",
    ),
    "normalization": (
        "g (float[4,4] x) => (float[4,4] y) <W, float[4] g = {1, 1, 1, 1}> { a = MatMul (x, w)"
        " n = LayerNormalization (a, g) y = MatMul (n, w) }",
        17,
        8,
        "",
    ),
    "batch normalization": (
        "g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[4,4,1,1] k = {" + ", ".join(["0.5"] * 16) + "},"
        " float[4] g = {1, 2, 1, 2}, float[4] v = {1, 1, 2, 2}> { a = Conv (x, k)"
        " b = BatchNormalization (a, g, g, g, v) y = Relu (b) }",
        15,
        8,
        "",
    ),
    "resize": (
        "g (float[1,4,2,2] x) => (float[1,4,4,4] y) <float[4] s = {1, 1, 2, 2}> { a = Relu (x)"
        ' r = Resize <mode = "nearest"> (a, , s) y = Sigmoid (r) }',
        13,
        8,
        "",
    ),
    "topk": (
        "g (float[4,4] x) => (float[4,2] y, int64[4,2] i) <W, int64[1] k = {2}> { a = MatMul (x, w)"
        " y, i = TopK (a, k) }",
        17,
        8,
        "",
    ),
    "clip": (
        "g (float[4,4] x) => (float[4,4] y) <W, float lo = {0}, float hi = {3.0e38}> { a = MatMul (x, w)"
        " b = Clip (a, lo, hi) c = Max (b, lo) y = Min (c, hi) }",
        13,
        8,
        "",
    ),
    "mask": (
        "g (float[4,4] x, bool[4,4] c) => (float[4,4] y) <W, float low = {-3.4028234e38}, float inf = {-1e9}> {"
        " a = MatMul (x, w) b = Where (c, a, low) n = Not (c) f = Cast <to = 1> (n) g = Mul (f, inf) d = Add (b, g)"
        " s = Softmax (d) y = MatMul (s, w) }",
        13,
        8,
        "",
    ),
    "integer mask": (
        "g (float[4,4] x, int64[4,4] c) => (float[4,4] y) <W, float one = {1}, float low = {-3.4028234e38}> {"
        " a = MatMul (x, w) f = Cast <to = 1> (c) k = Sub (one, f) m = Mul (k, low) d = Add (a, m) s = Softmax (d)"
        " y = MatMul (s, w) }",
        13,
        8,
        "",
    ),
    "scaled mask": (
        "g (float[4,4] x, int64[4,4] c) => (float[4,4] y) <W, float one = {1}, float high = {1e9}> {"
        " a = MatMul (x, w) f = Cast <to = 1> (c) k = Sub (f, one) m = Mul (k, high) d = Add (a, m) s = Softmax (d)"
        " y = MatMul (s, w) }",
        13,
        8,
        "",
    ),
    "epsilon": (
        "g (float[4,4] x) => (float[4,4] y) <W, float e = {1e-12}, int64[1] n = {0}, float two = {2}> {"
        " a = MatMul (x, w) m = ReduceMean <axes = [1]> (a) c = Sub (a, m) p = Pow (c, two)"
        " v = ReduceMean <axes = [1]> (p) u = Unsqueeze (e, n) q = Add (v, u) r = Sqrt (q) y = Div (c, r) }",
        13,
        8,
        "",
    ),
    "large constant": (
        "g (float[4,4] x) => (float[4,4] y) <W, float h = {100000}> { a = MatMul (x, w) b = Mul (a, h) c = Div (b, h)"
        " y = MatMul (c, w) }",
        13,
        8,
        "",
    ),
    "default input": ("g (float[4,4] x, float[4,4] w) => (float[4,4] y) <W> { y = MatMul (x, w) }", 13, 8, ""),
    "old weights": (
        "g (float[4,4] x, float[4,4] w) => (float[4,4] y) <W> { a = MatMul (x, w) y = Relu (a) }",
        8,
        3,
        "",
    ),
    "unused": (
        "g (float[4,4] x, float[4,4] u) => (float[4,4] y) <W, float v = {1}> { a = Exp (x) y = MatMul (x, w) }",
        13,
        8,
        "",
    ),
    "optional inputs": ("g (float[4,4] x) => (float[4,4] y) <W> { y = Gemm (x, w, ) }", 13, 8, ""),
    "half already": (
        "g (float[4,4] x, float16[4,4] h) => (float[4,4] y, float16[4,4] z) <W> { f = Cast <to = 1> (h)"
        " a = MatMul (x, w) s = Add (a, f) z = Cast <to = 10> (s) y = Relu (s) }",
        13,
        8,
        "",
    ),
    "double": (
        "g (float[4,4] x) => (float[4,4] y) <double[4,4] w = {" + ", ".join(["0.5"] * 16) + "}> {"
        " d = Cast <to = 11> (x) a = MatMul (d, w) b = Relu (a) y = Cast <to = 1> (b) }",
        13,
        8,
        "",
    ),
    "ml": (
        "g (float[4,4] x) => (float[4,4] y) <W>"
        " { a = MatMul (x, w) s = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]>"
        " (a) y = Relu (s) }",
        13,
        8,
        ', "ai.onnx.ml" : 1',
    ),
    "contrib": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) s = com.microsoft.Gelu (a) t = Add (s, a)"
        " y = MatMul (t, w) }",
        13,
        8,
        ', "com.microsoft" : 1',
    ),
    "lstm": (
        "g (float[2,1,4] x) => (float[2,1,1,2] y) <float[1,8,4] p = {" + ", ".join(["0.1"] * 32) + "},"
        " float[1,8,2] r = {" + ", ".join(["0.2"] * 16) + "}> { y, h, c = LSTM <hidden_size = 2> (x, p, r) }",
        14,
        8,
        "",
    ),
    "loop of sequences": (
        "g (float[4,4] x, int64 n) => (float[a,4] y) <W> { t = Constant <value = bool {1}> () e = SequenceEmpty ()"
        " s = Loop (n, t, e) <body = b (int64 i, bool c, seq(float[4,4]) p) => (bool d, seq(float[4,4]) q)"
        " { d = Identity (c) m = MatMul (x, w) q = SequenceInsert (p, m) }> y = ConcatFromSequence <axis = 0> (s) }",
        17,
        8,
        "",
    ),
    "type of the input": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) e = EyeLike (a)"
        " l = RandomUniformLike <seed = 2.0> (a) n = Floor (l) b = MatMul (e, w) y = Add (b, n) }",
        17,
        8,
        "",
    ),
    "optional": (
        "g (float[4,4] x) => (float[4,4] y) <W> { a = MatMul (x, w) o = Optional (a) e = OptionalGetElement (o)"
        " y = Relu (e) }",
        18,
        8,
        "",
    ),
    "sequence map": (
        "g (float[4,4] x) => (float[8,4] y) <W> { a = MatMul (x, w) s = SequenceConstruct (a, x)"
        " t = SequenceMap <body = b (float[4,4] e) => (float[4,4] f) { f = MatMul (e, w) }> (s)"
        " y = ConcatFromSequence <axis = 0> (t) }",
        17,
        8,
        "",
    ),
}


def model(name: str) -> onnx.ModelProto:
    """The model of that name."""
    text, opset, ir, domains = TEXTS[name]
    head = _HEAD.format(ir=ir, opset=opset, domains=domains)
    proto = onnx.parser.parse_model(f"{head}\n{text.replace('<W', '<' + _WEIGHTS)}")
    if ir < 4:
        held = {tensor.name for tensor in proto.graph.initializer}
        assert held <= {value.name for value in proto.graph.input}
    for count, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{count}"
    return proto
