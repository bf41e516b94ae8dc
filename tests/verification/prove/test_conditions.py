"""Each condition of each rule of proof has a pair of models that only it refuses, beside a pair that the rule proves."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.verification import checker
from castsmith.verification.prove.proof import Held, prove
from tests.sampling import check_all

UNSAFE = castsmith.PromotionRules(promote_unsafe=True)


def parsed(text: str, opset: int = 23) -> onnx_ir.Model:
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "f" : 1, "com.microsoft" : 1]>\n'
    return as_model(onnx.parser.parse_model(head + text))


def proven(a: onnx_ir.Model, b: onnx_ir.Model, **options: Any) -> bool:
    """True if all outputs are proven equal."""
    settings: dict[str, Any] = {"rules": UNSAFE, **options}
    return set(prove(a, b, **settings).proven) == {value.name for value in a.graph.outputs}


_F, _H, _I = (f"g ({kind}[N] x) => ({kind}[N] y)" for kind in ("float", "float16", "int8"))
_TO_HALF = "g (float[N] x) => (float16[N] y)"
_U = "g (float[N] x) => (uint32[N] y)"
_K = "k = Constant <value_float = {}> ()"
_COUNT = ", ".join(map(str, range(255)))
_DRAW = "g () => (float[2] y)"
_TRUE, _FALSE = (f"t = Constant <value = bool {{{flag}}}> ()" for flag in (1, 0))
_IF = "y = If (c) <then_branch = a () => (float[N] p) {{ {} }}, else_branch = b () => (float[N] q) {{ {} }}>"
_LOOP = """{} y = Loop (n, t, x) <body = s (int64 i, bool c, float[N] a) => (bool d, float[N] b) {{ d = Identity (c) {} }}>"""
_WIDE = "a = Cast <to = 11> (x) b = Cast <to = 1> (a)"
_IF_BITS = "y = If (c) <then_branch = t () => (uint32[N] p) {{ p = BitCast <to = 12> ({}) }}, else_branch = e () => (uint32[N] q) {{ q = BitCast <to = 12> ({}) }}>"
_SCAN = "y, w = Scan <num_scan_inputs = 1, body = s (float a, float e) => (float b, float o) {{ {} }}> (x, z)"

# By rule: the head of the models, a body, bodies proven to be equal to it, and different ones.
RULES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "Identity": (_F, "y = Relu (x)", ["a = Identity (x) y = Relu (a)"], ["a = Neg (x) y = Relu (a)"]),
    "Dropout": (
        _F, "y = Relu (x)",
        ["a = Dropout (x) y = Relu (a)", f"{_K.format(0.5)} a = Dropout (x, k) y = Relu (a)"],
        [f"{_K.format(0.5)} {_TRUE} a = Dropout <seed = 1> (x, k, t) y = Relu (a)",
         f"{_K.format(0.5)} {_TRUE} a = Dropout (x, k, t) y = Relu (a)"],
    ),
    "the mask of Dropout": (
        "g (bool[N] x) => (bool[N] y)", "f = Cast <to = 1> (x) a, y = Dropout (f)",
        ["f = Cast <to = 1> (x) b, y = Dropout (f)"], ["f = Cast <to = 1> (x) y = Cast <to = 9> (f)"],
    ),
    "a cast to the same type": (
        _F, "y = Relu (x)", ["a = Cast <to = 1> (x) y = Relu (a)", "a = CastLike (x, x) y = Relu (a)"],
        ["a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Relu (b)"],
    ),
    "the type of a cast": (
        "g (float16[N] x) => (bfloat16[N] y)", "y = Cast <to = 16> (x)",
        ["a = Cast <to = 11> (x) y = Cast <to = 16> (a)", f"{_K.format(1.0)} h = Cast <to = 16> (k) y = CastLike (x, h)"],
        ["a = Cast <to = 17> (x) y = Cast <to = 16> (a)", "a = Cast <to = 19> (x) y = Cast <to = 16> (a)"],
    ),
    "the type of a cast of float": (
        "g (float[N] x) => (float16[N] y)", "y = Cast <to = 10> (x)", [], ["a = Cast <to = 17> (x) y = Cast <to = 10> (a)"],
    ),
    "saturate": (
        "g (float16[N] x) => (float8e4m3fn[N] y)", "y = Cast <to = 17, saturate = 0> (x)",
        ["a = Cast <to = 11> (x) y = Cast <to = 17, saturate = 0> (a)"],
        ["y = Cast <to = 17> (x)", "y = Cast <to = 17, saturate = 1> (x)"],
    ),
    "round_mode": (
        "g (float16[N] x) => (float8e8m0[N] y)", 'y = Cast <to = 24, round_mode = "down"> (x)',
        ['a = Identity (x) y = Cast <to = 24, round_mode = "down"> (a)'],
        ['a = Cast <to = 11> (x) y = Cast <to = 24, round_mode = "down"> (a)', "y = Cast <to = 24> (x)", 'y = Cast <to = 24, round_mode = "nearest"> (x)'],
    ),
    "saturate of the first of two casts": (
        "g (float16[N] x) => (float16[N] y)", "a = Cast <to = 17, saturate = 0> (x) y = Cast <to = 10> (a)",
        ["a = Cast <to = 17, saturate = 0> (x) b = Cast <to = 1> (a) y = Cast <to = 10> (b)"],
        ["a = Cast <to = 17> (x) y = Cast <to = 10> (a)"],
    ),
    "a chain of wide types": (
        "g (int64[N] x) => (int32[N] y)", "y = Cast <to = 6> (x)", ["a = Cast <to = 13> (x) y = Cast <to = 6> (a)"],
        ["a = Cast <to = 11> (x) y = Cast <to = 6> (a)", "a = Cast <to = 3> (x) y = Cast <to = 6> (a)"],
    ),
    "a chain to the type it starts from": (
        "g (int32[N] x) => (int32[N] y)", "y = Neg (x)", ["a = Cast <to = 11> (x) b = Cast <to = 6> (a) y = Neg (b)"],
        ["a = Cast <to = 1> (x) b = Cast <to = 6> (a) y = Neg (b)"],
    ),
    "longer chains": (
        "g (int64[N] x) => (int8[N] y)", "y = Cast <to = 3> (x)",
        ["a = Cast <to = 13> (x) b = Cast <to = 5> (a) c = Cast <to = 2> (b) y = Cast <to = 3> (c)"],
        ["a = Cast <to = 13> (x) b = Cast <to = 1> (a) c = Cast <to = 2> (b) y = Cast <to = 3> (c)"],
    ),
    "a shape that is declared": (
        "g (float[2, 3, M] x) => (int64[K] y)", "y = Constant <value_ints = [2, 3]> ()",
        ["y = Shape <end = 2> (x)", "n = Neg (x) y = Shape <end = -1> (n)"],
        ["y = Shape (x)", "y = Shape <start = 1> (x)", "y = Shape <start = 1, end = 3> (x)", "y = Shape <end = 1> (x)"],
    ),
    "a dimension that is not declared": (
        "g (float[2, M] x) => (int64[K] y)", "y = Shape (x)", ["n = Neg (x) y = Shape (n)"],
        ["y = Constant <value_ints = [2, 0]> ()", "y = Shape <end = 1> (x)", "y = Shape <start = 1> (x)",
         "n = NonZero (x) y = Shape (n)", "n = Transpose (x) y = Shape (n)"],
    ),
    "the shape of a function of elements": (
        "g (float[N, M] x) => (int64[K] y)", "c = Cast <to = 6> (x) y = Shape (c)",
        ["a = Transpose (x) b = Neg (a) d = Transpose <perm = [1, 0]> (x) e = Transpose (d) y = Shape (x)",
         "y = Shape (x)", "c = Cast <to = 10> (x) d = Cast <to = 6> (c) y = Shape (d)"],
        ["t = Transpose (x) y = Shape (t)", "s = ReduceSum (x) y = Shape (s)"],
    ),
    "the shape of a function of moved elements": (
        "g (float[N, M] x) => (int64[K] y)", "r = Relu (x) t = Transpose (r) c = Cast <to = 6> (t) y = Shape (c)",
        ["r = Relu (x) t = Transpose (r) y = Shape (t)", "r = Relu (x) d = Cast <to = 6> (r) t = Transpose (d) y = Shape (t)"],
        ["r = Relu (x) c = Cast <to = 6> (r) y = Shape (c)"],
    ),
    "the shape beside a vector of constants": (
        "g (int32[1] x) => (int64[1] y)", "n = Neg (x) y = Shape (n)", ["y = Shape (x)"],
        ["k = Constant <value = int32[3] {0, 0, 0}> () a = Sub (x, k) y = Shape (a)"],
    ),
    "two Reshapes": (
        "g (float[N] x, int64[K] s) => (float[A, B] y)", "p = Constant <value_ints = [2, -1]> () y = Reshape (x, p)",
        ["f = Constant <value_ints = [-1]> () p = Constant <value_ints = [2, -1]> () a = Reshape (x, f) y = Reshape (a, p)",
         "p = Constant <value_ints = [2, -1]> () y = Reshape <allowzero = 0> (x, p)"],
        ["p = Constant <value_ints = [-1, 2]> () y = Reshape (x, p)", "y = Reshape (x, s)",
         "p = Constant <value_ints = [2, -1]> () a = Neg (x) y = Reshape (a, p)",
         "p = Constant <value_ints = [2, -1]> () a = Reshape (x, s) y = Reshape (a, p)",
         "f = Constant <value_ints = [3, -1]> () p = Constant <value_ints = [2, -1]> () a = Reshape (x, f) y = Reshape (a, p)",
         "f = Constant <value_ints = [-1]> () p = Constant <value_ints = [2, -1]> () a = Reshape (x, f) b = Neg (a) y = Reshape (b, p)"],
    ),
    "Reshape with a dimension that is copied": (
        "g (float[6, 1] x) => (float[A, B] y)", "p = Constant <value_ints = [0, -1]> () y = Reshape (x, p)",
        ["f = Constant <value_ints = [-1]> () p = Constant <value_ints = [0, 1]> () a = Reshape (x, f) y = Reshape (a, p)"],
        ["t = Transpose (x) f = Constant <value_ints = [-1]> () p = Constant <value_ints = [0, -1]> () a = Reshape (t, f) y = Reshape (a, p)"],
    ),
    "Reshape with a shape that is not known": (
        "g (float[1, 6] x, int64[K] s) => (float[A, B] y)", "y = Reshape (x, s)", ["a = Identity (x) y = Reshape (a, s)"],
        ["f = Constant <value_ints = [-1]> () a = Reshape (x, f) y = Reshape (a, s)"],
    ),
    "Reshape that copies no dimension": (
        "g (float[N] x, int64[K] s) => (float[A, B] y)", "y = Reshape <allowzero = 1> (x, s)",
        ["f = Constant <value_ints = [-1]> () a = Reshape (x, f) y = Reshape <allowzero = 1> (a, s)"],
        ["y = Reshape (x, s)"],
    ),
    "Reshape to a shape of zeros": (
        "g (float[N, M] x) => (float[A, B] y)", "p = Constant <value_ints = [0, 4]> () y = Reshape <allowzero = 1> (x, p)",
        [], ["p = Constant <value_ints = [0, 4]> () y = Reshape (x, p)"],
    ),
    "Reshape to a shape without zeros": (
        "g (float[N, M] x) => (float[A, B] y)", "p = Constant <value_ints = [2, 4]> () y = Reshape <allowzero = 1> (x, p)",
        ["p = Constant <value_ints = [2, 4]> () y = Reshape (x, p)"], [],
    ),
    "Reshape to its own shape": (
        "g (float[N, M] x, float[L, M] z) => (float[A, B] y)", "y = Relu (x)",
        ["s = Shape (x) a = Reshape (x, s) y = Relu (a)",
         "n = Cast <to = 6> (x) s = Shape (n) a = Reshape (x, s) y = Relu (a)"],
        ["s = Shape (z) a = Reshape (x, s) y = Relu (a)", "s = Shape <start = 1> (x) a = Reshape (x, s) y = Relu (a)",
         "s = Shape <end = 1> (x) a = Reshape (x, s) y = Relu (a)", "t = Transpose (x) s = Shape (t) a = Reshape (x, s) y = Relu (a)",
         "s = Size (x) a = Reshape (x, s) y = Relu (a)"],
    ),
    "functions of one element": (
        _I, "k = Constant <value = int8 {3}> () y = Sub (x, k)",
        ["k = Constant <value = int8 {-3}> () y = Add (x, k)"],
        ["k = Constant <value = int8 {4}> () y = Sub (x, k)", "k = Constant <value = int8 {3}> () y = Sub (k, x)",
         "k = Constant <value = int8 {3}> () y = Add (x, k)", "k = Constant <value = int8 {3}> () y = Max (x, k)"],
    ),
    "a vector of constants is no scalar": (
        "g (int8[3] x) => (int8[3] y)", "k = Constant <value = int8[3] {3, 4, 5}> () y = Sub (x, k)",
        ["k = Constant <value = int8[3] {3, 4, 5}> () a = Identity (x) y = Sub (a, k)"],
        ["k = Constant <value = int8 {3}> () y = Sub (x, k)", "k = Constant <value = int8[3] {3, 3, 5}> () y = Sub (x, k)"],
    ),
    "one constant of a vector is no scalar": (
        "g (int8 x) => (int8[K] y)", "k = Constant <value = int8[1] {3}> () y = Sub (x, k)", [],
        ["k = Constant <value = int8 {3}> () y = Sub (x, k)"],
    ),
    "a table": (
        f"g (uint8[N] x) => (float[N] y) <float[256] t = {{{_COUNT}, 255}}, float[256] u = {{{_COUNT}, 0}}>",
        "i = Cast <to = 6> (x) y = Gather (t, i)", ["i = Cast <to = 7> (x) y = GatherElements (t, i)", "y = Cast <to = 1> (x)"],
        ["i = Cast <to = 6> (x) y = Gather (u, i)"],
    ),
    "a table of several axes": (
        f"g (uint8[2, 2] x) => (float[A, B, C] y) <float[256, 1] t = {{{_COUNT}, 255}}>",
        "i = Cast <to = 6> (x) y = Gather (t, i)", [],
        ["i = Cast <to = 6> (x) y = GatherElements (t, i)"],
    ),
    "a table that is not constant": (
        "g (float[256] t, uint8[N] x) => (float[N] y)", "i = Cast <to = 6> (x) y = Gather (t, i)", [],
        ["y = Cast <to = 1> (x)"],
    ),
    "functions of two sources": (
        "g (int8[N] x, int8[N] z) => (int8[N] y)", "y = Sub (x, z)", ["a = Identity (x) y = Sub (a, z)"],
        ["y = Sub (z, x)", "y = Sub (x, x)", "y = Sub (z, z)"],
    ),
    "functions of the same source": (
        _I, "a = BitwiseAnd (x, x) y = Sub (a, x)", ["k = Constant <value = int8 {0}> () y = Mul (x, k)"],
        ["a = BitwiseXor (x, x) y = Sub (a, x)"],
    ),
    "operands of several types": (
        "g (int8[N] x) => (bool[N] y)", "a = Neg (x) y = Less (a, x)", ["a = Neg (x) y = Greater (x, a)"],
        ["a = Cast <to = 2> (x) b = Neg (x) y = Less (b, a)"],
    ),
    "sums of floats": (
        _H, "k = Constant <value = float16 {1}> () y = Add (x, k)", [],
        ["k = Constant <value = float16 {2}> () y = Add (x, k)"],
    ),
    "zero added": (
        _TO_HALF, f"{_K.format(0.0)} a = Add (x, k) y = Cast <to = 10> (a)", [],
        ["y = Cast <to = 10> (x)", f"{_K.format('-0.0')} a = Add (x, k) y = Cast <to = 10> (a)"],
    ),
    "shifts": (
        "g (uint8[N] x) => (uint8[N] y)", 'k = Constant <value = uint8 {2}> () y = BitShift <direction = "RIGHT"> (x, k)',
        ['k = Constant <value = uint8 {1}> () a = BitShift <direction = "RIGHT"> (x, k) y = BitShift <direction = "RIGHT"> (a, k)'],
        ['k = Constant <value = uint8 {2}> () y = BitShift <direction = "LEFT"> (x, k)'],
    ),
    "comparisons": (
        "g (int8[N] x) => (bool[N] y)", "k = Constant <value = int8 {3}> () y = Less (x, k)",
        ["k = Constant <value = int8 {2}> () y = LessOrEqual (x, k)", "k = Constant <value = int8 {3}> () a = GreaterOrEqual (x, k) y = Not (a)"],
        ["k = Constant <value = int8 {3}> () y = LessOrEqual (x, k)", "k = Constant <value = int8 {3}> () y = Equal (x, k)"],
    ),
    "bits": (
        "g (uint8[N] x) => (uint8[N] y)", "k = Constant <value = uint8 {15}> () y = BitwiseAnd (x, k)",
        ["k = Constant <value = uint8 {240}> () a = BitwiseOr (x, k) y = BitwiseXor (a, k)"],
        ["k = Constant <value = uint8 {15}> () y = BitwiseOr (x, k)", "k = Constant <value = uint8 {15}> () y = BitwiseXor (x, k)"],
    ),
    "Where": (
        _I, "k = Constant <value = int8 {3}> () c = Less (x, k) n = Abs (x) y = Where (c, k, n)",
        ["k = Constant <value = int8 {2}> () j = Constant <value = int8 {3}> () c = LessOrEqual (x, k) n = Abs (x) y = Where (c, j, n)"],
        ["k = Constant <value = int8 {3}> () c = Less (x, k) n = Abs (x) y = Where (c, n, k)"],
    ),
    "constants": (
        _F, f"{_K.format(0.1)} c = Cast <to = 10> (k) d = Cast <to = 1> (c) y = Mul (x, d)",
        [f"{_K.format(0.099975586)} y = Mul (x, k)"], [f"{_K.format(0.1)} y = Mul (x, k)"],
    ),
    "constants that the standard leaves open": (
        "g () => (int8 y)", f"{_K.format(300.0)} y = Cast <to = 3> (k)", [], ["y = Constant <value = int8 {127}> ()"],
    ),
    "an operand that is left out": (
        "g (float[N] x) => (float[N] y)", f"{_K.format(6.0)} y = Clip (x, , k)", [f"{_K.format(6.0)} a = Identity (x) y = Clip (a, , k)"],
        [f"{_K.format(6.0)} y = Clip (x, k)", f"{_K.format(6.0)} y = Clip (x, k, k)"],
    ),
    "moves and functions": (
        "g (float16[2, 3] x) => (bfloat16[A, B] y)", "r = Relu (x) t = Transpose (r) y = Cast <to = 16> (t)",
        ["r = Relu (x) c = Cast <to = 16> (r) y = Transpose (c)"],
        ["r = Relu (x) c = Cast <to = 16> (r) y = Transpose <perm = [0, 1]> (c)", "r = Relu (x) y = Cast <to = 16> (r)"],
    ),
    "operands that are moved alike": (
        "g (int8[2, 3] x, int8[2, 3] z) => (int8[A, B] y)", "a = Transpose (x) b = Neg (x) c = Transpose (b) y = Max (a, c)",
        [],
        ["n = Neg (x) a = Max (x, n) y = Transpose <perm = [0, 1]> (a)",
         "a = Transpose (x) b = Neg (x) c = Transpose <perm = [0, 1]> (b) y = Max (a, c)"],
    ),
    "operands that are moved by other operators": (
        "g (int8[2, 2] x) => (int8[A, B] y)", "a = Transpose (x) b = Neg (x) y = Max (a, b)", [],
        ["n = Neg (x) a = Max (x, n) y = Transpose (a)", "n = Neg (x) y = Max (x, n)"],
    ),
    "operands that are moved by other indices": (
        "g (int8[4] x) => (int8[A] y)",
        "i = Constant <value_ints = [0, 1]> () j = Constant <value_ints = [1, 0]> () a = Gather (x, i) n = Neg (x) b = Gather (n, j) y = Max (a, b)", [],
        ["i = Constant <value_ints = [0, 1]> () n = Neg (x) m = Max (x, n) y = Gather (m, i)",
         "i = Constant <value_ints = [1, 0]> () n = Neg (x) m = Max (x, n) y = Gather (m, i)"],
    ),
    "operands of several shapes that are moved alike": (
        "g (int8[N, 1] x, int8[1, M] z) => (int8[A, B] y)",
        "s = Constant <value_ints = [-1]> () a = Reshape (x, s) b = Reshape (z, s) y = Max (a, b)", [],
        ["s = Constant <value_ints = [-1]> () m = Max (x, z) y = Reshape (m, s)"],
    ),
    "another output of a move": (
        "g (int8[4] x) => (int8[2] y)", "a, b = Split <num_outputs = 2> (x) n = Neg (x) c, d = Split <num_outputs = 2> (n) y = Max (a, c)",
        [],
        ["n = Neg (x) m = Max (x, n) a, y = Split <num_outputs = 2> (m)",
         "a, b = Split <num_outputs = 2> (x) n = Neg (x) c, d = Split <num_outputs = 2> (n) y = Max (a, d)"],
    ),
    "Concat": (
        "g (float16[N] x, float16[M] z) => (bfloat16[K] y)", "c = Concat <axis = 0> (x, z) y = Cast <to = 16> (c)",
        ["a = Cast <to = 16> (x) b = Cast <to = 16> (z) y = Concat <axis = 0> (a, b)"],
        ["a = Cast <to = 16> (x) b = Cast <to = 16> (z) y = Concat <axis = 0> (b, a)",
         "a = Cast <to = 16> (x) b = Cast <to = 17> (z) d = Cast <to = 16> (b) y = Concat <axis = 0> (a, d)"],
    ),
    "Concat of other numbers of parts": (
        "g (int8[N] x) => (int8[K] y)", "n = Neg (x) a = Concat <axis = 0> (x, x) b = Concat <axis = 0> (n, n) y = Max (a, b)",
        [],
        ["n = Neg (x) a = Concat <axis = 0> (x, x) b = Concat <axis = 0> (n, n, n) y = Max (a, b)"],
    ),
    "Where of moved elements": (
        "g (bool[N] c, float16[N] x, float16[N] z) => (bfloat16[N] y)", "w = Where (c, x, z) y = Cast <to = 16> (w)",
        ["a = Cast <to = 16> (x) b = Cast <to = 16> (z) y = Where (c, a, b)"],
        ["a = Cast <to = 16> (x) b = Cast <to = 16> (z) y = Where (c, b, a)"],
    ),
    "a move that computes": (
        "g (float16[1, 1, 2, 2] x) => (bfloat16[A, B, C, D] y) <float[4] s = {1, 1, 2, 2}>",
        'r = Resize <mode = "linear"> (x, , s) y = Cast <to = 16> (r)', [],
        ['c = Cast <to = 16> (x) y = Resize <mode = "linear"> (c, , s)'],
    ),
    "a condition beside moves": (
        "g (bool[2, 2] c, float[2, 2] x) => (float[2, 2] y)", "t = Transpose (c) f = Cast <to = 1> (t) y = Mul (x, f)",
        ["f = Cast <to = 1> (c) t = Transpose (f) y = Mul (x, t)"], ["f = Cast <to = 1> (c) y = Mul (x, f)"],
    ),
    "promotion": (
        "g (float16[N] x, float[N] z) => (float[N] y)", "y = Add (x, z)", ["c = Cast <to = 1> (x) y = Add (c, z)"],
        ["c = Cast <to = 1> (x) y = Sub (c, z)", "a = Cast <to = 10> (z) b = Add (x, a) y = Cast <to = 1> (b)"],
    ),
    "promotion of three operands": (
        "g (float16[N] x, float[N] z, bool[N] c) => (float[N] y)", "y = Where (c, x, z)", ["a = Cast <to = 1> (x) y = Where (c, a, z)"],
        ["a = Cast <to = 1> (x) y = Where (c, z, a)"],
    ),
    "outputs of one node": (
        "g (float[6] x) => (float[3] y, int64[3] i) <int64[1] k = {3}>", "y, i = TopK (x, k)", ["a = Identity (x) y, i = TopK (a, k)"],
        ["y, i = TopK <largest = 0> (x, k)"],
    ),
    "outputs that are swapped": (
        "g (float[4] x) => (float[2] y, float[2] z)", "y, z = Split <num_outputs = 2> (x)",
        ["a = Identity (x) y, z = Split <num_outputs = 2> (a)"], ["z, y = Split <num_outputs = 2> (x)"],
    ),
    "the number of outputs": (
        "g (float[1, 2, 3] x) => (float[A, B, C] y) <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0, 1}, float[2] v = {1, 2}>",
        "y = BatchNormalization (x, s, b, m, v)", ["a = Identity (x) y = BatchNormalization (a, s, b, m, v)"],
        ["y, p, q = BatchNormalization <training_mode = 1> (x, s, b, m, v)", "y = BatchNormalization <epsilon = 0.1> (x, s, b, m, v)"],
    ),
    "operands": (_F, "a = Exp (x) b = Sin (x) y = Sub (a, b)", ["b = Sin (x) a = Exp (x) y = Sub (a, b)"], ["a = Exp (x) b = Sin (x) y = Sub (b, a)"]),
    "attributes": (
        _F, "y = LeakyRelu <alpha = 0.5> (x)", ["a = Identity (x) y = LeakyRelu <alpha = 0.5> (a)"],
        ["y = LeakyRelu <alpha = 0.25> (x)", "y = LeakyRelu (x)"],
    ),
    "attributes at their defaults": (_F, "y = LeakyRelu (x)", ["y = LeakyRelu <alpha = 0.01> (x)"], ["y = LeakyRelu <alpha = 0.02> (x)"]),
    "an operator without an attribute that has no default": (
        "g (float[N] x, int64[1] s, int64[1] e) => (float[K] y)", "y = Slice (x, s, e)", ["a = Identity (x) y = Slice (a, s, e)"],
        ["y = Slice (x, e, s)", "y = Slice (x, s, e, s)"],
    ),
    "tensors in attributes": (
        "g (int64[1] s) => (float[K] y)", "y = ConstantOfShape <value = float[1] {1}> (s)", ["a = Identity (s) y = ConstantOfShape <value = float[1] {1}> (a)"],
        ["y = ConstantOfShape <value = float[1] {2}> (s)", "y = ConstantOfShape (s)"],
    ),
    "constants by their type, shape and bits": (
        "g (float[K] x) => (float[K] y) <float[2] p = {1, 2}, float[2] same = {1, 2}, float[2] q = {1, 3}, float[1, 2] r = {1, 2}>",
        "y = Pow (x, p)", ["y = Pow (x, same)"], ["y = Pow (x, q)", "y = Pow (x, r)"],
    ),
    "draws without a seed": (
        _DRAW, "y = RandomNormal <shape = [2], seed = 1.0> ()", ["y = RandomNormal <seed = 1.0, shape = [2]> ()"],
        ["y = RandomNormal <shape = [2]> ()", "y = RandomNormal <shape = [2], seed = 2.0> ()"],
    ),
    "If that is decided": (
        _F, "y = Exp (x)",
        [f"{_TRUE.replace('t =', 'c =')} {_IF.format('p = Exp (x)', 'q = Sin (x)')}", f"{_FALSE.replace('t =', 'c =')} {_IF.format('p = Sin (x)', 'q = Exp (x)')}"],
        [f"{_TRUE.replace('t =', 'c =')} {_IF.format('p = Sin (x)', 'q = Exp (x)')}", f"{_FALSE.replace('t =', 'c =')} {_IF.format('p = Exp (x)', 'q = Sin (x)')}"],
    ),
    "If": (
        "g (float[N] x, bool c) => (float[N] y)", _IF.format("p = Exp (x)", "q = Sin (x)"), [_IF.format("r = Identity (x) p = Exp (r)", "q = Sin (x)")],
        [_IF.format("p = Sin (x)", "q = Exp (x)"), _IF.format("p = Exp (x)", "q = Cos (x)"), "d = Not (c) " + _IF.format("p = Exp (x)", "q = Sin (x)").replace("(c)", "(d)")],
    ),
    "Loop": (
        "g (float[N] x, int64 n) => (float[N] y)", _LOOP.format(_TRUE, "b = Exp (a)"), [_LOOP.format(_TRUE, "e = Identity (a) b = Exp (e)")],
        [_LOOP.format(_TRUE, "b = Sin (a)"), _LOOP.format(_TRUE, "b = Exp (x)"), _LOOP.format(_FALSE, "b = Exp (a)"),
         _LOOP.format(_TRUE, "b = Exp (a)").replace("(n, t, x)", "(, t, x)")],
    ),
    "a state of a Loop by its type": (
        "g (float[N] x, int64 n) => (float[N] y)", _LOOP.format(_TRUE, "f = Cast <to = 1> (a) b = Exp (f)"), [_LOOP.format(_TRUE, "b = Exp (a)")],
        [_LOOP.format(_TRUE, "h = Cast <to = 10> (a) f = Cast <to = 1> (h) b = Exp (f)")],
    ),
    "the number of an iteration": (
        "g (float[N] x, int64 n) => (float[N] y)", _LOOP.format(_TRUE, "j = Cast <to = 7> (i) f = Cast <to = 1> (j) b = Add (a, f)"),
        [_LOOP.format(_TRUE, "f = Cast <to = 1> (i) b = Add (a, f)")], [_LOOP.format(_TRUE, "b = Add (a, a)")],
    ),
    "Scan": (
        "g (float x, float[N] z) => (float y, float[N] w)", _SCAN.format("b = Add (a, e) o = Exp (b)"), [_SCAN.format("f = Cast <to = 1> (a) b = Add (f, e) o = Exp (b)")],
        [_SCAN.format("b = Add (e, a) o = Exp (b)"), _SCAN.format("b = Add (a, e) o = Exp (e)")],
    ),
    "operators of other domains": (
        _F, "y = com.microsoft.FastGelu (x)", [], ["y = com.microsoft.QuickGelu (x)"],
    ),
    "an Identity of another domain": (_F, "y = f.Identity (x)", [], ["y = Identity (x)"]),
    "numbers whose NaN is looked at": (
        _U, "a = Cast <to = 11> (x) b = Cast <to = 1> (a) y = BitCast <to = 12> (b)", [], ["y = BitCast <to = 12> (x)"],
    ),
    "numbers whose NaN is looked at before": (
        _U, f"{_WIDE} c = BitCast <to = 12> (b) y = BitwiseNot (c)", [], ["c = BitCast <to = 12> (x) y = BitwiseNot (c)"],
    ),
    "numbers whose NaN a function looks at": (
        "g (float[N] x) => (uint16[N] y)", "h = Cast <to = 10> (x) y = BitCast <to = 4> (h)",
        ["i = Identity (x) h = Cast <to = 10> (i) y = BitCast <to = 4> (h)"], [f"{_WIDE.partition('b =')[0]} h = Cast <to = 10> (a) y = BitCast <to = 4> (h)"],
    ),
    "numbers whose NaN is looked at in a branch": (
        "g (float[N] x, bool c) => (uint32[N] y)", f"{_WIDE} {_IF_BITS.format('b', 'b')}", [],
        [_IF_BITS.format("x", "x"), f"{_WIDE} {_IF_BITS.format('b', 'x')}"],
    ),
    "numbers whose NaN another operator may look at": (
        _F, f"{_WIDE} y = com.microsoft.FastGelu (b)", [f"{_WIDE} i = Identity (b) y = com.microsoft.FastGelu (i)"],
        ["y = com.microsoft.FastGelu (x)"],
    ),
    "numbers whose NaN nothing looks at": (_F, f"{_WIDE} y = Relu (b)", ["y = Relu (x)"], []),
    "rounding by steps": (
        _TO_HALF, "y = Cast <to = 10> (x)", [], ["a = Cast <to = 17> (x) b = Cast <to = 1> (a) y = Cast <to = 10> (b)"],
    ),
}  # fmt: skip


def check_rule(name: str, other: str, equal: bool) -> None:
    head, first, _, _ = RULES[name]
    signature, _, weights = head.partition("<")
    opset = 26 if "BitCast" in first + other else 24 if "float8e8m0" in head else 23
    pair = [parsed(f"{signature} {'<' + weights if weights else ''} {{ {body} }}", opset) for body in (first, other)]
    assert proven(*pair) == equal
    assert proven(*pair[::-1]) == equal


def test_rules() -> None:
    rows = [(name, *row[2:]) for name, row in RULES.items()]
    check_all(check_rule, [(name, body, True) for name, same, _ in rows for body in same])
    check_all(check_rule, [(name, body, False) for name, _, different in rows for body in different])


# What a text of one opset does not show.


@pytest.mark.parametrize(
    ("a", "b", "opsets", "equal"),
    [
        # the same parameters, and another meaning
        ("g (float[A, B, C] x, float[3] s) => (float[A, B, C] y) { y = PRelu (x, s) }", "", (6, 7), False),
        ("g (int64[N] x, int64 d, float[2] v) => (float[N, K] y) { y = OneHot (x, d, v) }", "", (10, 11), False),
        # other types alone
        ("g (float[N] x) => (float[N] y) { y = Exp (x) }", "", (6, 13), True),
        ("g (float[N] x, float[N] z) => (float[N] y) { y = Add (x, z) }", "", (7, 14), True),
        # another default
        ("g (float[N, M] x) => (float[N, M] y) { y = Softmax (x) }", "", (11, 13), False),
        ("g (float[N, M] x) => (float[N, M] y) { y = Softmax <axis = 1> (x) }", "", (11, 13), False),
        # an attribute that came later, and by default changes nothing
        ("g (float[N, M] x) => (int64[K] y) { y = Shape (x) }", "", (13, 15), True),
        # before opset 7 Dropout trains by default
        ("g (float[N] x) => (float[N] y) { y = Dropout (x) }", "g (float[N] x) => (float[N] y) { y = Identity (x) }", (6, 6), False),
        ("g (float[N] x) => (float[N] y) { y = Dropout (x) }", "g (float[N] x) => (float[N] y) { y = Identity (x) }", (7, 7), True),
        # the shape is an attribute
        ("g (float[2, 3] x) => (float[3, 2] y) { y = Reshape <shape = [3, 2]> (x) }",
         "g (float[2, 3] x) => (float[3, 2] y) { y = Transpose (x) }", (4, 4), False),
        ("g (float[2, 3] x) => (float[3, 2] y) { y = Reshape <shape = [3, 2]> (x) }",
         "g (float[2, 3] x) => (float[3, 2] y) { a = Identity (x) y = Reshape <shape = [3, 2]> (a) }", (4, 4), True),
        # the operand is aligned by an axis
        ("g (int32[2, 2] x) => (int32[2, 2] y) <int32[2, 2] k = {1, 2, 3, 4}, int32[2] j = {0, 5}> { s = Add <broadcast = 1, axis = 0> (k, j) y = Max (x, s) }",
         "g (int32[2, 2] x) => (int32[2, 2] y) <int32[2, 2] s = {1, 7, 3, 9}> { y = Max (x, s) }", (6, 6), False),
        # Cast of an older opset has other infinities
        ("g (float[N] x) => (float8e4m3fnuz[N] y) { y = Cast <to = 18> (x) }", "", (23, 24), False),
        ("g (float[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }", "", (9, 24), True),
        ('g (float[N] x) => (float16[N] y) { y = Cast <to = "FLOAT16"> (x) }', "g (float[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }", (5, 6), True),
        ('g (float[N] x) => (double[N] y) { y = Cast <to = "DOUBLE"> (x) }', "g (float[N] x) => (double[N] y) { a = Cast <to = 10> (x) y = Cast <to = 11> (a) }", (5, 6), False),
    ],
)  # fmt: skip
def test_opsets(a: str, b: str, opsets: tuple[int, int], equal: bool) -> None:
    assert proven(parsed(a, opsets[0]), parsed(b or a, opsets[1])) == equal


@pytest.mark.parametrize("second", [{}, {"x": np.array([1, 2], np.float32)}, {"x": np.array([1, 3], np.float32)}])
def test_defaults_of_inputs(second: dict[str, Any]) -> None:
    pair: list[onnx_ir.Model] = []
    for default in ({"x": np.array([1, 2], np.float32)}, second):
        model = parsed("g (float[2] x) => (float[2] y) { y = Exp (x) }")
        for name, array in default.items():
            model.graph.inputs[0].const_value = onnx_ir.tensor(array, name=name)
            model.graph.initializers.add(model.graph.inputs[0])
        pair.append(model)
    assert proven(*pair) == (bool(second) and second["x"][1] == 2)


def test_names_and_types_of_inputs() -> None:
    head, body = "g (float[2] x, float[2] z) => (float[2] y)", " { a = Exp (x) y = Sub (a, z) }"
    model = parsed(head + body)
    assert proven(model, parsed(head + body))
    assert not proven(
        model,
        parsed(
            head.replace("x, float[2] z", "z, float[2] x") + body.replace("x", "w").replace("z", "x").replace("w", "z")
        ),
    )
    assert not proven(model, parsed(head.replace("float", "double") + body))


def test_a_draw_differs_from_itself() -> None:
    """Also in one model that is given twice, in two calls of one function, and in operators of a runtime."""
    for body in ("y = RandomNormal <shape = [2]> ()", "t = Constant <value = bool {1}> () r = Constant <value_float = 0.5> () k = Constant <value_floats = [1.0, 2.0]> () y = Dropout (k, r, t)",
                 "t = Constant <value = bool {1}> () k = Constant <value_floats = [1.0, 2.0]> () y = com.microsoft.BiasDropout (k, k, , , t)"):  # fmt: skip
        model = parsed(f"g () => (float[2] y) {{ {body} }}")
        assert not proven(model, model)
        assert not proven(model, parsed(f"g () => (float[2] y) {{ {body} }}"))
    operands = {
        "Dropout": "k, r",
        "BitmaskDropout": "k, r",
        "BiasDropout": "k, k, , r",
        "BitmaskBiasDropout": "k, k, , r",
    }
    for op, before in operands.items():
        name = op if op == "Dropout" else f"com.microsoft.{op}"
        head = "t = Constant <value = bool {1}> () r = Constant <value_float = 0.5> () k = Constant <value_floats = [1.0, 2.0]> ()"
        for node, equal in (
            (f"{name} ({before})", True),
            (f"{name} ({before}, t)", False),
            (f"{name} <seed = 1> ({before}, t)", True),
        ):
            model = parsed(f"g () => (float[2] y) {{ {head} y = {node} }}")
            assert proven(model, model) == equal, node
    drawing = '<domain: "f", opset_import: ["" : 23]> h () => (q) { q = RandomNormal <shape = [2]> () }'
    twice, once = (
        parsed(f"g () => (float[2] y) {{ a = f.h () b = f.h () y = Sub (a, {other}) }} {drawing}")
        for other in ("b", "a")
    )
    assert not proven(twice, once)
    fixed = drawing.replace("[2]>", "[2], seed = 1.0>")
    assert proven(
        *(parsed(f"g () => (float[2] y) {{ a = f.h () b = f.h () y = Sub (a, {v}) }} {fixed}") for v in ("b", "a"))
    )


_CALL = 'g (float[2] x) => (float[2] y) {{ {} }} <domain: "f", opset_import: ["" : 23]> {}'


@pytest.mark.parametrize(
    ("call", "function", "body", "equal"),
    [
        ("y = f.h (x)", "h (p) => (q) { q = Exp (p) }", "y = Exp (x)", True),
        ("y = f.h (x)", "h (p) => (q) { q = Exp (p) }", "y = Sin (x)", False),
        ("y = f.h (x)", "h (p) => (q, r) { q = Exp (p) r = Sin (p) }", "y = Exp (x)", True),
        ("a, y = f.h (x)", "h (p) => (q, r) { q = Exp (p) r = Sin (p) }", "y = Sin (x)", True),
        ("a, y = f.h (x)", "h (p) => (q, r) { q = Exp (p) r = Sin (p) }", "y = Exp (x)", False),
        ("y = f.h <alpha = 0.5> (x)", "h <alpha: float = 0.25> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }", "y = LeakyRelu <alpha = 0.5> (x)", True),
        ("y = f.h (x)", "h <alpha: float = 0.25> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }", "y = LeakyRelu <alpha = 0.25> (x)", True),
        ("y = f.h (x)", "h <alpha: float = 0.25> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }", "y = LeakyRelu (x)", False),
        ("y = f.h <alpha = 0.5> (x)", "h <alpha> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }", "y = LeakyRelu <alpha = 0.5> (x)", True),
        ("y = f.h <slope = 0.5> (x)", "h <slope> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }", "y = LeakyRelu <alpha = 0.5> (x)", True),
        ("y = f.h <slope = 0.01> (x)", "h <slope> (p) => (q) { q = LeakyRelu <alpha: float = @slope> (p) }", "y = LeakyRelu (x)", True),
        ("y = f.h (x)", "h <alpha> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }", "y = LeakyRelu (x)", True),
        ("y = f.h <k = 2.0> (x)", "h <k: float = 3.0> (p) => (q) { c = Constant <value_float: float = @k> () q = Pow (p, c) }", "c = Constant <value_float = 2.0> () y = Pow (x, c)", True),
        ("y = f.h <k = 2.0> (x)", "h <k: float = 3.0> (p) => (q) { c = Constant <value_float: float = @k> () q = Pow (p, c) }", "c = Constant <value_float = 3.0> () y = Pow (x, c)", False),
        ("y = f.h (x)", "h (p, r) => (q) { q = Clip (p, r) }", "y = Clip (x)", False),
    ],
)  # fmt: skip
def test_functions(call: str, function: str, body: str, equal: bool) -> None:
    pair = parsed(_CALL.format(call, function)), parsed(f"g (float[2] x) => (float[2] y) {{ {body} }}")
    assert proven(*pair) == equal


@pytest.mark.parametrize(
    ("rules", "equal", "of_inputs"),
    [
        *((castsmith.PromotionRules.preset(name), True, True) for name in ("openvino", "numpy")),
        (castsmith.PromotionRules.preset("half"), False, True),
        (castsmith.PromotionRules.preset("torch"), False, False),
        (castsmith.PromotionRules(promote_unsafe=True, weak_scalars=True), False, True),
        (castsmith.PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True), False, False),
    ],
)
def test_promotion_that_depends_on_what_is_written_as_a_constant(
    rules: castsmith.PromotionRules, equal: bool, of_inputs: bool
) -> None:
    """Of `half`, a constant beside float16 is float16, and one that a node passes on is not."""
    head = "g (float16[N] x) => (float[N] y) <float k = {0.1}>"
    pair = (
        parsed(f"{head} {{ a = Add (x, k) y = Cast <to = 1> (a) }}"),
        parsed(f"{head} {{ c = Cast <to = 1> (x) y = Add (c, k) }}"),
    )
    assert proven(*pair, rules=rules) == equal
    wide = "g (float16[N] x, float[N] k) => (float[N] y)"
    pair = parsed(f"{wide} {{ y = Add (x, k) }}"), parsed(f"{wide} {{ c = Cast <to = 1> (x) y = Add (c, k) }}")
    assert proven(*pair, rules=rules) == of_inputs


_INPUT = "g (float[2] x, {}) => (float[2] y) {{ y = Add (x, d) }}"
_ENTERING = [  # how two models declare an input, and whether it is one
    ("float[N] d", "float[N] d", True),
    ("float[N] d", "float[M] d", True),
    ("float[N] d", "float[2] d", True),
    ("float[N] d", "float[] d", True),
    ("float[N] d", "double[N] d", False),
    ("float[N] d", "float16[N] d", False),
    ("float[2] d = {1, 2}", "float[2] d = {1, 2}", True),
    ("float[2] d = {1, 2}", "float[2] d = {1, 3}", False),
    ("float[2] d = {1, 2}", "float[2] d", False),
    ("float[2] d", "float[2] d = {1, 2}", False),
]


def test_inputs_of_one_type_and_default_are_one() -> None:
    def compare(one: str, other: str, equal: bool) -> None:
        a, b = (parsed(_INPUT.format(declared)) for declared in (one, other))
        assert proven(a, b) == equal

    check_all(compare, _ENTERING)


def test_an_operator_that_is_named_as_one_of_onnx_is_another() -> None:
    for op in ("Identity", "Dropout", "Neg"):
        models = [parsed(f"g (float[2] x) => (float[2] y) {{ y = {domain}{op} (x) }}") for domain in ("f.", "")]
        assert not proven(*models)
        assert proven(models[0], models[0])


def test_promotion_that_is_refused_or_not_asked_for() -> None:
    head = "g (int64[N] x, float[N] z) => (float[N] y)"
    pair = parsed(f"{head} {{ y = Add (x, z) }}"), parsed(f"{head} {{ c = Cast <to = 1> (x) y = Add (c, z) }}")
    assert proven(*pair)
    assert not proven(*pair, rules=castsmith.PromotionRules())
    assert not proven(*pair, rules=None)
    sizes = (
        "g (float[N] x) => (int32[1] y) {{ s = Shape (x) c = Cast <to = 6> (s) d = Cast <to = 6> (s) y = Add ({}) }}"
    )
    texts = [sizes.format(operands) for operands in ("c, d", "c, s", "d, c")]
    assert proven(parsed(texts[0]), parsed(texts[2]), rules=None)
    assert not proven(parsed(texts[0]), parsed(texts[1]), rules=None)


def test_inputs_and_outputs_that_are_held_in_two_types() -> None:
    code = Held(DataType.FLOAT16, DataType.UINT16, by_code=True)
    a = parsed("g (float16[N] x) => (float16[N] y) { y = Abs (x) }", 26)
    b = parsed(
        "g (uint16[N] x) => (uint16[N] y) { f = BitCast <to = 10> (x) a = Abs (f) y = BitCast <to = 4> (a) }", 26
    )
    other = parsed(
        "g (uint16[N] x) => (uint16[N] y) { f = BitCast <to = 16> (x) a = Abs (f) y = BitCast <to = 4> (a) }", 26
    )
    for model, equal in ((b, True), (other, False)):
        assert proven(a, model, held={"x": code, "y": code}) == equal
    assert not proven(a, b, held={"x": code})
    wide, narrow = (
        Held(DataType.FLOAT16, DataType.FLOAT, by_code=False),
        Held(DataType.FLOAT, DataType.FLOAT16, by_code=False),
    )
    single = parsed("g (float16[N] x) => (float[N] y) { a = Abs (x) y = Cast <to = 1> (a) }")
    half = parsed("g (float16[N] x) => (float16[N] y) { y = Abs (x) }")
    assert proven(half, single, held={"y": wide})
    assert proven(single, half, held={"y": narrow})
    near = _K.format(1.0000001)  # a product with it rounds to the same float16
    beside = parsed(f"g (float16[N] x) => (float[N] y) {{ a = Abs (x) c = Cast <to = 1> (a) {near} y = Mul (c, k) }}")
    assert not proven(half, beside, held={"y": wide})
    assert not proven(beside, half, held={"y": narrow})
    assert not proven(half, parsed("g (float16[N] x) => (float[N] y) { y = Cast <to = 1> (x) }"), held={"y": wide})


def test_an_output_that_is_held_in_two_types_is_not_equal_as_it_is_written() -> None:
    """One of the models converts it, of which only the declared types tell."""
    half, wide = (parsed(f"g (float[N] x) => ({kind}[N] y) {{ y = f.Op (x) }}") for kind in ("float16", "float"))
    assert proven(half, half)
    assert not proven(half, wide, held={"y": Held(DataType.FLOAT16, DataType.FLOAT, by_code=False)})


def test_only_the_first_model_may_say_what_an_unknown_operator_makes() -> None:
    head = "g (float[N] x) => (int64[1] y)"
    claims = parsed(f"{head} <float[2] a> {{ a = f.Op (x) y = Shape (a) }}")
    constant = parsed(f"{head} {{ y = Constant <value_ints = [2]> () }}")
    assert proven(claims, constant)
    assert not proven(constant, claims)


def test_the_payload_of_nan_counts_where_that_is_asked_for() -> None:
    pair = (
        parsed("g (float16[N] x) => (float16[N] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }"),
        parsed("g (float16[N] x) => (float16[N] y) { y = Identity (x) }"),
    )
    assert proven(*pair)
    same = parsed("g (float[N] x) => (float[N] y) { y = Exp (x) }")
    assert proven(same, same, nan_bits=True)
    assert proven(same, parsed("g (float[N] x) => (float[N] y) { a = Identity (x) y = Exp (a) }"), nan_bits=True)
    wide = parsed(f"{_F} {{ {_WIDE} y = Exp (b) }}")
    assert proven(same, wide)
    assert not proven(same, wide, nan_bits=True)


def test_functions_that_would_be_too_many_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 8 functions calls the one before it twice: 511 calls and 256 nodes."""
    calls = "".join(
        f'<domain: "f", opset_import: ["" : 23, "f" : 1]> h{n} (p) => (q) {{ a = f.h{n - 1} (p) q = f.h{n - 1} (a) }} '
        for n in range(1, 9)
    )
    first = '<domain: "f", opset_import: ["" : 23]> h0 (p) => (q) { q = Neg (p) }'
    text = f"g (float[2] x) => (float[2] y) {{ y = f.h8 (x) }} {calls} {first}"
    assert proven(parsed(text), parsed(text))
    monkeypatch.setattr(checker, "MOST_NODES", 500)
    assert not proven(parsed(text), parsed(text))
