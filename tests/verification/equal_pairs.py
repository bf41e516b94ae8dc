"""Pairs of models that mean the same and are written otherwise: renamed, reordered, folded, without what changes nothing."""

# ruff: noqa: E501
from __future__ import annotations

from tests.verification.pairs import HEAD

EQUAL_PAIRS: dict[str, tuple[str, str]] = {}


def _same(name: str, a: str, b: str, head: str = HEAD, other: str = "") -> None:
    EQUAL_PAIRS[name] = head + a, (other or head) + b


# fmt: off
_same("renamed","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add (x, w) b = Neg (a) y = Relu (b) }","g (float[2] x) => (float[2] y) <float[2] k = {1, 2}> { b = Add (x, k) a = Neg (b) y = Relu (a) }")
_same("reordered","g (float[2] x, float[2] z) => (float[2] y) { a = Neg (x) b = Abs (z) y = Add (a, b) }","g (float[2] x, float[2] z) => (float[2] y) { b = Abs (z) a = Neg (x) y = Add (a, b) }")
_same("constant node","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }","g (float[2] x) => (float[2] y) { w = Constant <value = float[2] {1, 2}> () y = Add (x, w) }")
_same("value_floats","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }","g (float[2] x) => (float[2] y) { w = Constant <value_floats = [1.0, 2.0]> () y = Add (x, w) }")
_same("folded add","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> { s = Add (w, v) y = Add (x, s) }","g (float[2] x) => (float[2] y) <float[2] s = {4, 6}> { y = Add (x, s) }")
_same("folded mul/sqrt","g (float[2] x) => (float[2] y) <float[2] w = {4, 9}> { s = Sqrt (w) y = Mul (x, s) }","g (float[2] x) => (float[2] y) <float[2] s = {2, 3}> { y = Mul (x, s) }")
_same("folded transpose","g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { s = Transpose (w) y = MatMul (x, s) }","g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 3, 2, 4}> { y = MatMul (x, w) }")
_same("folded concat shape","g (float[4] x) => (float[2, 2] y) { a = Constant <value_ints = [2]> () b = Constant <value_ints = [2]> () s = Concat <axis = 0> (a, b) y = Reshape (x, s) }","g (float[4] x) => (float[2, 2] y) { s = Constant <value_ints = [2, 2]> () y = Reshape (x, s) }")
_same("folded dequant","g (float[2] x) => (float[2] y) <int8[2] w = {4, 9}, float c = {0.5}> { s = DequantizeLinear (w, c) y = Mul (x, s) }","g (float[2] x) => (float[2] y) <float[2] s = {2, 4.5}> { y = Mul (x, s) }")
_same("cast dedup","g (float[2] x) => (float16[2] y, float16[2] z) { a = Cast <to = 10> (x) b = Cast <to = 10> (x) y = Neg (a) z = Abs (b) }","g (float[2] x) => (float16[2] y, float16[2] z) { a = Cast <to = 10> (x) y = Neg (a) z = Abs (a) }")
_same("cast roundtrip","g (float16[2] x) => (float16[2] y) { a = Cast <to = 1> (x) b = Cast <to = 10> (a) y = Neg (b) }","g (float16[2] x) => (float16[2] y) { y = Neg (x) }")
_same("identity","g (float[2] x) => (float[2] y) { a = Identity (x) y = Neg (a) }","g (float[2] x) => (float[2] y) { y = Neg (x) }")
_same("cse matmul","g (float[2, 2] x) => (float[2, 2] y) { a = MatMul (x, x) b = MatMul (x, x) y = Add (a, b) }","g (float[2, 2] x) => (float[2, 2] y) { a = MatMul (x, x) y = Add (a, a) }")
_same("default attrs","g (float[2, 2] x) => (float[2, 2] y) { y = Softmax (x) }","g (float[2, 2] x) => (float[2, 2] y) { y = Softmax <axis = -1> (x) }")
_same("axis -1 / 1","g (float[2, 2] x) => (float[2, 2] y) { y = Softmax <axis = 1> (x) }","g (float[2, 2] x) => (float[2, 2] y) { y = Softmax <axis = -1> (x) }")
_same("unused","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Neg (x) u = Add (x, w) }","g (float[2] x) => (float[2] y) { y = Neg (x) }")
_LOCAL=HEAD.replace("]>",', "local" : 1]>')
_same("function inlined",'g (float[2] x) => (float[2] y) { y = local.f (x) } <domain: "local", opset_import: ["" : 23]> f (a) => (b) { c = Neg (a) b = Relu (c) }','g (float[2] x) => (float[2] y) { c = Neg (x) y = Relu (c) }',_LOCAL,HEAD)
_same("opset 13/21","g (float[2, 2] x) => (float[2, 2] y) { a = Add (x, x) t = Transpose (a) y = Softmax (t) }","g (float[2, 2] x) => (float[2, 2] y) { a = Add (x, x) t = Transpose (a) y = Softmax (t) }",HEAD.replace("23","13"),HEAD.replace("23","21"))
_same("opset 17/18 reduce","g (float[2, 2] x) => (float[2] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }","g (float[2, 2] x) => (float[2] y) { a = Constant <value_ints = [1]> () y = ReduceMean <keepdims = 0> (x, a) }",HEAD.replace("23","17"),HEAD.replace("23","18"))
_same("transpose pair","g (float[2, 3] x) => (float[2, 3] y) { a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) y = Neg (b) }","g (float[2, 3] x) => (float[2, 3] y) { y = Neg (x) }")
_same("if const","g (float[2] x) => (float[2] y) <bool c = {1}> { y = If (c) <then_branch = a () => (float[2] p) { p = Neg (x) }, else_branch = b () => (float[2] q) { q = Abs (x) }> }","g (float[2] x) => (float[2] y) { y = Neg (x) }")
_same("if names","g (float[2] x, bool c) => (float[2] y) { y = If (c) <then_branch = a () => (float[2] p) { p = Neg (x) }, else_branch = b () => (float[2] q) { q = Abs (x) }> }","g (float[2] x, bool c) => (float[2] y) { y = If (c) <then_branch = aa () => (float[2] pp) { pp = Neg (x) }, else_branch = bb () => (float[2] qq) { qq = Abs (x) }> }")
_same("a difference is a sum","g (float[2, 2] x, float[2, 2] w) => (float[2, 2] y) { y = Sub (x, w) }","g (float[2, 2] x, float[2, 2] w) => (float[2, 2] y) { n = Neg (w) y = Add (x, n) }")
_same("x*2 / x+x","g (float[4] x) => (float[4] y) { k = Constant <value_float = 2.0> () y = Mul (x, k) }","g (float[4] x) => (float[4] y) { y = Add (x, x) }")
_same("relu/max","g (int32[4] x) => (int32[4] y) { y = Relu (x) }","g (int32[4] x) => (int32[4] y) { k = Constant <value = int32 {0}> () y = Max (x, k) }")
_same("cast moved","g (float[2, 3] x) => (float16[3, 2] y) { a = Transpose (x) y = Cast <to = 10> (a) }","g (float[2, 3] x) => (float16[3, 2] y) { a = Cast <to = 10> (x) y = Transpose (a) }")
_same("loop body cast","g (float16[2] x, int64 n) => (float16[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = s (int64 i, bool c, float16[2] a) => (bool d, float16[2] b) { d = Identity (c) e = Cast <to = 1> (a) f = Cast <to = 10> (e) b = Neg (f) }> }","g (float16[2] x, int64 n) => (float16[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = s (int64 i, bool c, float16[2] a) => (bool d, float16[2] b) { d = Identity (c) b = Neg (a) }> }")
_same("add commuted","g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }","g (float[2] x, float[2] z) => (float[2] y) { y = Add (z, x) }")
_same("mul const commuted","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }","g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (w, x) }")
_same("seeded random same","g (float[2] x) => (float[2] y) { r = RandomNormalLike <seed = 1.0> (x) a = Identity (r) y = Add (x, a) }","g (float[2] x) => (float[2] y) { r = RandomNormalLike <seed = 1.0> (x) y = Add (x, r) }")
_same("embedding renamed","g (int64[4] i) => (float[4, 2] y) <float[5, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> { y = Gather (w, i) }","g (int64[4] i) => (float[4, 2] y) <float[5, 2] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> { y = Gather (v, i) }")
_same("slice end intmax","g (float[4] x) => (float[N] y) { a = Constant <value_ints = [1]> () b = Constant <value_ints = [4]> () y = Slice (x, a, b) }","g (float[4] x) => (float[N] y) { a = Constant <value_ints = [1]> () b = Constant <value_ints = [9223372036854775807]> () y = Slice (x, a, b) }")
_same("conv defaults","g (float[1, 1, 3, 3] x) => (float[1, 1, 3, 3] y) <float[1, 1, 1, 1] w = {2}> { y = Conv (x, w) }","g (float[1, 1, 3, 3] x) => (float[1, 1, 3, 3] y) <float[1, 1, 1, 1] w = {2}> { y = Conv <kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1> (x, w) }")
_same("sequence same","g (float[6] x) => (seq(float[N]) y) { k = Constant <value_int = 2> () y = SplitToSequence (x, k) }","g (float[6] x) => (seq(float[N]) y) <int64 k = {2}> { z = Identity (x) y = SplitToSequence (z, k) }")
_same("strings",'g (string[2] x) => (bool[2] y) { k = Constant <value_strings = ["text"]> () y = Equal (x, k) }','g (string[2] x) => (bool[2] y) { k = Constant <value_strings = ["text"]> () a = Identity (x) y = Equal (a, k) }')
_same("a zero of either sign from QuantizeLinear", "g (float[4] x) => (float8e4m3fn[4] y) <float s = {0.5}, float8e4m3fn z = {0}> { y = QuantizeLinear (x, s, z) }", "g (float[4] x) => (float8e4m3fn[4] y) <float s = {0.5}> { d = Div (x, s) y = Cast <to = 17> (d) }")
