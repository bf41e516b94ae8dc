"""How the checker reads whole models: what they declare, their bodies, functions, versions and unused nodes."""

# ruff: noqa: E501
from __future__ import annotations

import onnx.parser
import pytest

from castsmith.verification import checker
from tests.certificates import certificate_between
from tests.sampling import check_all
from tests.verification.pairs import HEAD
from tests.verification.test_checker import outcome_of

_FOREIGN = HEAD.replace("]>", ', "l" : 1, "com.microsoft" : 1, "ai.onnx.ml" : 3]>')
_NEGATED = "g (float[N, 3] x) => ({} y) {{ y = Neg (x) }}"
_FIXED = "g (float[5, 3] x) => ({} y) {{ y = Neg (x) }}"
_DECLARED = [  # the head of the models, how they declare the output, and whether the second may
    (_NEGATED, "float[N, 3]", "float[N, 3]", True),
    (_NEGATED, "float[A, 3]", "float[N, 3]", False),
    (_NEGATED, "float[N, B]", "float[N, 3]", True),
    (_NEGATED, "float[N, 4]", "float[N, 3]", True),
    (_NEGATED, "float[N]", "float[N, 3]", True),
    (_NEGATED, "float[N, 3, 1]", "float[N, 3]", True),
    (_NEGATED, "float[]", "float[N, 3]", True),
    (_NEGATED, "float[5, 3]", "float[A, 3]", True),
    (_NEGATED, "double[N, 3]", "float[N, 3]", True),
    (_NEGATED, "float[N, 3]", "float[A, 3]", False),
    (_NEGATED, "float[N, 3]", "float[N, 4]", False),
    (_NEGATED, "float[A, 3]", "float[N, 4]", False),
    (_NEGATED, "float[A, 3]", "float[5, 3]", False),
    (_NEGATED, "float[N]", "float[N, 4]", False),
    (_NEGATED, "float[N, 3, 1]", "float[N, 4]", False),
    (_NEGATED, "float[N, 3]", "float[N]", False),
    (_NEGATED, "float[N, 3]", "float[N, 3, 1]", False),
    (_NEGATED, "float[N, 3]", "float[]", False),
    (_NEGATED, "float[N, 3]", "double[N, 3]", False),
    (_NEGATED, "double[N, 3]", "float16[N, 3]", False),
    (_NEGATED, "double[N, 3]", "float[N, 4]", False),
    (_FIXED, "float[5, B]", "float[5, 3]", True),
    (_FIXED, "float[5, 3]", "float[A, 3]", False),
    (_FIXED, "float[6, 3]", "float[A, 3]", True),
    (_FIXED, "float[A, 3]", "float[A, B]", False),
]


def test_what_a_second_model_declares_of_an_output_is_known_or_was_so_before() -> None:
    def compare(head: str, old: str, new: str, is_certified: bool) -> None:
        before, after = (HEAD + head.format(declared) for declared in (old, new))
        assert outcome_of((before, after)) == ("certified" if is_certified else "partly")

    check_all(compare, _DECLARED)


_BRANCHES = "y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }>"
_SCAN = """g (float[3, 2] x, float[2] s) => (float[2] y, float[3, 2] z) { y, z = Scan <num_scan_inputs = 1,
    body = step (float[2] a, float[2] e) => (float[2] b, float[2] o) { b = Add (a, e) o = Mul (b, e) }> (s, x) }"""
_LOOP = """g (float16[2] x, int64 n) => (float16[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x)
    <body = b (int64 i, bool k, float16[2] v) => (bool k2, float16[2] w) { k2 = Identity (k) w = Add (v, v) }> }"""
