"""Further models, each with its conversions: options, old opsets, refusals beside acceptances."""

# ruff: noqa: E501

from __future__ import annotations

_W = "float[4,4] w = {" + ", ".join(["0.5"] * 16) + "}"
DEFAULT = ("convert-precision",)


def _graph(
    nodes: str, constants: str = "", *, opset: int = 17, inputs: str = "", outputs: str = "", more: str = ""
) -> str:
    """A model of `x` and a weight `w`, after which `a` is their product."""
    given = ", ".join(filter(None, (_W, constants)))
    head = f'<ir_version: 8, opset_import: ["": {opset}, "local": 1, "com.acme": 1, "com.microsoft": 1]>'
    ins, outs = ", ".join(filter(None, ("float[4,4] x", inputs))), ", ".join(filter(None, ("float[4,4] y", outputs)))
    return f"{head}\ng ({ins}) => ({outs}) <{given}> {{ a = MatMul (x, w) {nodes} }}\n{more}"


FURTHER: dict[str, tuple[tuple[str, ...], str]] = {
    "a filling with a mask": (
        (*DEFAULT, "convert-precision{keep=op:ConstantOfShape}", "convert-precision{to=bfloat16}"),
        _graph(
            "o = Shape (a) z = ConstantOfShape <value = float[1] {-3.4e38}> (o) b = Where (c, a, z) s = Softmax (b)"
            " y = MatMul (s, w)",
            inputs="bool[4,4] c",
        ),
    ),
    "fillings": (
        ("convert-precision{lower=*}",),
        _graph(
            "o = Shape (a) z = ConstantOfShape <value = float[1] {1e5}> (o) b = Add (a, z)"
            " p = ConstantOfShape <value = float[1] {1e-12}> (o) q = Add (b, p) r = ConstantOfShape (o) d = Add (q, r)"
            " e = ConstantOfShape <value = double[1] {2.0}> (o) f = Cast <to = 1> (e) y = MatMul (d, f)"
        ),
    ),
    "constants that do not fit": (
        (*DEFAULT, "convert-precision{lower=*}", "convert-precision{lower=* to=bfloat16}"),
        _graph(
            "b = Mul (a, large) c = Mul (b, small) d = Mul (c, tiny) e = Add (d, tiny) f = Add (e, some)"
            " g = Clip (f, low, high) h = Max (g, low) i = Mul (h, some) y = MatMul (i, w)",
            "float large = {1e6}, float small = {1e-6}, float tiny = {1e-12}, float[4] some = {1e-6, 1e-12, 1, 2},"
            " float low = {-1e6}, float high = {1e30}",
        ),
    ),
    "epsilons": (
        DEFAULT,
        _graph(
            "p = Mul (a, a) b = Add (p, eps) c = Sqrt (b) d = Div (a, c) e = Add (d, eps) f = Sub (e, eps)"
            " g = Mul (f, scale) h = Add (g, a) i = Transpose (h) y = MatMul (i, w)",
            "float eps = {1e-12}, float scale = {1e-6}",
        ),
    ),
    "interface": (
        (
            "convert-precision{io=x}",
            "convert-precision{io=y}",
            "convert-precision{io=y,z}",
            "convert-precision{io=convert}",
            "convert-precision{io=w,u}",
        ),
        _graph("y = Relu (a) z = Identity (y)", inputs="float[2] u", outputs="float[4,4] z, float[4,4] w, float[2] u"),
    ),
    "defaults of inputs": (
        (*DEFAULT, "convert-precision{io=convert}"),
        _graph("b = Mul (a, k) d = Add (b, m) e = Add (d, n) y = MatMul (e, w)",
               "float k = {1e6}, float m = {-1e9}, float n = {0.5}", inputs="float k, float m, float n"),
    ),
    "weights that are inputs": (
        (*DEFAULT, "convert-precision{lower=*}"),
        '<ir_version: 3, opset_import: ["": 8]> g (float[4,4] x, float[4,4] w, float k, float m, float n) =>'
        f" (float[4,4] y) <{_W}, float k = {{1e6}}, float m = {{-1e9}}, float n = {{0.5}}>"
        " { a = MatMul (x, w) b = Mul (a, k) d = Add (b, m) e = Add (d, n) y = MatMul (e, w) }",
    ),
    "types named by a parameter": (
        (*DEFAULT, "convert-precision{lower=*}"),
        _graph(
            "b = local.f <t = 1> (a) y = MatMul (b, w)",
            more='<domain: "local", opset_import: ["": 17]> f <t> (p) => (r) { q = Cast <to: int = @t> (p)'
            " e = EyeLike <dtype: int = @t> (p) m = Add (q, e) r = Relu (m) }",
        ),
    ),
    "a function called with several types": (
        (*DEFAULT, "convert-precision{io=convert}"),
        _graph(
            "b = local.f (a) d = local.f (v) y = MatMul (b, w) z = Identity (d)",
            inputs="int64[4] v",
            outputs="int64[4] z",
            more='<domain: "local", opset_import: ["": 17]> f (p) => (r) { r = Mul (p, p) }',
        ),
    ),
    "an operator without rules": (
        (*DEFAULT, "convert-precision{io=convert lower=*}"),
        _graph("b = com.acme.Thing (a) d = Add (a, b) e = Cast <to = 1> (b) y = MatMul (e, w)"),
    ),
    "a subgraph without rules": (
        (*DEFAULT, "convert-precision{io=convert lower=*}"),
        _graph(
            "b = com.acme.Search <body = s (float[4,4] p) => (float[4,4] q)"
            " { m = MatMul (p, w) n = If (c) <then_branch = t () => (float[4,4] i) { i = Relu (m) },"
            " else_branch = e () => (float[4,4] j) { j = Add (a, m) }> q = Identity (n) }> (a)"
            " d = Cast <to = 1> (b) y = MatMul (d, w)",
            inputs="bool c",
        ),
    ),
    "means": (
        (*DEFAULT, "convert-precision{to=bfloat16}"),
        '<ir_version: 8, opset_import: ["": 18]> g (float[1,4,16,16] x, float[1,4,15,17] z, float[N,4,8] v, int64[1] k)'
        " => (float[1,4,1,1] y, float[1,4,1,1] p, float[1,4,1,1] q, float[1,1,16,16] r, float[N,1,8] s, float[] t,"
        " float[1,4,16,1] u)"
        " { y = GlobalAveragePool (x) p = GlobalAveragePool (z) d = Constant <value_ints = [2, 3]> () q = ReduceMean (x, d)"
        " e = Constant <value_ints = [1]> () r = ReduceMean (x, e) s = ReduceMean (v, e) t = ReduceSum <keepdims = 0> (x)"
        " f = Constant <value_ints = [-1]> () u = ReduceSum (x, f) h = ReduceMean (x, k) i = Constant <value_ints = [7]> ()"
        " j = ReduceMean (v, i) }",
    ),
    "means of attributes": (
        DEFAULT,
        '<ir_version: 8, opset_import: ["": 12]> g (float[16,16] x) => (float[1,1] y, float[16,1] z) {'
        " y = ReduceMean <axes = [0, 1]> (x) z = ReduceSum <axes = [-1]> (x) }",
    ),
    "statistics in float inside": (
        (*DEFAULT, "convert-precision{lower=*}"),
        '<ir_version: 11, opset_import: ["": 23]> g (float[1,2,4,8] q, float[2,4,8] x) => (float[1,2,4,8] y,'
        " float[2,4,8] z) <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1}, float[4] t = {1, 1, 1, 1}>"
        " { y = Attention (q, q, q) v = Attention <softmax_precision = 10> (q, q, q) u = Attention"
        " <softmax_precision = 1> (q, q, q) a = LayerNormalization (x, s) b = LayerNormalization <stash_type = 10> (a, s)"
        " c = RMSNormalization (b, s) z = GroupNormalization <num_groups = 2> (c, t, t) }",
    ),
    "batch normalization in training": (
        DEFAULT,
        '<ir_version: 8, opset_import: ["": 15]> g (float[1,4,2,2] x) => (float[1,4,2,2] y, float[1,4,2,2] z)'
        " <float[4] s = {1, 2, 1, 2}> { y = BatchNormalization (x, s, s, s, s)"
        " z, m, v = BatchNormalization <training_mode = 1> (x, s, s, s, s) }",
    ),
    "casts of many types": (
        (*DEFAULT, "convert-precision{to=bfloat16}", "convert-precision{sources=double}"),
        _graph(
            "b = Cast <to = 9> (a) d = Cast <to = 1> (b) e = Cast <to = 1> (i) f = Cast <to = 1> (j)"
            " g = Cast <to = 1> (k) h = Cast <to = 11> (a) l = Cast <to = 1> (h) m = CastLike (i, a) n = CastLike (a, i)"
            " o = Add (d, e) p = Add (o, f) q = Add (p, g) r = Add (q, l) s = Add (r, m) y = MatMul (s, w)",
            inputs="int8[4] i, int32[4] j, uint8[4] k",
            outputs="int8[4,4] n",
        ),
    ),
    "casts of opset 5": (
        (*DEFAULT, "convert-precision{io=convert}", "convert-precision{keep=op:Relu}"),
        '<ir_version: 3, opset_import: ["": 5]> g (float[4,4] x, float[4,4] w) => (float[4,4] y, double[4,4] z)'
        f' <{_W}> {{ a = MatMul (x, w) b = Relu (a) y = MatMul (b, w) z = Cast <to = "DOUBLE"> (b)'
        ' d = Cast <to = "FLOAT"> (z) }',
    ),
    "masks that are compared": (
        DEFAULT,
        _graph(
            "b = Where (c, a, low) d = Equal (b, low) e = Cast <to = 1> (d) f = Mul (e, low) g = Add (f, a)"
            " h = Softmax (g) y = MatMul (h, w)",
            "float low = {-1e9}",
            inputs="bool[4,4] c",
        ),
    ),
    "masks of many elements": (
        (*DEFAULT, "convert-precision{keep=op:Where}", "convert-precision{keep=op:Mul}"),
        _graph(
            "b = Where (c, m, zero) d = Add (a, b) f = Cast <to = 1> (c) g = Sub (f, one) h = Mul (g, big)"
            " i = Add (d, h) j = Softmax (i) y = MatMul (j, w)",
            "float[4] m = {-1e9, 0, 1, -3e38}, float zero = {0}, float one = {1}, float big = {1e9}",
            inputs="bool[4,4] c",
        ),
    ),
    "quantized products": (
        (*DEFAULT, "convert-precision for onnxruntime-cpu"),
        _graph(
            "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) m = MatMul (d, d) r = QuantizeLinear (m, s, z)"
            " e = DequantizeLinear (r, s, z) n = MatMul (e, w) y = Relu (n)",
            "float s = {0.02}, uint8 z = {128}",
        ),
    ),
    "loops": (
        (*DEFAULT, "convert-precision{io=convert lower=*}", "convert-precision{to=bfloat16 lower=*}"),
        _graph(
            "t = Constant <value = bool {1}> () y, s, z = Loop (n, t, a, start) <body = b (int64 i, bool c, float[4,4] p,"
            " float q) => (bool d, float[4,4] u, float v, float[4,4] o) { d = Identity (c) m = MatMul (p, w)"
            " u = Relu (m) v = Add (q, step) o = Mul (m, v) }>",
            "float start = {1e6}, float step = {1}",
            inputs="int64 n",
            outputs="float s, float[k,4,4] z",
        ),
    ),
    "scans": (
        (*DEFAULT, "convert-precision{io=convert lower=*}"),
        _graph(
            "y, z = Scan <num_scan_inputs = 2, body = b (float[4,4] p, float[4,4] q, int64 i) => (float[4,4] u,"
            " float[4,4] v) { f = Cast <to = 1> (i) m = MatMul (p, q) u = Add (m, f) v = Exp (m) }> (a, xs, ns)",
            inputs="float[3,4,4] xs, int64[3] ns",
            outputs="float[3,4,4] z",
        ),
    ),
    "a scan of opset 8": (
        DEFAULT,
        '<ir_version: 3, opset_import: ["": 8]> g (float[1,4] x, float[1,3,4] xs) => (float[1,4] y, float[1,3,4] z)'
        " { y, z = Scan <num_scan_inputs = 1, body = b (float[4] p, float[4] q) => (float[4] u, float[4] v)"
        " { u = Add (p, q) v = Relu (u) }> ( , x, xs) }",
    ),
    "branches": (
        (*DEFAULT, "convert-precision{io=convert lower=*}", "convert-precision{keep=op:Exp lower=op:If}"),
        _graph(
            "b, d = If (c) <then_branch = t () => (float[4,4] p, float[4,4] q) { p = Identity (a) q = Exp (a) },"
            " else_branch = e () => (float[4,4] r, float[4,4] u) <float[4,4] u = {"
            + ", ".join(["1e6"] * 16)
            + "}> { r = MatMul (x, w) }> f = Add (b, w) y = MatMul (f, d)",
            inputs="bool c",
        ),
    ),
    "an empty sequence": (
        (*DEFAULT, "convert-precision{io=convert}"),
        _graph(
            "e = SequenceEmpty () s = SequenceInsert (e, a) f = SequenceEmpty <dtype = 7> () l = SequenceLength (f)"
            " i = Constant <value_int = 0> () b = SequenceAt (s, i) y = MatMul (b, w) z = Identity (s)",
            outputs="seq(float[4,4]) z, int64 l",
        ),
    ),
    "sequences of the interface": (
        (*DEFAULT, "convert-precision{io=s}", "convert-precision{io=convert}"),
        _graph(
            "i = Constant <value_int = 0> () b = SequenceAt (s, i) d = MatMul (a, b) z = SequenceInsert (s, d)"
            " y = Relu (d)",
            inputs="seq(float[4,4]) s",
            outputs="seq(float[4,4]) z",
        ),
    ),
    "no operators of the standard": (
        (*DEFAULT, "convert-precision{io=convert}"),
        '<ir_version: 8, opset_import: ["ai.onnx.ml": 3]> g (float[4,4] x) => (float[4,4] y)'
        " { y = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x) }",
    ),
    "names that are taken": (
        (*DEFAULT, "convert-precision{io=y lower=*}"),
        _graph(
            "x_float16 = Exp (a) [castsmith_x_to_float16] y_float16 = Relu (x_float16) b = MatMul (y_float16, w)"
            " castsmith_a_to_float = Exp (b) y = MatMul (castsmith_a_to_float, w)"
        ),
    ),
    "kernels": (
        (
            "convert-precision for tensorrt-10",
            "convert-precision for onnxruntime-android",
            "convert-precision for openvino-cpu",
            "convert-precision{to=bfloat16}",
            "convert-precision for onnxruntime-directml",
        ),
        _graph(
            "b = com.microsoft.Gelu (a) d = Det (b) e = Add (b, d) f = NonMaxSuppression (bx, sc) g = Cast <to = 1> (f)"
            " h = ReduceMax <keepdims = 0> (g) i = Add (e, h) j = RandomNormal <shape = [4, 4]> () k = Add (i, j)"
            " y = MatMul (k, w)",
            inputs="float[1,5,4] bx, float[1,2,5] sc",
        ),
    ),
    "scales of branches": (
        DEFAULT,
        _graph(
            "b1 = Mul (a, s) y = Add (b1, a)"
            " b2 = Mul (a, s) c2 = Transpose (b2) d2 = Sub (a, c2)"
            " b3 = Mul (a, s) c3, e3 = Split <num_outputs = 2> (b3) d3 = Add (c3, h) f3 = Add (e3, h)"
            " b4 = Mul (a, s) c4, e4 = Split <num_outputs = 2> (b4) d4 = Add (c4, h) f4 = Relu (e4)"
            " b5 = Mul (a, s) c5 = Add (b5, one)"
            " b6 = Mul (a, s) c6 = Mul (b6, a)"
            " b7 = Mul (a, s) c7 = Add (b7, a) d7 = Relu (b7)"
            " b8 = Mul (s, a) c8 = com.acme.Add (b8, a)"
            " b9 = Mul (a, t) c9 = Add (b9, a)"
            " b10 = Div (a, s) c10 = Add (b10, a)"
            " p0 = Mul (a, s) p1 = Identity (p0) p2 = Identity (p1) p3 = Identity (p2) p4 = Identity (p3) p5 = Identity (p4)"
            " p6 = Identity (p5) p7 = Identity (p6) p8 = Add (p7, a)"
            " q0 = Mul (a, s) q1 = Identity (q0) q2 = Identity (q1) q3 = Identity (q2) q4 = Identity (q3) q5 = Identity (q4)"
            " q6 = Identity (q5) q7 = Identity (q6) q8 = Identity (q7) q9 = Add (q8, a)",
            "float s = {1e-6}, float t = {1e-9}, float one = {1}",
            opset=18,
            inputs="float[2,4] h",
        ),
    ),
    "constants below square roots": (
        DEFAULT,
        _graph(
            "b1 = Add (a, e) y = Sqrt (b1) b2 = Add (e, a) c2 = Sqrt (b2) d2 = Relu (b2) b3 = Add (a, minus) c3 = Sqrt (b3)"
            " b4 = Add (a, some) c4 = Sqrt (b4) b5 = Sub (a, e) c5 = Sqrt (b5) b6 = Add (a, e) b7 = Add (a, small)"
            " c7 = Sqrt (b7) b8 = Add (a, e) c8 = com.acme.Sqrt (b8) b9 = Add (a, zero) c9 = Sqrt (b9)",
            "float e = {1e-12}, float minus = {-1e-12}, float[2,1] some = {1e-12, 1e-12}, float small = {1e-6}, float zero = {0}",
        ),
    ),
    "overflows that are absorbed": (
        DEFAULT,
        _graph(
            "p1 = Pow (a, three) y = Tanh (p1) p2 = Pow (a, two) t2 = Tanh (p2) p3 = Pow (a, three) q3 = Mul (p3, k)"
            " t3 = Tanh (q3) p4 = Pow (a, three) q4 = Mul (p4, less) t4 = Tanh (q4) p5 = Pow (a, three) q5 = Mul (k, p5)"
            " r5 = Add (a, q5) t5 = Sigmoid (r5) p6 = Pow (a, three) q6 = Mul (p6, double) t6 = Sigmoid (q6)"
            " p7 = Pow (a, three) q7 = Mul (p7, half) t7 = Erf (q7) p8 = Pow (a, three) t8 = Tanh (p8) u8 = Relu (p8)"
            " p9 = Pow (a, three) q9 = Transpose (p9) t9 = Tanh (q9) p10 = Pow (a, three) q10 = Add (p10, x) t10 = Tanh (q10)"
            " p11 = Pow (a, three) q11 = Mul (p11, minus) t11 = Tanh (q11) p12 = Pow (a, three) t12 = com.acme.Tanh (p12)"
            " p13 = Pow (a, three) q13 = Sub (p13, a) t13 = Tanh (q13) p14 = Pow (a, more) t14 = Tanh (p14)",
            "float two = {2}, float three = {3}, float[2,1] more = {3, 3}, float k = {0.00024426},"
            " float less = {0.00024425}, float double = {0.00048852}, float half = {0.00012213}, float minus = {-1}",
        ),
    ),
    "squares that are summed": (
        (*DEFAULT, "convert-precision{to=bfloat16}"),
        _graph(
            "p1 = Mul (a, a) m1 = ReduceMean <axes = [1]> (p1) p2 = Mul (a, a) y = Add (p2, a) p3 = Pow (a, two)"
            " m3 = ReduceMean <axes = [1]> (p3) p4 = ReduceSumSquare <axes = [1]> (a) p5 = Pow (a, three) q6 = ReduceL2 <axes = [1]> (a)"
            " r6 = Div (a, q6) p7 = Mul (a, x) m7 = ReduceMean <axes = [1]> (p7) p8 = Mul (a, a) m8 = com.acme.ReduceMean (p8)"
            " e9 = Exp (a) s9 = Sub (e9, one) n9 = Neg (s9) d9 = Div (n9, x) f9 = MatMul (s9, w) g9 = Add (s9, x) h9 = Relu (s9)",
            "float two = {2}, float three = {3}, float one = {1}",
        ),
    ),
    "functions of another opset": (
        ("convert-precision for tensorrt-10", "convert-precision{io=convert} for tensorrt-10"),
        _graph(
            "b = local.f (a) y = MatMul (b, w)",
            more='<domain: "local", opset_import: ["": 13]> f (p) => (r) { q = Relu (p) e = Exp (q) r = Add (e, q) }',
        ),
    ),
    "a function that alone imports the standard": (
        (*DEFAULT, "convert-precision{io=convert}"),
        '<ir_version: 8, opset_import: ["local": 1]> g (float[4,4] x) => (float[4,4] y) { y = local.f (x) }'
        ' <domain: "local", opset_import: ["": 17]> f (p) => (r) { w = Constant <value_float = 0.5> () q = MatMul (p, p) e = Exp (q) r = Mul (e, w) }',
    ),
    "a function called with several integers": (
        (*DEFAULT, "convert-precision{lower=*}"),
        '<ir_version: 10, opset_import: ["local": 1, "": 21]> g (int32[4] a, int64[4] b, float[4,4] x) => (float[4,4] y)'
        " { p = local.f (a) q = local.f (b) s = Add (p, q) m = MatMul (x, x) y = Mul (m, s) }"
        ' <domain: "local", opset_import: ["": 21]> f (a) => (r) { c = Cast <to = 1> (a) r = Mul (c, c) }',
    ),
    "a function of opset 5": (
        ("convert-precision for tensorrt-10",),
        _graph(
            "b = local.f (a) y = MatMul (b, w)",
            more='<domain: "local", opset_import: ["": 5]> f (p) => (r) { q = MatMul (p, p) e = Exp (q) r = MatMul (e, q) }',
        ),
    ),
    "a scan before bfloat16": (
        ("convert-precision{to=bfloat16 lower=*}", "convert-precision{lower=*}"),
        _graph(
            "y, z = Scan <num_scan_inputs = 1, body = b (float[4,4] p, float[4,4] q) => (float[4,4] u, float[4,4] v)"
            " { u = MatMul (p, q) v = MatMul (q, q) }> (a, xs)",
            opset=13,
            inputs="float[3,4,4] xs",
            outputs="float[3,4,4] z",
        ),
    ),
    "a constant of a parameter": (
        (*DEFAULT, "convert-precision{lower=*}"),
        _graph(
            "b = local.f <v = 0.5> (a) y = MatMul (b, w)",
            more='<domain: "local", opset_import: ["": 17]> f <v> (p) => (r) { k = Constant <value_float: float = @v> ()'
            " q = MatMul (p, p) r = Mul (q, k) }",
        ),
    ),
}  # fmt: skip