_WIDE = "f = Cast <to = 1> (v) g = Add (f, f) w = Cast <to = 10> (g)"
_CALLED = (
    'g (float[2] x) => (float[2] y) { y = l.F (x) } <domain: "l", opset_import: ["" : 23]> F (p) => (q) { q = Neg (p) }'
)
_CHANGED: list[tuple[str, str, str, str]] = [  # a model, a text in it, what replaces it, and the outcome
    # nodes that nothing uses
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "y =", "a = Exp (x) y =", "partly"),
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "y =", "a = Constant <value_float = 1.0> () y =", "certified"),
    ("g (float[2] x) => (float[2] y) { a = Exp (x) y = Abs (x) }", "a = Exp (x)", "", "certified"),
    ("g (float[2] x) => (float[2] y) { a = Exp (x) y = Abs (x) }", "y =", "b = Exp (x) y =", "certified"),
    ("g (float[2] x) => (float[2] y) { a = Exp (x) y = Abs (x) }", "y =", "b = Sin (x) y =", "partly"),
    ("g (float[2] x) => (float[2] y) { a = Exp (x) y = Abs (x) }", "a = Exp", "a = Sin", "partly"),
    ("g (bool c, float[2] x) => (float[2] y) { " + _BRANCHES + " }", "a = Neg", "u = Exp (x) a = Neg", "partly"),
    (_CALLED, "q =", "u = Exp (p) q =", "partly"),
    # operands that are left out
    ("g (float[2] x, float l) => (float[2] y) { y = Clip (x, l) }", "(x, l)", "(x, l, )", "certified"),
    ("g (float[2] x, float l) => (float[2] y) { y = Clip (x, l) }", "(x, l)", "(x, , l)", "partly"),
    # bodies
    (_SCAN, "b = Add (a, e)", "n = Add (a, e) b = Identity (n)", "certified"),
    (_SCAN, "b = Add (a, e)", "b = Add (e, a)", "partly"),
    (_SCAN, "o = Mul (b, e)", "o = Mul (a, e)", "partly"),
    (_SCAN, "(float[2] b, float[2] o)", "(float[2] o, float[2] b)", "partly"),
    (_SCAN, "(float[2] a, float[2] e)", "(float[2] e, float[2] a)", "partly"),
    (_LOOP, "w = Add (v, v)", _WIDE, "certified"),
    (_LOOP, "w = Add (v, v)", _WIDE.replace("Add", "Sub"), "partly"),
    (_LOOP, "k2 = Identity (k)", "j = Identity (k) k2 = Identity (j)", "certified"),
    (_LOOP, "k2 = Identity (k)", "k2 = Not (k)", "partly"),
    (_LOOP, "k2 = Identity (k)", "k2 = Identity (t)", "partly"),
    (_LOOP, "int64 i, bool k", "int64 j, bool k", "certified"),
    # functions
    (_CALLED, "q = Neg (p)", "a = Identity (p) q = Neg (a)", "certified"),
    (_CALLED, "q = Neg (p)", "q = Abs (p)", "partly"),
    (_CALLED, "F (p) => (q) { q = Neg (p) }", "F (x) => (y) { y = Neg (x) }", "certified"),
    (_CALLED, "l.F (x)", "l.F (x, x)", "refused"),
    (_CALLED, "y = l.F (x)", "a = Identity (x) y = l.F (a)", "certified"),
    (_CALLED, "y = l.F (x)", "y = Neg (x)", "certified"),
    (_CALLED.replace("Neg", "Softmax"), '["" : 23]', '["" : 12]', "partly"),
    (_CALLED.replace("Neg", "Softmax"), '["" : 23]', '["" : 13]', "certified"),
    (_CALLED.replace("Neg", "Softmax"), 'opset_import: ["" : 23]', 'opset_import: ["" : 23, "l" : 1]', "certified"),
    # what is declared of operators of which nothing is known
    ("g (float[N] x) => (int64[1] y, float[2] a) { a = l.Op (x) y = Shape (a) }", "Shape (a)", "Constant <value_ints = [2]> ()", "certified"),
    ("g (float[N] x) => (int64[1] y, float[2] a) { a = l.Op (x) y = Shape (a) }", "Shape (a)", "Constant <value_ints = [3]> ()", "partly"),
    ("g (float[N] x) => (int64[1] y, float[2] z) <float[2] a> { a = l.Op (x) z = Neg (a) y = Shape (a) }", "Shape (a)", "Constant <value_ints = [2]> ()", "certified"),
    ("g (float[N] x) => (float[2] z) <float[2] a> { a = l.Op (x) b = Cast <to = 1> (a) z = Neg (b) }", "Cast <to = 1>", "Identity", "certified"),
    ("g (float[N, 2] x) => (int64[1] y, float[2] z) { a = ai.onnx.ml.Binarizer (x) z = Neg (a) y = Shape <start = 1> (a) }", "Shape <start = 1> (a)", "Constant <value_ints = [2]> ()", "certified"),
    ("g (float[2] x) => (float[2] y) { a = l.Op (x) b = PRelu (x, a) y = Neg (b) }", "y = Neg (b)", "c = Cast <to = 1> (b) y = Neg (c)", "certified"),
    ("g (float[2] x) => (bool[2] y) { a = l.Op (x) b = Equal (a, a) y = Not (b) }", "y = Not (b)", "c = Cast <to = 9> (b) y = Not (c)", "certified"),
    ("g (float[N] x) => (int64[1] y) { y = Constant <value_ints = [2]> () }", "{ y = Constant <value_ints = [2]> () }", "<float[2] a> { a = l.Op (x) y = Shape (a) }", "partly"),
    ("g (float[N] x, float[2] z) => (int64[1] y, float[2] w) <float[2] a> { a = Neg (z) w = Abs (a) y = Constant <value_ints = [2]> () }", "a = Neg (z) w = Abs (a) y = Constant <value_ints = [2]> ()", "b = Neg (z) w = Abs (b) a = l.Op (x) y = Shape (a)", "partly"),
    # operators that are named as those of onnx
    *(("g (float[2] x) => (float[2] y) { " + node.format("l.") + " }", "l.", "", "partly") for node in ("y = {}Identity (x)", "y = {}Sum (x)", "y = {}Cast <to = 1> (x)", "y = {}Dropout (x)", "y = {}Neg (x)", "y = {}Max (x, x)")),
    ("g () => (float y) { y = l.Constant <value_float = 1.0> () }", "l.", "", "partly"),
    ("g (int64[1] n) => (float[A] y) { y = l.ConstantOfShape (n) }", "l.", "", "partly"),
    ("g () => (float[2] y) <float[2] k = {1, 2}, float[2] n = {-1, -2}> { y = l.Neg (k) }", "l.Neg (k)", "Identity (n)", "partly"),
    ("g (bool c, float[2] x) => (float[2] y) { " + _BRANCHES.replace("Abs", "Neg").replace("If", "l.If") + " }", "l.If", "If", "partly"),
    ("g (float[2, 3] x) => (float16[3, 2] y) { a = l.Transpose (x) y = Cast <to = 10> (a) }", "a = l.Transpose (x) y = Cast <to = 10> (a)", "b = Cast <to = 10> (x) y = l.Transpose (b)", "partly"),
    ("g (float[2] x, float s, uint8 z) => (uint8[2] y) { y = com.microsoft.QuantizeLinear (x, , z) }", ", ,", ", s,", "partly"),
    # the same computation twice
    *((f"g (float[2] x) => (float[2] y, float[2] z) {{ y = {node} z = Identity (y) }}", "Identity (y)", node, said) for node, said in (("l.Op (x)", "partly"), ("com.microsoft.Gelu (x)", "partly"), ("ai.onnx.ml.Binarizer (x)", "certified"), ("Exp (x)", "certified"), ("Bernoulli (x)", "partly"), ("Bernoulli <seed = 1.0> (x)", "partly"), ("RandomNormalLike (x)", "partly"), ("RandomUniformLike (x)", "partly"), ("RandomNormal <shape = [2]> ()", "partly"), ("RandomUniform <shape = [2]> ()", "partly"))),
    ("g (float[1, 2] x) => (int32[1, 1] y, int32[1, 1] z) { y = Multinomial (x) z = Identity (y) }", "Identity (y)", "Multinomial (x)", "partly"),
    ("g (float[2] x) => (float[2] y, float[2] z) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) z = Identity (y) }", "Identity (y)", "Dropout (x, r, t)", "partly"),
    # operands of mixed types
    ("g (float[4] x, int64[2] i, float16[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }", "y =", "w = Cast <to = 1> (u) y =", "partly"),
    ("g (float[4] x, int64[2] i, float16[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }", "y = ScatterElements (x, i, u)", "w = Cast <to = 1> (u) y = ScatterElements (x, i, w)", "certified"),
    ("g (float16[4] x, int64[2] i, float[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }", "y = ScatterElements (x, i, u)", "w = Cast <to = 1> (x) y = ScatterElements (w, i, u)", "certified"),
    ("g (float16[4] x, int64[2] i, float[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }", "y = ScatterElements (x, i, u)", "w = Cast <to = 10> (u) v = ScatterElements (x, i, w) y = Cast <to = 1> (v)", "partly"),
    ("g (float16[4] x, float[4] z) => (float[4] y) { y = Pow (x, z) }", "Pow (x, z)", "Pow (z, z)", "partly"),
    ("g (int8[4] x, float16[4] z, bfloat16[4] w) => (float[4] y) { y = Max (x, z, w) }", "y = Max (x, z, w)", "a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Cast <to = 1> (w) y = Max (a, b, c)", "certified"),
    ("g (int8[4] x, float16[4] z, bfloat16[4] w) => (float[4] y) { y = Max (x, z, w) }", "y = Max (x, z, w)", "a = Cast <to = 10> (x) b = Cast <to = 10> (w) c = Max (a, z, b) y = Cast <to = 1> (c)", "partly"),
    # inputs and their defaults
    ("g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Add (x, d) }", "y = Add (x, d)", "a = Identity (d) y = Add (x, a)", "certified"),
    ("g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Add (x, d) }", "(x, d)", "(x, k)", "refused"),
    ("g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Identity (x) }", "{1, 2}", "{1, 3}", "partly"),
    ("g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Identity (x) }", " = {1, 2}", "", "partly"),
    ("g (float[2] x, float[2] d) => (float[2] y) { y = Identity (x) }", ", float[2] d", "", "partly"),
    ("g (float[2] x, float[2] d) => (float[2] y) { y = Identity (x) }", "float[2] d", "double[2] d", "partly"),
    ("g (float[2] x, float[2] d) => (float[2] y) { y = Identity (x) }", "float[2] d", "uint8[2] d", "partly"),
    ("g (float[2] x, float16[2] d) => (float[2] y) { y = Identity (x) }", "float16[2] d", "uint8[2] d", "partly"),
    ("g (float[2] x, int4[2] d) => (float[2] y) { y = Identity (x) }", "int4[2] d", "uint8[2] d", "certified"),
    ("g (float[2] x, int4[2] d) => (float[2] y) { y = Identity (x) }", "int4[2] d", "uint8[3] d", "partly"),
    ("g (float[2] x, int4[2] d) => (float[2] y) { y = Identity (x) }", "int4[2] d", "int8[2] d", "partly"),
    ("g (float[2] x, int4[2] d) => (float[2] y) { y = Identity (x) }", "int4[2] d", "uint8[2] e", "partly"),
    ("g (float[2] x, int8[2] d) => (float[2] y) { y = Identity (x) }", "int8[2] d", "uint8[2] d", "partly"),
    ("g (float[2] x, float8e5m2[2] d) => (float[2] y) { y = Identity (x) }", "float8e5m2[2] d", "uint8[2] d", "certified"),
    ("g (float[2] x) => (float[2] y) { y = Identity (x) }", "float[2] y", "float[2] x", "partly"),
    # outputs of small types, and their codes
    ("g (int4[2, 2] x) => (int4[2, 2] y) { y = Transpose <perm = [1, 0]> (x) }", "1, 0", "0, 1", "partly"),
    ("g (int4[2, 2] x) => (int4[2, 2] y) { y = Transpose (x) }", "Transpose", "Identity", "partly"),
    ("g (int4[2] x) => (int4[] y) <int64[2] s = {2, 1}> { a = Cast <to = 6> (x) b = Neg (a) y = Cast <to = 22> (b) }", "Cast <to = 22> (b)", "Reshape (x, s)", "partly"),
    ("g (int4[2] x) => (int4[] y) <int64[2] s = {2, 1}> { a = Cast <to = 6> (x) b = Neg (a) y = Reshape (x, s) }", "Reshape (x, s)", "Cast <to = 22> (b)", "partly"),
    ("g (float4e2m1[2] x) => (float4e2m1[2] y) { y = Identity (x) }", "float4e2m1[2] y", "int4[2] y", "partly"),
    ("g (float[6] x, int64[M] n) => (double[] y) { y = Reshape (x, n) }", "double[]", "float[]", "certified"),
    ("g (float[6] x, int64[M] n) => (float[] y) { y = Reshape (x, n) }", "float[]", "float[A]", "partly"),
    ("g (float[6] x, int64[M] n) => (float[] y) { y = Reshape (x, n) }", "float[]", "double[]", "partly"),
    ("g (float[2] x) => (float[2] y) { y = Neg (x) }", "float[2] y", "y", "partly"),
    ("g (float16[2] x, float16[2] z) => (int4[2] y) { y = Cast <to = 22> (x) }", "Cast <to = 22> (x)", "Cast <to = 22> (z)", "partly"),
    ("g (int8[2] x) => (int4[2] y) { a = Cast <to = 1> (x) y = Cast <to = 22> (a) }", "a = Cast <to = 1> (x) y = Cast <to = 22> (a)", "y = Cast <to = 22> (x)", "certified"),
    ("g (int8[2] x) => (int4[2] y) { a = Cast <to = 1> (x) y = Cast <to = 22> (a) }", "a = Cast <to = 1> (x) y = Cast <to = 22> (a)", "a = Abs (x) y = Cast <to = 22> (a)", "partly"),
    ("g (int8[2] x) => (int4[2] y) { y = Cast <to = 22> (x) }", "y = Cast <to = 22> (x)", "a = Cast <to = 1> (x) y = Cast <to = 22> (a)", "partly"),
    ("g (uint16[2] x) => (uint4[2] y) { y = Cast <to = 21> (x) }", "uint4[2] y) { y = Cast <to = 21>", "uint8[2] y) { y = Cast <to = 2>", "partly"),
    ("g (int4[2] x) => (int4[2] y, int4[2] z) { y = Identity (x) z = Identity (x) }", ", int4[2] z)", ")", "partly"),
    ("g (float4e2m1[2] x) => (float4e2m1[2] y, float4e2m1[2] z) { y = Identity (x) z = Identity (x) }", ", float4e2m1[2] z)", ")", "partly"),
    ("g (float16[2] x) => (int8[2] y) <float16 l = {55296}, float16 h = {22512}> { y = Cast <to = 3> (x) }", "y = Cast <to = 3> (x)", "c = Clip (x, l, h) y = Cast <to = 3> (c)", "partly"),
    ("g (float16[2] x) => (int4[2] y) <float16 l = {51200}, float16 h = {18176}> { y = Cast <to = 22> (x) }", "y = Cast <to = 22> (x)", "m = Max (x, l) c = Min (m, h) y = Cast <to = 22> (c)", "certified"),
    # outputs of which no type is known
    ("g (float[2] x) => (y) { y = Neg (x) }", "(y)", "(float[2] y)", "certified"),
    ("g (float[2] x) => (float[2] y) { y = Neg (x) }", "(float[2] y)", "(y)", "partly"),
    # what is stated of values
    ("g (float[N, 2] x) => (float[N, 2] y) <float[N, 2] a> { a = Neg (x) y = Abs (a) }", "<float[N, 2] a>", "<float[N, 2] a, float[3] q>", "certified"),
    ("g (float[N, 2] x) => (float[N, 2] y) <float[N, 2] a> { a = Neg (x) y = Abs (a) }", "<float[N, 2] a>", "<a>", "certified"),
    ("g (float[N] x, float[2] z) => (float[2] y) <float[2] a> { a = Neg (z) y = Abs (a) }", "<float[2] a>", "<float[N] a>", "partly"),
    *(("g (float[6] x, int64[K] n) => (float[M] y) <float[] a> { a = Reshape (x, n) y = Neg (a) }", "<float[] a>", f"<{fact} a>", "partly") for fact in ("float", "float[M]", "float[6]")),
    # constants of strings, a second node that nothing uses, and what a Loop carries
    ('g () => (string[1] y) <string[1] k = {"a"}> { y = Identity (k) }', '"a"', '"b"', "partly"),
    ("g (float[2] x, float[2] w) => (float[2] y) { a = Exp (x) y = Abs (x) }", "y =", "b = Exp (w) y =", "partly"),
    (_LOOP.replace("y = Loop", "z = Loop").replace("}> }", "}> y = Neg (z) }"), "y = Neg (z)", "c = Cast <to = 10> (z) y = Neg (c)", "certified"),
    *((_LOOP.replace("(float16[2] y)", "(float16[2] y, float16[M, 2] s)").replace("y = Loop", "y, s = Loop").replace("float16[2] w)", "float16[2] w, float16[2] o)").replace("w = Add", "o = Neg (v) w = Add"), *change) for change in (("o = Neg", "o = Abs", "partly"), ("o = Neg (v)", "u = Neg (v) o = Identity (u)", "certified"))),
    (_LOOP.replace("y = Loop (n, t, x)", "u, y = Loop (n, t, , x)").replace("bool k,", "bool k, float16[2] p,").replace("bool k2,", "bool k2, float16[2] q,").replace("w = Add", "q = Identity (p) w = Add"), "w = Add (v, v)", _WIDE, "certified"),
    ("g (int64 n) => (int64[A] y, int64[B] z) { y, z = Loop (n) <body = b (int64 i, bool k) => (bool k2, int64 o, int64 p) { k2 = Identity (k) o = Neg (i) p = Abs (i) }> }", "p = Abs", "p = Neg", "partly"),
    # sizes that no runtime takes
    ("g (float[2, 2] x, int64[1, 1] i) => (float[A, B] y) { y = GatherND <batch_dims = -1> (x, i) }", "-1", "-2", "partly"),
    ("g (float[4] x) => (float[A] y, float[B] z) { y, z = Split <num_outputs = 1> (x) }", "= 1", "= 3", "partly"),
    # versions of the file
    *(("g (float[2] x) => (float[2] y) { y = Neg (x) }", "ir_version: 10", f"ir_version: {version}", said) for version, said in ((9, "partly"), (11, "certified"), (12, "certified"))),
    # what a scope, a call and a body hold
    ('g (float[2] x, float[2] z) => (float[2] y) { y = Neg (x) }', 'y = Neg (x)', 'z = Neg (x) y = Identity (z)', 'refused'),
    ('g (bool c, float[2] x) => (float[2] y, float[2] z) { z = Exp (x) y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }> }', '(float[2] a) { a =', '(float[2] z) { z =', 'certified'),
    ('g (float[2] x) => (float[2] y, float[2] z) { y, z = Identity (x) }', 'y, z = Identity (x)', 'y = Identity (x) z = Identity (x)', 'partly'),
    ('g (float[2] x) => (float[2] y) { y = Neg <foo = 1> (x) }', 'foo = 1', 'foo = 2', 'partly'),
    ('g () => (float y) { y = Constant <value_float = 1.0, foo = 1> () }', 'foo = 1', 'foo = 2', 'partly'),
    ('g () => (string y) { y = Constant <value_string = "a"> () }', '"a"', '"b"', 'partly'),
    ('g (float[N] x, float[2] z) => (int64[1] y, float[M] r, float[2] w) <float[2] a> { a = Neg (z) w = Abs (a) y, r = l.F (x) } <domain: "l", opset_import: ["" : 23]> F (p) => (q, r) { a = l.Op (p) r = Identity (a) q = Shape (a) }', 'q = Shape (a)', 'q = Constant <value_ints = [2]> ()', 'partly'),
    ('g (float[2] x) => (float[2] y) <float[2] k = {0.5, 0.25}> { i = Constant <value_int = 2> () r = Gather (k, i) y = Dropout (x, r) }', 'y = Dropout (x, r)', 'a = Identity (x) y = Dropout (a, r)', 'certified'),
    ('g (float[2] x, int64 r) => (float[2] y) { y = Dropout (x) }', 'Dropout (x)', 'Dropout (x, r)', 'partly'),
    ('g (bool c, float[2] x, float[3] w) => (float[M] y, int64[1] s) { y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Neg (w) }> s = Shape (y) }', 'Shape (y)', 'Constant <value_ints = [2]> ()', 'partly'),
    ('g (bool c, float[2] x, double[2] w) => (float[2] z) { y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (double[2] b) { b = Neg (w) }> z = Cast <to = 1> (y) }', 'Cast <to = 1> (y)', 'Identity (y)', 'partly'),
    ('g (float[2] x) => (float[2] y, float[2] z) { y = l.F (x) z = Identity (y) } <domain: "l", opset_import: ["" : 23]> F (p) => (q) { q = RandomNormalLike (p) }', 'Identity (y)', 'l.F (x)', 'partly'),
    ('g (float[2] x) => (float[2] y) { y = l.F (x) } <domain: "l", opset_import: ["" : 23]> F (p) => (q) { q = l.Op (p) }', '["" : 23]', '["" : 23, "l" : 1]', 'certified'),
    ('g (float[2] x) => (float[2] y) { y = l.F <alpha = 0.25> (x) } <domain: "l", opset_import: ["" : 23]> F <alpha: float = 0.5> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }', 'l.F <alpha = 0.25>', 'LeakyRelu <alpha = 0.25>', 'certified'),
    ('g (float[2] x) => (float[2] y) { y = l.F (x) } <domain: "l", opset_import: ["" : 23]> F <alpha: float = 0.5> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }', 'l.F (x)', 'LeakyRelu <alpha = 0.5> (x)', 'certified'),
    ('g (float[2] x) => (float[2] y) { y = l.F <alpha = 0.25> (x) } <domain: "l", opset_import: ["" : 23]> F <alpha: float = 0.5> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }', 'l.F <alpha = 0.25>', 'LeakyRelu <alpha = 0.5>', 'partly'),
    ('g (float[3, 2] x, float[2] s) => (float[2] y, float[3, 2] z) { y, z = Scan <num_scan_inputs = 1, body = step (float[2] a, float[2] e) => (float[2] b, float[2] o) { b = Add (a, e) o = Mul (b, e) }> (s, x) }', 'b = Add (a, e)', 'n = Cast <to = 1> (a) b = Add (n, e)', 'certified'),
    ('g (float[2] x) => (float[2] y) { y = l.Op <body = b (float[2] a) => (float[2] o) { o = Neg (a) }> (x) }', 'o = Neg (a)', 'c = Cast <to = 1> (a) o = Neg (c)', 'certified'),
    ('g (float[2] x, int64 n) => (float[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) { k2 = Identity (k) w = Loop (n, t, v) <body = c (int64 j, bool l, float[2] u) => (bool l2, float[2] o) { l2 = Identity (l) o = Add (u, u) }> }> }', 'Add (u, u)', 'Add (v, u)', 'partly'),
    ('g (float[2] x, double[2] d, int64 n) => (float[2] y, double[2] z) { t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) { k2 = Identity (k) w = Add (v, v) }> z = Loop (n, t, d) <body = c (int64 j, bool l, double[2] u) => (bool l2, double[2] o) { l2 = Identity (l) o = Add (u, u) }> }', 'o = Add (u, u)', 'e = Cast <to = 1> (u) o = Add (e, e)', 'partly'),
    ('g (float16[2] x, bool t) => (float16[2] y) { y = Loop ( , t, x) <body = b (int64 i, bool k, float16[2] v) => (bool k2, float16[2] w) { k2 = Not (k) f = Cast <to = 10> (i) w = Add (v, f) }> }', 'f = Cast <to = 10> (i)', 'h = Cast <to = 7> (i) f = Cast <to = 10> (h)', 'certified'),
    ('g (float[2] x) => (float[2] y) { y = l.F:a (x) } <domain: "l", overload: "a", opset_import: ["" : 23]> F (p) => (q) { q = Neg (p) } <domain: "l", overload: "b", opset_import: ["" : 23]> F (p) => (q) { q = Abs (p) }', 'l.F:a', 'l.F:b', 'partly'),
    ('g (float[2] x) => (float[2] y) { y = l.F:a (x) } <domain: "l", overload: "a", opset_import: ["" : 23]> F (p) => (q) { q = Neg (p) } <domain: "l", overload: "b", opset_import: ["" : 23]> F (p) => (q) { q = Abs (p) }', 'l.F:a', 'Neg', 'certified'),
    # operators of which nothing is known
    ("g (float[2] x) => (float[2] y) { y = l.Op (x) }", '"l" : 1', '"l" : 2', "partly"),
    ("g (float[2] x) => (float[2] y) { y = l.Op (x) }", "(x)", "(x, x)", "partly"),
    ("g (float[2] x) => (float[2] y) { y = l.Op (x) }", "l.Op", "l.Other", "partly"),
    ("g (float[2] x) => (float[2] y) { y = l.Op <a = 1> (x) }", "a = 1", "a = 2", "partly"),
    ("g (float[2] x) => (float[2] y) { y = l.Op (x) }", "x) }", "x) } ", "certified"),
]  # fmt: skip


def test_a_change_of_a_model_is_certified_or_not() -> None:
    def compare(text: str, old: str, new: str, expected: str) -> None:
        text = _FOREIGN.replace("23", "25") + text
        assert text.count(old) == 1, text.count(old)
        assert outcome_of((text, text)) == "certified"
        assert outcome_of((text, text.replace(old, new))) == expected

    check_all(compare, _CHANGED)


_IN_DOUBT = "nodes that fail, that nothing uses, or whose operands have mixed types"
_STATED = "types and shapes that are stated of values, but not known"
_THEN = "g (bool c, float[2] x) => (float[2] y) { z = Neg (x) " + _BRANCHES + " w = Exp (z) y2 = Add (y, w) }"
_DROPPED = "g (float[2] x) => (float[2] y) <float[2] k = {0.5, 0.25}> { i = Constant <value_int = 1> () r = Gather (k, i) y = Dropout (x, r) }"
_DOUBTS: list[tuple[str, str, str, str, list[str]]] = [  # a model, a text in it, what replaces it, what is in doubt, and where
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "y =", "a = Exp (x) y =", _IN_DOUBT, ["Exp, which nothing uses,"]),
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "y =", "a = Exp (x) b = Sin (a) y =", _IN_DOUBT, ["Sin, which nothing uses,"]),
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "y =", "b = Sin (x) a = Exp (x) y =", _IN_DOUBT, ["Exp, which nothing uses,", "Sin, which nothing uses,"]),
    ("g (bool c, float[2] x) => (float[2] y) { z = Neg (x) " + _BRANCHES + " }", "(float[2] a) { a = Neg (x) }", "(float[2] z) { }", _IN_DOUBT, ["z, which the body does not make,"]),
    (_DROPPED, "value_int = 1", "value_int = 2", _IN_DOUBT, ["Gather"]),
    ("g (int32[2] x, float[2] z) => (float[2] y) { a = Cast <to = 1> (x) y = Add (a, z) }", "Cast <to = 1>", "Identity", _IN_DOUBT, ["Add"]),
    ("g (float[2] x) => (float[2] y) <float[2] a> { a = Neg (x) y = Abs (a) }", "<float[2] a>", "<float[3] a>", _STATED, ["a"]),
    ("g (float[2] x) => (float[2] y) <float[2] a> { a = Neg (x) y = Abs (a) }", "<float[2] a>", "<int32[2] a, float[2] y>", _STATED, ["a"]),
    ("g (float[2] x, float[3] z) => (float[2] y, float[3] w) <float[A] a, float[B] b> { a = Neg (x) y = Abs (a) b = Neg (z) w = Abs (b) }", "[B]", "[A]", _STATED, ["b"]),
    ("g (float[2] x, float[3] z) => (float[2] y, float[3] w) <float[A] a, float[B] b> { a = Neg (x) y = Abs (a) b = Neg (z) w = Abs (b) }", "float[A]", "float[B]", _STATED, ["a"]),
    ("g (float[N] x) => (float[N] y) <float[N] a> { a = Neg (x) y = Abs (a) }", "[N] a", "[2] a", _STATED, ["a"]),
    ("g (float[2] x) => (float[2] y, float[2] z) <float[7] a> { a = Neg (x) y = Abs (a) z = Exp (x) }", "a = Neg (x) y = Abs (a) z = Exp (x)", "b = Neg (x) y = Abs (b) a = Exp (x) z = Identity (a)", _STATED, ["a"]),
    ("g (float[2] x) => (float[2] y) { y = Abs (x) }", "Abs", "Exp", "", ["y"]),
]  # fmt: skip


def test_what_is_not_certified_says_where() -> None:
    def compare(text: str, old: str, new: str, kind: str, names: list[str]) -> None:
        assert text.count(old) == 1
        before, after = map(onnx.parser.parse_model, (HEAD + text, HEAD + text.replace(old, new)))
        step = ("output", [kind], names) if kind else ("forged", [], names)
        assert checker.check(before, before, certificate_between(before, before)).left == []
        assert checker.check(before, after, certificate_between(before, after)).left == [step]

    check_all(compare, _DOUBTS)


def test_a_function_that_calls_itself_is_refused() -> None:
    text = _FOREIGN + _CALLED.replace("Neg (p)", "l.F (p)").replace('"" : 23]> F', '"" : 23, "l" : 1]> F')
    model = onnx.parser.parse_model(text)
    with pytest.raises(checker.RefusedError, match=r"^the functions of the model, written out, have"):
        checker.check(model, model, certificate_between(model, model))


@pytest.mark.parametrize("end", ["Cast <to = 16>", "Cast <to = 1>", "Neg"])
def test_a_cast_of_many_moves_is_read(end: str) -> None:
    """More moves, one after the other, than Python calls in each other."""
    moves = " ".join(f"v{n + 1} = Transpose (v{n})" for n in range(600))
    kind = {"Neg": "float16", "Cast <to = 1>": "float"}.get(end, "bfloat16")
    text = f"{HEAD}g (float16[2, 2] v0) => ({kind}[2, 2] y) {{ {moves} y = {end} (v600) }}"
    assert outcome_of((text, text)) == "certified"
