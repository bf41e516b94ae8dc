"""Each rule of the checker: what it certifies, and what lies on the other side of each of its conditions."""

# ruff: noqa: E501
from __future__ import annotations

from math import isfinite

import ml_dtypes
import numpy as np
import onnx.parser

from castsmith.verification import checker
from tests.certificates import is_certified
from tests.sampling import check_all
from tests.verification.test_checker import outcome

_F, _H = (f"g ({kind}[N] x, {kind}[N] z) => ({kind}[N] y)" for kind in ("float", "float16"))
_M = "g (float[2, 3] x) => (float[A, B] y)"
_K = "k = Constant <value_float = 2.5> ()"
_K1 = "k = Constant <value_floats = [2.5]> ()"
_DQ = "g ({0}[2, 3] x) => (float[2, 3] y) <float[2] r = {{0.5, 3}}, float[3] c = {{0.5, 3, 0.1}}, float s = {{0.5}}, float[1] v = {{0.5}}, {0}[2] p = {{1, 2}}, {0}[3] q = {{1, 2, 3}}, {0} z = {{7}}, {0} n = {{0}}>"
_Q = _DQ.format("uint8").replace("g (uint8[2, 3] x) => (float[2, 3] y)", "g (float[2, 3] x) => (uint8[2, 3] y)")
_F8 = "g (float[N] x) => (float8e4m3fn[N] y) <float s = {0.5}, float8e4m3fn z = {2}, float8e4m3fn n = {0}>"
_DIV = "d = Div (x, s) a = Cast <to = 1> (z) m = Add (d, a)"

_E5M2 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float64).tolist()
_NEGATED = ", ".join(str(-int(number)) if isfinite(number) else "0" for number in _E5M2)

# By rule: the inputs and outputs, the opset, a body, bodies that are certified to be equal to it, and bodies that are not.
RULES: dict[str, tuple[str, int, str, list[str], list[str]]] = {
    "a constant of one element is a scalar beside a vector": (
        _F, 23, f"{_K} y = Add (x, k)", [f"{_K1} y = Add (x, k)"], [f"{_K1.replace('2.5', '3')} y = Add (x, k)", f"{_K} y = Add (k, x)", f"{_K} y = Sub (x, k)"],
    ),
    "but not beside a scalar": ("g (float x) => (float[A] y)", 23, f"{_K} a = Add (x, k) o = Constant <value_ints = [1]> () y = Reshape (a, o)", [], [f"{_K} y = Add (x, k)"]),
    "Sum of two": (_F, 8, "y = Sum (x, z)", ["y = Add (x, z)"], ["y = Add (z, x)", "y = Add (x, x)"]),
    "Sum of one": (_F, 8, "y = Sum (x)", ["y = Identity (x)"], ["y = Neg (x)"]),
    "Sum of three floats, in any order": (_F, 13, "y = Sum (x, z, x)", [], ["a = Add (x, z) y = Add (a, x)"]),
    "Sum before it broadcast": (_F, 7, "y = Sum (x, z)", [], ["y = Add (x, z)"]),
    "Sum of three integers": ("g (int32[N] x, int32[N] z) => (int32[N] y)", 13, "y = Sum (x, z, x)", ["a = Add (x, z) y = Add (a, x)"], ["a = Sub (x, z) y = Add (a, x)"]),
    "operands of Equal before they were wider": (
        "g (float16[N] x, float16[N] z) => (bool[N] y)", 13, "y = Equal (x, z)",
        ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Equal (a, b)", "a = Cast <to = 11> (x) b = Cast <to = 11> (z) y = Equal (a, b)"],
        ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Less (a, b)", "a = Cast <to = 16> (x) b = Cast <to = 16> (z) y = Equal (a, b)", "a = Cast <to = 1> (x) b = Cast <to = 1> (x) y = Equal (a, b)"],
    ),
    "a constant that the narrow type holds": (
        "g (float16[N] x) => (bool[N] y)", 13, f"{_K} h = Cast <to = 10> (k) y = Less (x, h)",
        [f"{_K} a = Cast <to = 1> (x) y = Less (a, k)"],
        [f"{_K.replace('2.5', '2.5001')} a = Cast <to = 1> (x) y = Less (a, k)", f"{_K} a = Cast <to = 1> (x) y = Less (k, a)", f"{_K} a = Cast <to = 1> (x) y = LessOrEqual (a, k)"],
    ),
    "constants that the narrow type holds, one for each element": (
        "g (float16[2] x) => (bool[2] y) <float16[2] h = {16640, 48128}, float[2] k = {2.5, -1}, float[2] o = {2.5001, -1}, float[2] r = {-1, 2.5}>", 13, "y = Less (x, h)",
        ["a = Cast <to = 1> (x) y = Less (a, k)", "d = Cast <to = 11> (k) a = Cast <to = 11> (x) y = Less (a, d)"],
        [f"a = Cast <to = 1> (x) y = {comparison}" for comparison in ("Less (a, o)", "Less (a, r)", "Less (k, a)", "Greater (a, k)")],
    ),
    "Equal of bools": ("g (bool[N] x, bool[N] z) => (bool[N] y)", 7, "y = Equal (x, z)", ["a = Xor (x, z) y = Not (a)"], ["y = Xor (x, z)", "y = And (x, z)"]),
    "NaN is NaN in each wide type": (
        "g (float[N] x) => (bool[N] y)", 13, "y = IsNaN (x)",
        [f"a = Cast <to = {to}> (x) y = IsNaN (a)" for to in (10, 16, 11)], ["a = Cast <to = 6> (x) b = Cast <to = 1> (a) y = IsNaN (b)", "y = IsInf (x)"],
    ),
    "what overflows to NaN": (
        "g (float[N] x) => (bool[N] y)", 20, "y = IsNaN (x)", ["a = Cast <to = 11> (x) y = IsNaN (a)"],
        [f"a = Cast <to = {to}, saturate = 0> (x) y = IsNaN (a)" for to in (17, 18, 20)],
    ),
    "operands that were of two types before they were wider": (
        "g (float16[N] x, bfloat16[N] z) => (bool[N] y)", 13, "a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Less (a, b)",
        ["b = Cast <to = 1> (z) a = Cast <to = 1> (x) y = Less (a, b)"],
        ["b = Cast <to = 10> (z) y = Less (x, b)", "a = Cast <to = 16> (x) y = Less (a, z)", "a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Less (b, a)"],
    ),
    "which is the greatest, of a value in a wider type": (
        "g (float16[N] x) => (int64[1] y)", 13, "y = ArgMax (x)", ["a = Cast <to = 1> (x) y = ArgMax (a)"],
        ["a = Cast <to = 1> (x) y = ArgMin (a)", "a = Cast <to = 1> (x) y = ArgMax <select_last_index = 1> (a)", "a = Cast <to = 16> (x) y = ArgMax (a)"],
    ),
    "DequantizeLinear along its default axis": (
        _DQ.format("int8"), 21, "y = DequantizeLinear (x, c, q)",
        ["y = DequantizeLinear <axis = 1> (x, c, q)", "y = DequantizeLinear <axis = -1> (x, c, q)", "a = Cast <to = 1> (x) b = Cast <to = 1> (q) d = Sub (a, b) y = Mul (d, c)"],
        ["y = DequantizeLinear (x, c)", "a = Cast <to = 1> (x) b = Cast <to = 1> (q) d = Sub (a, b) y = Mul (d, s)", "a = Cast <to = 1> (x) b = Cast <to = 1> (q) d = Sub (a, b) y = Div (d, c)"],
    ),
    "DequantizeLinear along the first axis": (
        _DQ.format("int8"), 21, "y = DequantizeLinear <axis = 0> (x, r, p)",
        ["y = DequantizeLinear <axis = -2> (x, r, p)", "o = Constant <value_ints = [2, 1]> () e = Reshape (r, o) f = Reshape (p, o) a = Cast <to = 1> (x) b = Cast <to = 1> (f) d = Sub (a, b) y = Mul (d, e)"],
        ["y = DequantizeLinear <axis = 0> (x, r)"],
    ),
    "DequantizeLinear with one scale": (
        _DQ.format("int8"), 13, "y = DequantizeLinear (x, s, z)", ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) d = Sub (a, b) y = Mul (d, s)"],
        ["y = DequantizeLinear (x, s)", "y = DequantizeLinear (x, s, n)", "a = Cast <to = 1> (x) y = Mul (a, s)"],
    ),
    "a zero point of 0": (_DQ.format("int8"), 13, "y = DequantizeLinear (x, s, n)", ["y = DequantizeLinear (x, s)", "a = Cast <to = 1> (x) y = Mul (a, s)", "y = DequantizeLinear (x, v)"], ["y = DequantizeLinear (x, s, z)"]),
    "int32, which float does not hold": (_DQ.format("int32"), 13, "y = DequantizeLinear (x, s)", [], ["a = Cast <to = 1> (x) y = Mul (a, s)"]),
    "DequantizeLinear of ONNX Runtime": (_DQ.format("int8"), 21, "y = DequantizeLinear (x, s, z)", ["y = com.microsoft.DequantizeLinear (x, s, z)"], ["y = com.microsoft.DequantizeLinear (x, s)", "y = com.microsoft.DequantizeLinear (x, s, n)"]),
    "QuantizeLinear of ONNX Runtime": (_Q, 21, "y = QuantizeLinear (x, s, z)", ["y = com.microsoft.QuantizeLinear (x, s, z)"], ["y = com.microsoft.QuantizeLinear (x, s)", "y = com.microsoft.DequantizeLinear (x, s, z)"]),
    "DequantizeLinear of ONNX Runtime by a float16 scale": (
        "g (int8[N] x, float16 s, int8 z) => (float16[N] y)", 21, "y = com.microsoft.DequantizeLinear (x, s, z)", [], ["y = DequantizeLinear (x, s, z)", "y = com.microsoft.DequantizeLinear (x, s)"],
    ),
    "DequantizeLinear in blocks": (
        _DQ.format("int8").replace("float[2] r = {0.5, 3}", "float[2, 2] r = {0.5, 3, 0.1, 2}"), 21, "y = DequantizeLinear <axis = 1, block_size = 2> (x, r)",
        ["y = DequantizeLinear <axis = -1, block_size = 2> (x, r)", "i = Constant <value_ints = [0, 0, 1]> () e = Gather <axis = 1> (r, i) a = Cast <to = 1> (x) y = Mul (a, e)"],
        ["i = Constant <value_ints = [0, 1, 1]> () e = Gather <axis = 1> (r, i) a = Cast <to = 1> (x) y = Mul (a, e)", "i = Constant <value_ints = [0, 0, 1]> () e = Gather <axis = 1> (r, i) a = Cast <to = 1> (x) y = Div (a, e)"],
    ),
    "QuantizeLinear along its default axis": (
        _Q, 21, "y = QuantizeLinear (x, c, q)", ["y = QuantizeLinear <axis = 1> (x, c, q)", "y = QuantizeLinear <axis = -1> (x, c, q)"], ["y = QuantizeLinear (x, c)", "y = QuantizeLinear (x, s, z)"],
    ),
    "QuantizeLinear with one scale": (
        _Q, 21, "y = QuantizeLinear (x, s)", ["y = QuantizeLinear (x, v)", "y = QuantizeLinear (x, s, n)", "y = QuantizeLinear <output_dtype = 2> (x, s)"], ["y = QuantizeLinear (x, s, z)"],
    ),
    "QuantizeLinear to float8": (
        _F8, 21, "y = QuantizeLinear (x, s, z)", [f"{_DIV} y = Cast <to = 17> (m)", "y = QuantizeLinear <saturate = 1> (x, s, z)"],
        ["y = QuantizeLinear <saturate = 0> (x, s, z)", f"{_DIV} y = Cast <to = 17, saturate = 0> (m)", "y = QuantizeLinear (x, s, n)", "d = Div (x, s) y = Cast <to = 17> (d)"],
    ),
    "QuantizeLinear to float8 that does not saturate": (_F8, 21, "y = QuantizeLinear <saturate = 0> (x, s, z)", [f"{_DIV} y = Cast <to = 17, saturate = 0> (m)"], [f"{_DIV} y = Cast <to = 17> (m)"]),
    "Dropout in inference": (
        _F, 13, "y = Dropout (x)", ["y = Identity (x)", f"{_K.replace('2.5', '0.5')} y = Dropout (x, k)", "y = Dropout <seed = 3> (x)"],
        [f"{_K.replace('2.5', '0.5')} t = Constant <value = bool {{1}}> () y = Dropout (x, k, t)"],
    ),
    "Dropout before opset 7, which had a mode": (_F, 6, "y = Dropout (x)", [], ["y = Identity (x)"]),
    "the mask of Dropout": ("g (float[N] x) => (float[N] y, bool[N] m)", 13, "y, m = Dropout (x)", [], ["y = Identity (x) a, m = Dropout (x)"]),
    "a cast before opset 6": ("g (float16[N] x) => (float[N] y)", 5, 'y = Cast <to = "FLOAT"> (x)', [], ['a = Cast <to = "FLOAT16"> (x) y = Cast <to = "DOUBLE"> (a)']),
    "CastLike": (
        "g (float[N] x, float16[1] t, bfloat16[1] u) => (float16[N] y)", 21, "y = Cast <to = 10> (x)", ["y = CastLike (x, t)", "a = Identity (t) y = CastLike (x, a)"],
        ["a = CastLike (x, u) y = Cast <to = 10> (a)"],
    ),
    "CastLike to float8": (
        "g (float[N] x, float8e4m3fn[1] t) => (float8e4m3fn[N] y)", 21, "y = Cast <to = 17> (x)", ["y = CastLike (x, t)", "y = CastLike <saturate = 1> (x, t)"], ["y = CastLike <saturate = 0> (x, t)", "y = Cast <to = 17, saturate = 0> (x)"],
    ),
    "a zero is added before a cast to integers": (
        "g (float[2] x) => (int32[2] y) <float z = {0}, float m = {-0.0}, float o = {1}, float[2] w = {0, 0}, float h = {9}>", 21, "y = Cast <to = 6> (x)",
        ["a = Add (x, z) y = Cast <to = 6> (a)", "a = Add (x, m) y = Cast <to = 6> (a)", "a = Add (x, w) y = Cast <to = 6> (a)"],
        ["a = Add (x, o) y = Cast <to = 6> (a)", "a = Mul (x, z) y = Cast <to = 6> (a)", "a = Max (x, z) y = Cast <to = 6> (a)"],
    ),
    "a zero is added before a bound and a cast to integers": (
        "g (float[2] x) => (int32[2] y) <float z = {0}, float h = {9}>", 21, "a = Min (x, h) y = Cast <to = 6> (a)", ["b = Add (x, z) a = Min (b, h) y = Cast <to = 6> (a)"], ["b = Add (x, h) a = Min (b, h) y = Cast <to = 6> (a)"],
    ),
    "a zero that is added makes +0 of -0": ("g (float[2] x) => (float16[2] y) <float z = {0}>", 21, "y = Cast <to = 10> (x)", [], ["a = Add (x, z) y = Cast <to = 10> (a)"]),
    "Reshape with 0 and -1": (
        "g (float[2, 3, 4] x) => (float[A, B] y) <int64[2] t = {6, 4}, int64[2] m = {-1, 4}, int64[2] n = {6, -1}, int64[2] w = {4, 6}>", 21, "y = Reshape (x, t)",
        ["y = Reshape (x, m)", "y = Reshape (x, n)", "y = Flatten <axis = 2> (x)", "y = Flatten <axis = -1> (x)"],
        ["y = Reshape (x, w)", "y = Flatten (x)", "a = Transpose (x) y = Reshape (a, t)"],
    ),
    "a 0 copies a size": (
        "g (float[2, 3, 4] x) => (float[A, B] y) <int64[2] t = {2, 12}, int64[2] m = {0, -1}, int64[2] n = {0, 12}>", 21, "y = Reshape (x, t)",
        ["y = Reshape (x, m)", "y = Reshape (x, n)", "y = Reshape <allowzero = 0> (x, n)", "y = Flatten (x)", "y = Flatten <axis = 1> (x)", "y = Flatten <axis = -2> (x)"], ["y = Reshape <allowzero = 1> (x, n)", "y = Flatten <axis = 2> (x)", "y = Flatten <axis = 0> (x)"],
    ),
    "Squeeze and Unsqueeze": (
        "g (float[1, N, 1] x) => (float[A] y) <int64[2] t = {0, 2}, int64[2] m = {0, -1}, int64[1] f = {0}, int64[1] e = {1}>", 21, "y = Squeeze (x, t)",
        ["y = Squeeze (x, m)", "a = Squeeze (x, f) y = Squeeze (a, e)", "b = Unsqueeze (x, f) a = Squeeze (b, f) y = Squeeze (a, t)"], ["a = Squeeze (x, t) y = Neg (a)"],
    ),
    "axes as attributes": ("g (float[1, N, 1] x) => (float[A] y)", 11, "y = Squeeze <axes = [0, 2]> (x)", ["y = Squeeze <axes = [2, 0]> (x)", "a = Squeeze <axes = [0]> (x) y = Squeeze <axes = [1]> (a)"], ["a = Squeeze <axes = [0, 2]> (x) y = Neg (a)"]),
    "questions about a value of 8 bits": (
        "g (float8e5m2[N] x) => (bool[N] y)", 20, "a = Cast <to = 10> (x) y = IsInf (a)",
        ["a = Cast <to = 1> (x) b = Cast <to = 10> (a) y = IsInf (b)"],
        ["a = Cast <to = 10> (x) y = IsNaN (a)", "a = Cast <to = 10> (x) y = IsInf <detect_negative = 0> (a)", "a = Cast <to = 18> (x) b = Cast <to = 10> (a) y = IsInf (b)"],
    ),
    "numbers that are neither infinite nor NaN": (
        "g (int8[N] x) => (bool[N] y)", 20, "a = Cast <to = 10> (x) y = IsInf (a)", ["a = Cast <to = 10> (x) y = IsNaN (a)"], ["a = Cast <to = 10> (x) y = Equal (a, a)"],
    ),
    "Expand of a value of unknown rank": (
        "g (float[6] x, int64[M] n) => (int64[A] y) <int64[1] t = {6}>", 21, "r = Reshape (x, n) e = Expand (r, t) y = Shape (e)",
        [], ["y = Identity (t)", "e = Expand (x, t) y = Shape (e)"],
    ),
    "Expand to a shape of unknown sizes": (
        "g (float[6] x, int64[M] n) => (int64[A] y) <int64[1] t = {6}>", 21, "e = Expand (x, n) y = Shape (e)", [], ["y = Identity (t)", "y = Shape (x)"],
    ),
    "Expand and ConstantOfShape": (
        "g () => (float[A, B] y) <int64[2] t = {2, 3}, float h = {0.5}, float[3] v = {0.5, 0.5, 0.5}, float[3] w = {0.5, 0.5, 1}, int64[2] u = {3, 2}>", 21, "y = ConstantOfShape <value = float[1] {0.5}> (t)",
        ["y = Expand (h, t)", "y = Expand (v, t)"], ["y = ConstantOfShape (t)", "y = Expand (w, t)", "y = Expand (h, u)", "y = ConstantOfShape <value = float[1] {0.25}> (t)"],
    ),
    "ConstantOfShape by default": ("g (int64[2] n) => (float[A, B] y)", 21, "y = ConstantOfShape (n)", ["y = ConstantOfShape <value = float[1] {0}> (n)"], ["y = ConstantOfShape <value = float[1] {1}> (n)"]),
    "float16 is added in float": (
        _H, 13, "y = Add (x, z)", ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Add (a, b) y = Cast <to = 10> (c)"],
        ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Sub (a, b) y = Cast <to = 10> (c)", "a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Add (a, b) d = Cast <to = 16> (c) y = Cast <to = 10> (d)"],
    ),
    **{
        f"float16 is computed in float: {op}": (_H, 13, f"y = {op} (x, z)", [f"a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = {op} (a, b) y = Cast <to = 10> (c)"], [])
        for op in ("Sub", "Mul", "Div")
    },
    "float16 and Pow, which is not rounded once": (_H, 13, "y = Pow (x, z)", [], ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Pow (a, b) y = Cast <to = 10> (c)"]),
    "bfloat16 is subtracted in float": (
        _H.replace("float16", "bfloat16"), 13, "y = Sub (x, z)", ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Sub (a, b) y = Cast <to = 16> (c)"], [],
    ),
    "bfloat16 and Div, whose subnormals are rounded twice": (_H.replace("float16", "bfloat16"), 13, "y = Div (x, z)", [], ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) c = Div (a, b) y = Cast <to = 16> (c)"]),
    "a table is looked up": (
        "g (uint8[N] x) => (float[N] y) <float[256] t = {" + ", ".join(map(str, range(256))) + "}, float[255] s = {" + ", ".join(map(str, range(255))) + "}>", 21, "y = Cast <to = 1> (x)",
        ["i = Cast <to = 7> (x) y = Gather (t, i)", "i = Cast <to = 6> (x) y = Gather (t, i)", "i = Cast <to = 7> (x) y = GatherElements (t, i)", "i = Cast <to = 7> (x) y = Gather <axis = 0> (t, i)"],
        ["i = Cast <to = 7> (x) y = Gather (s, i)", "i = Cast <to = 7> (x) n = Neg (i) y = Gather (t, n)"],
    ),
    "BitCast there and back": (
        "g (float[N] x) => (float[N] y)", 26, "y = Neg (x)", [], ["a = BitCast <to = 12> (x) b = BitCast <to = 1> (a) y = Abs (b)"],
    ),
    "bits of bytes": ("g (int8[N] x) => (uint8[N] y)", 26, "y = BitCast <to = 2> (x)", ["y = Cast <to = 2> (x)"], ["a = Abs (x) y = Cast <to = 2> (a)"]),
    "bits of a constant": (
        "g () => (uint32[2] y) <float[2] k = {1, -2}, uint32[2] b = {1065353216, 3221225472}, uint32[2] o = {1065353216, 3221225473}>", 26, "y = BitCast <to = 12> (k)",
        ["y = Identity (b)", "c = BitCast <to = 6> (k) y = BitCast <to = 12> (c)"], ["y = Identity (o)", "y = Cast <to = 12> (k)"],
    ),
    "bits of a NaN, of which a computed one has any": (
        "g () => (uint32[1] y) <float[1] z = {0}, uint32[1] n = {4290772992}, uint32[1] p = {2143289344}>", 26, "d = Div (z, z) y = BitCast <to = 12> (d)", [], ["y = Identity (n)", "y = Identity (p)"],
    ),
    "bits of NaNs that are stated": (
        "g () => (uint16[1] y) <float16[1] k = {32257}, float16[1] o = {32258}>", 26, "y = BitCast <to = 4> (k)", ["m = Identity (k) y = BitCast <to = 4> (m)"], ["y = BitCast <to = 4> (o)"],
    ),
    "saturate of what is not float8": ("g (float[N] x) => (float16[N] y)", 23, "y = Cast <to = 10> (x)", ["y = Cast <to = 10, saturate = 0> (x)", "y = Cast <to = 10, saturate = 1> (x)"], []),
    "casts move before moves": (
        "g (float[2, 3] x, bool c) => (float16[3, 2] y)", 13, "a = Transpose (x) y = Cast <to = 10> (a)", ["a = Cast <to = 10> (x) y = Transpose (a)"], ["a = Cast <to = 10> (x) t = Constant <value_ints = [3, 2]> () y = Reshape (a, t)", "b = Cast <to = 16> (x) a = Cast <to = 10> (b) y = Transpose (a)"],
    ),
    "a choice of one value": (
        "g (float[2] x, float[2] z, bool[2] c) => (float[2] y)", 13, "y = Identity (x)", ["y = Where (c, x, x)", "t = Constant <value = bool {1}> () y = Where (t, x, z)", "t = Constant <value = bool {0}> () y = Where (t, z, x)"],
        ["y = Where (c, x, z)", "y = Where (c, z, x)", "t = Constant <value = bool {1}> () y = Where (t, z, x)"],
    ),
    "a choice that broadcasts": ("g (float x, float z, bool[2] c) => (float[A] y)", 13, "y = Where (c, x, x)", ["a = Identity (x) y = Where (c, x, a)"], ["y = Identity (x)", "y = Where (c, x, z)"]),
    "an If of one value": (
        "g (float[2] x, bool c) => (float[2] y)", 13, "y = Neg (x)", ["y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }>"],
        ["y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }>", "y = If (c) <then_branch = t () => (float[2] a) { a = Abs (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }>"],
    ),
    "integers are computed as onnx does": (
        "g (int32[2] x) => (int32[2] y) <int32[2] a = {2147483647, 7}, int32[2] b = {1, -2}, int32[2] s = {-2147483648, 5}, int32[2] d = {2147483647, -3}, int32[2] m = {0, -1}>", 13, "y = Add (x, s)",
        ["c = Add (a, b) y = Add (x, c)"], ["c = Sub (a, b) y = Add (x, c)", "c = Mul (a, b) y = Add (x, c)"],
    ),
    "floats are computed as onnx does": (
        "g (float[2] x) => (float[2] y) <float[2] a = {1.5, -2.5}, float[2] r = {2, -2}, float[2] f = {1, -3}>", 13, "y = Add (x, r)", ["c = Round (a) y = Add (x, c)", "c = Ceil (a) y = Add (x, c)"], ["c = Floor (a) y = Add (x, c)", "c = Neg (a) y = Add (x, c)"],
    ),
    "an attribute at its default": ("g (float[2] x) => (float[2] y)", 13, "y = LeakyRelu (x)", ["y = LeakyRelu <alpha = 0.01> (x)"], ["y = LeakyRelu <alpha = 0.02> (x)", "y = Elu (x)"]),
    "draws": (
        "g (float[2] x) => (float[2] y, float[2] z)", 13, "y = RandomNormalLike (x) z = Identity (y)", [], ["y = RandomNormalLike (x) z = RandomNormalLike (x)", "y = RandomNormalLike <seed = 1.0> (x) z = Identity (y)"],
    ),
    "a range of a size": ("g (float[N] x) => (int64[A] y)", 13, "s = Shape (x) z = Constant <value_int = 0> () o = Constant <value_int = 1> () n = Squeeze (s) y = Range (z, n, o)",
        ["n = Size (x) z = Constant <value_int = 0> () o = Constant <value_int = 1> () y = Range (z, n, o)"], ["n = Size (x) z = Constant <value_int = 1> () o = Constant <value_int = 1> () y = Range (z, n, o)", "n = Size (x) z = Constant <value_int = 0> () o = Constant <value_int = 2> () y = Range (z, n, o)"]),
    "a quantized value in another type than float": ("g (float[N] x) => (double[N] y) <float s = {0.5}, uint8 z = {7}>", 21, "q = QuantizeLinear (x, s, z) a = Cast <to = 11> (q) y = Exp (a)",
        [], ["q = QuantizeLinear (x, s, z) a = Cast <to = 1> (q) b = Exp (a) y = Cast <to = 11> (b)"]),
    "a constant that has no integer": ("g () => (int32[2] y) <float[2] k = {3e9, 1}, int32[2] l = {-2147483648, 1}, int32[2] h = {2147483647, 1}, int32[2] z = {0, 1}, float[2] n = {3, 1}, int32[2] m = {3, 1}>", 21, "y = Cast <to = 6> (k)",
        ["a = Identity (k) y = Cast <to = 6> (a)"], ["y = Identity (l)", "y = Identity (h)", "y = Identity (z)"]),
    "a constant that has integers": ("g () => (int32[2] y) <float[2] k = {3.9, -1.5}, int32[2] l = {3, -1}, int32[2] h = {4, -2}>", 21, "y = Cast <to = 6> (k)", ["y = Identity (l)"], ["y = Identity (h)"]),
    "order of moved values before they were wider": ("g (float16[2, 3] x) => (bool[3, 2] y) <float16 h = {16640}, float k = {2.5}>", 21, "a = Transpose (x) y = Less (a, h)",
        ["b = Cast <to = 1> (x) a = Transpose (b) y = Less (a, k)", "a = Transpose (x) b = Cast <to = 1> (a) y = Less (b, k)"], ["t = Constant <value_ints = [3, 2]> () b = Cast <to = 1> (x) a = Reshape (b, t) y = Less (a, k)", "b = Cast <to = 1> (x) n = Neg (b) a = Transpose (n) y = Less (a, k)"]),
    "order of what is computed of a narrow value": ("g (int8[N] x) => (bool[N] y) <int8 h = {5}, float k = {5}>", 21, "y = Less (x, h)", ["a = Cast <to = 1> (x) y = Less (a, k)"], ["a = Cast <to = 1> (x) n = Neg (a) y = Less (n, k)", "a = Cast <to = 1> (x) n = Mul (a, a) y = Less (n, k)"]),
    "two negations": ("g (int8[N] x) => (int8[N] y)", 21, "y = Identity (x)", ["a = Neg (x) y = Neg (a)"], ["y = Abs (x)", "a = Neg (x) y = Abs (a)", "a = Neg (x) b = Neg (a) y = Neg (b)"]),
    "two negations of float16": ("g (float16[N] x) => (float16[N] y)", 21, "y = Identity (x)", ["a = Neg (x) y = Neg (a)"], ["a = Abs (x) y = Neg (a)", "y = Relu (x)"]),
    "bytes as float8 are not numbers": ("g (uint8[N] x) => (float[N] y)", 26, "a = BitCast <to = 17> (x) y = Cast <to = 1> (a)", [], ["y = Cast <to = 1> (x)", "a = BitCast <to = 18> (x) y = Cast <to = 1> (a)", "a = Cast <to = 17> (x) y = Cast <to = 1> (a)"]),
    "a choice by two constants": ("g (float[2] x, float[2] z) => (float[2] y) <bool[2] c = {1, 0}, bool[2] o = {0, 1}, bool[1] t = {1}, bool[2] a = {1, 1}>", 21, "y = Where (c, x, z)", [], ["y = Identity (x)", "y = Identity (z)", "y = Where (o, x, z)", "y = Where (t, x, z)", "y = Where (a, x, z)"]),
    "a choice by one constant that has axes": ("g (float[2] x, float[2] z) => (float[A] y) <bool[1] t = {1}, bool[1] f = {0}, bool[1, 1] w = {1}>", 21, "y = Identity (x)", ["y = Where (t, x, z)", "y = Where (f, z, x)"], ["y = Where (w, x, z)", "y = Where (f, x, z)"]),
    "outputs that only one of two nodes has": ("g (float[1, 1, 4] x) => (float[A, B, C] y, int64[A, B, D] i)", 21, "y = MaxPool <kernel_shape = [2]> (x) z, i = MaxPool <kernel_shape = [2]> (x)", ["z, i = MaxPool <kernel_shape = [2]> (x) y = MaxPool <kernel_shape = [2]> (x)"], ["y = MaxPool <kernel_shape = [3]> (x) z, i = MaxPool <kernel_shape = [2]> (x)"]),
    "a Reshape of a Reshape of a constant": ("g () => (float[A, B] y) <float[6] k = {1, 2, 3, 4, 5, 6}, float[2, 3] m = {1, 2, 3, 4, 5, 6}, int64[2] s = {2, 3}, int64[2] t = {3, 2}, int64[1] f = {6}>", 21, "y = Reshape (k, s)", ["y = Identity (m)", "a = Reshape (k, t) y = Reshape (a, s)", "a = Reshape (m, t) b = Reshape (a, f) y = Reshape (b, s)"], ["y = Reshape (k, t)"]),
    "a Reshape of a Reshape": ("g (float[2, N] x) => (float[A, B] y) <int64[2] f = {-1, 2}, int64[2] s = {2, -1}, int64[1] v = {-1}>", 21, "y = Identity (x)", ["a = Reshape (x, f) y = Reshape (a, s)", "a = Reshape (x, v) b = Reshape (a, f) y = Reshape (b, s)"], ["y = Reshape (x, f)", "a = Transpose (x) y = Reshape (a, s)"]),
    "an Expand of an Expand": ("g (float[2, 1] x) => (float[A, B] y) <int64[2] s = {2, 3}, int64[2] t = {1, 3}, int64[2] u = {2, 1}>", 21, "y = Expand (x, s)", ["y = Expand (x, t)", "a = Expand (x, u) y = Expand (a, t)"], ["y = Expand (x, u)"]),
    "a choice of a value of unknown rank": (
        "g (bool[2] c, float[2] x, int64[M] n) => (int64[A] s)", 21, "r = Reshape (x, n) y = Where (c, x, r) s = Shape (y)", ["r = Reshape (x, n) m = Identity (r) y = Where (c, x, m) s = Shape (y)"],
        ["s = Constant <value_ints = [2]> ()", "r = Reshape (x, n) y = Where (c, r, x) s = Shape (y)"],
    ),
    "a choice of a value of another type": ("g (bool[2] c, float[2] x, double[2] z) => (float[2] y)", 21, "a = Cast <to = 1> (z) y = Where (c, x, a)", ["b = Cast <to = 1> (z) y = Where (c, x, b)"], ["y = Where (c, x, z)"]),
    "round_mode of float8e8m0": (
        "g (float[N] x) => (float8e8m0[N] y)", 24, "y = Cast <to = 24> (x)", ['y = Cast <to = 24, round_mode = "up"> (x)'],
        ['y = Cast <to = 24, round_mode = "down"> (x)', 'y = Cast <to = 24, round_mode = "nearest"> (x)'],
    ),
    "a bound of three operands before a cast to integers": (
        "g (float[2] x, float[2] w) => (int32[2] y) <float h = {9}, float z = {0}>", 21, "a = Max (x, h, w) y = Cast <to = 6> (a)", [],
        ["a = Max (x, h) y = Cast <to = 6> (a)", "a = Max (x, w) y = Cast <to = 6> (a)"],
    ),
    "a zero that broadcasts before a cast to integers": (
        "g (float[2] x) => (int32[A, B] y) <float[3, 2] w = {0, 0, 0, 0, 0, 0}, float[1, 2] v = {0, 0}>", 21, "a = Add (x, w) y = Cast <to = 6> (a)", [],
        ["y = Cast <to = 6> (x)", "a = Add (x, v) y = Cast <to = 6> (a)"],
    ),
    "a bound that is not known before a cast to integers": (
        "g (float[2] x, float[2] w) => (int32[2] y) <float h = {9}, float z = {0}>", 21, "a = Max (x, w) y = Cast <to = 6> (a)", ["b = Add (x, z) a = Max (b, w) y = Cast <to = 6> (a)"],
        ["a = Max (w, x) y = Cast <to = 6> (a)", "a = Min (x, w) y = Cast <to = 6> (a)", "y = Cast <to = 6> (x)"],
    ),
    "DequantizeLinear of int16": (
        "g (int16[N] x) => (float[N] y) <float s = {0.3}, int16 z = {5}>", 21, "y = DequantizeLinear (x, s, z)", ["a = Cast <to = 1> (x) b = Cast <to = 1> (z) d = Sub (a, b) y = Mul (d, s)"],
        ["a = Cast <to = 1> (x) y = Mul (a, s)", "a = Cast <to = 1> (x) b = Cast <to = 1> (z) d = Sub (b, a) y = Mul (d, s)"],
    ),
    "DequantizeLinear of int16 by a float16 scale": (
        "g (int16[N] x) => (float16[N] y) <float16 s = {13517}>", 21, "y = DequantizeLinear (x, s)", [],
        ["a = Cast <to = 1> (x) c = Cast <to = 1> (s) d = Mul (a, c) y = Cast <to = 10> (d)", "a = Cast <to = 10> (x) y = Mul (a, s)"],
    ),
    "DequantizeLinear of int8 by a float16 scale": (
        "g (int8[N] x) => (float16[N] y) <float16 s = {13517}>", 21, "y = DequantizeLinear (x, s)", ["a = Cast <to = 1> (x) c = Cast <to = 1> (s) d = Mul (a, c) y = Cast <to = 10> (d)", "a = Cast <to = 10> (x) y = Mul (a, s)"],
        ["a = Cast <to = 16> (x) y = Cast <to = 10> (a)"],
    ),
    "DequantizeLinear of int8 by a bfloat16 scale": (
        "g (int8[N] x) => (bfloat16[N] y) <bfloat16 s = {16026}>", 21, "y = DequantizeLinear (x, s)", ["a = Cast <to = 1> (x) c = Cast <to = 1> (s) d = Mul (a, c) y = Cast <to = 16> (d)"],
        ["a = Cast <to = 1> (x) y = Cast <to = 16> (a)"],
    ),
    "DequantizeLinear of float8": (
        "g (float8e4m3fn[N] x) => (float[N] y) <float s = {0.3}>", 21, "y = DequantizeLinear (x, s)", ["a = Cast <to = 1> (x) y = Mul (a, s)"],
        ["y = Cast <to = 1> (x)"],
    ),
    "DequantizeLinear to another type than its scale": (
        "g (int8[N] x) => (float16[N] y) <float s = {0.3}>", 23, "y = DequantizeLinear <output_dtype = 10> (x, s)", [],
        ["a = DequantizeLinear (x, s) y = Cast <to = 10> (a)", "a = DequantizeLinear <output_dtype = 1> (x, s) y = Cast <to = 10> (a)"],
    ),
    "DequantizeLinear to the type of its scale": (
        "g (int8[N] x) => (float[N] y) <float s = {0.3}>", 23, "y = DequantizeLinear (x, s)", ["y = DequantizeLinear <output_dtype = 1> (x, s)", "y = DequantizeLinear <output_dtype = 0> (x, s)"],
        [],
    ),
    "DequantizeLinear with a zero point of unknown shape": (
        "g (int8[N] x, int8[1] z, int64[M] n) => (float[N] y) <float s = {0.5}>", 21, "r = Reshape (z, n) y = DequantizeLinear (x, s, r)", [],
        ["y = DequantizeLinear (x, s)", "y = DequantizeLinear (x, s, z)", "a = Cast <to = 1> (x) y = Mul (a, s)"],
    ),
    "QuantizeLinear with a zero point of unknown shape": (
        "g (float[N] x, int8[1] z, int64[M] n) => (int8[N] y) <float s = {0.5}>", 21, "r = Reshape (z, n) y = QuantizeLinear (x, s, r)", [],
        ["y = QuantizeLinear (x, s, z)"],
    ),
    "QuantizeLinear in another precision": (
        "g (float[N] x) => (uint8[N] y) <float s = {0.3}>", 23, "y = QuantizeLinear (x, s)", ["y = QuantizeLinear <precision = 1> (x, s)", "y = QuantizeLinear <precision = 0> (x, s)", "y = QuantizeLinear <output_dtype = 2> (x, s)"],
        ["y = QuantizeLinear <precision = 10> (x, s)", "y = QuantizeLinear <precision = 16> (x, s)"],
    ),
    "indices before they were wider": (
        "g (float[N] x, int32[M] i) => (float[M] y)", 21, "y = Gather (x, i)", ["j = Cast <to = 7> (i) y = Gather (x, j)"],
        ["j = Cast <to = 5> (i) k = Cast <to = 7> (j) y = Gather (x, k)", "j = Neg (i) y = Gather (x, j)"],
    ),
    "indices before they were narrower": (
        "g (float[N] x, int64[M] i) => (float[M] y)", 21, "y = Gather (x, i)", [],
        ["j = Cast <to = 6> (i) y = Gather (x, j)"],
    ),
    "indices of elements before they were wider": (
        "g (float[N] x, int32[M] i) => (float[M] y)", 21, "y = GatherElements (x, i)", ["j = Cast <to = 7> (i) y = GatherElements (x, j)"],
        ["y = Gather (x, i)"],
    ),
    "a sum with a value of unknown rank": (
        "g (float[2] x, int64[M] n) => (int64[A] s)", 21, "r = Reshape (x, n) y = Add (x, r) s = Shape (y)", [],
        ["s = Constant <value_ints = [2]> ()", "s = Shape (x)"],
    ),
    "a sum before opset 7": (
        "g (float[2, 3] x, float[2] z) => (int64[A] s)", 6, "y = Add <axis = 0, broadcast = 1> (x, z) s = Shape (y)", ["s = Shape (x)"],
        ["y = Transpose (x) s = Shape (y)"],
    ),
    "sums of floats, in any order": (
        "g () => (float y) <float[3] k = {0.1, 0.2, 0.3}, float n = {0.6}, float m = {0.6000001}>", 12, "y = ReduceSum <keepdims = 0> (k)", [],
        ["y = Identity (n)", "y = Identity (m)"],
    ),
    "sums of integers": (
        "g () => (int32 y) <int32[3] k = {1, 2, 2147483647}, int32 n = {-2147483646}, int32 m = {2147483647}>", 12, "y = ReduceSum <keepdims = 0> (k)", ["y = Identity (n)"],
        ["y = Identity (m)"],
    ),
    "a remainder that is not known": (
        "g (float[N] x) => (int64[1] y) <int64[1] two = {2}>", 21, "s = Shape (x) a = Neg (s) y = Mod (a, two)", [],
        ["s = Shape (x) a = Neg (s) y = Mod <fmod = 1> (a, two)", "s = Shape (x) y = Mod (s, two)"],
    ),
    "a table that is looked up at places of two axes": (
        "g (uint8[2, 2] x) => (float[A, B] y) <float[256] t = {" + ", ".join(map(str, range(256))) + "}>", 21, "y = Cast <to = 1> (x)", ["i = Cast <to = 7> (x) y = Gather (t, i)"],
        ["i = Cast <to = 7> (x) y = GatherElements (t, i)"],
    ),
    "int16 that is dequantized as a constant": (
        "g () => (float16[1] y) <int16[1] k = {2049}, float16 s = {14438}, float16[1] n = {26727}, float16[1] m = {26728}, float16[1] o = {26726}>", 21, "y = DequantizeLinear (k, s)", [],
        ["y = Identity (n)", "y = Identity (m)", "y = Identity (o)"],
    ),
    "Split into parts": (
        "g (float[4] x) => (float[2] y)", 18, "y, z = Split <num_outputs = 2> (x)", [],
        ["z, y = Split <num_outputs = 2> (x)"],
    ),
    "a zero that is added to a value of unknown rank before a cast to integers": (
        "g (float[2] x, int64[M] n) => (int32[A, B] y) <float[2] w = {0, 0}>", 21, "r = Reshape (x, n) a = Add (r, w) y = Cast <to = 6> (a)", [],
        ["r = Reshape (x, n) y = Cast <to = 6> (r)"],
    ),
    "the least of three numbers": (
        "g (float[N] x, float[M] z) => (bool[1] y) <int64[1] o = {0}, bool[1] t = {1}>", 21, "h = Shape (x) w = Shape (z) d = Sub (h, w) m = Min (h, d, h) y = GreaterOrEqual (m, o)", [],
        ["y = Identity (t)", "h = Shape (x) w = Shape (z) m = Min (h, w, h) y = GreaterOrEqual (m, o)"],
    ),
    "the least of sizes": (
        "g (float[N] x, float[M] z) => (bool[1] y) <int64[1] o = {0}, bool[1] t = {1}>", 21, "y = Identity (t)", ["h = Shape (x) w = Shape (z) m = Min (h, w) y = GreaterOrEqual (m, o)", "h = Shape (x) w = Shape (z) m = Min (h, w, h) y = GreaterOrEqual (m, o)"],
        ["h = Shape (x) w = Shape (z) d = Sub (h, w) m = Min (d, h) y = GreaterOrEqual (m, o)", "h = Shape (x) w = Shape (z) d = Sub (h, w) m = Min (h, d) y = GreaterOrEqual (m, o)"],
    ),
    "the greatest of sizes": (
        "g (float[N] x, float[M] z) => (bool[1] y) <int64[1] o = {0}, bool[1] t = {1}>", 21, "y = Identity (t)", ["h = Shape (x) w = Shape (z) m = Max (h, w) y = GreaterOrEqual (m, o)"],
        [],
    ),
    "integer division": (
        "g () => (int32[2] y) <int32[2] a = {-7, 7}, int32[2] b = {2, -2}, int32[2] t = {-3, -3}, int32[2] f = {-4, -4}>", 21, "y = Div (a, b)", ["y = Identity (t)"],
        ["y = Identity (f)"],
    ),
    "integer remainder": (
        "g () => (int32[2] y) <int32[2] a = {-7, 7}, int32[2] b = {2, -2}, int32[2] p = {1, -1}, int32[2] c = {-1, 1}>", 21, "y = Mod (a, b)", ["y = Identity (p)"],
        ["y = Identity (c)", "y = Mod <fmod = 1> (a, b)"],
    ),
    "integer remainder, fmod": (
        "g () => (int32[2] y) <int32[2] a = {-7, 7}, int32[2] b = {2, -2}, int32[2] p = {1, -1}, int32[2] c = {-1, 1}>", 21, "y = Mod <fmod = 1> (a, b)", ["y = Identity (c)"],
        ["y = Identity (p)"],
    ),
    "division of least": (
        "g () => (int32[1] y) <int32[1] a = {-2147483648}, int32[1] b = {-1}, int32[1] t = {-2147483648}, int32[1] f = {2147483647}>", 21, "y = Div (a, b)", ["y = Identity (t)"],
        ["y = Identity (f)"],
    ),
    "BitCast of 4 bits to a byte": (
        "g (int4[N] x) => (uint8[N] y) <uint8 m = {15}>", 26, "a = Cast <to = 2> (x) y = BitwiseAnd (a, m)", ["b = Cast <to = 6> (x) a = Cast <to = 2> (b) y = BitwiseAnd (a, m)"],
        ["y = BitCast <to = 2> (x)"],
    ),
    "BitCast of a byte to 4 bits": (
        "g (uint8[N] x) => (int4[N] y)", 26, "y = Cast <to = 22> (x)", [],
        ["y = BitCast <to = 22> (x)"],
    ),
    "BitCast to another width": (
        "g (uint8[N] x) => (uint16[N] y)", 26, "y = Cast <to = 4> (x)", [],
        ["y = BitCast <to = 4> (x)"],
    ),
    "a cast of what is cast in another rounding mode": (
        "g (float[N] x) => (float[N] y)", 24, 'a = Cast <to = 24, round_mode = "down"> (x) y = Cast <to = 1> (a)', ['a = Cast <to = 24, round_mode = "down"> (x) b = Identity (a) y = Cast <to = 1> (b)'],
        ["a = Cast <to = 24> (x) y = Cast <to = 1> (a)", 'a = Cast <to = 24, round_mode = "nearest"> (x) y = Cast <to = 1> (a)'],
    ),
    "codes of what is cast in another rounding mode": (
        "g (float[N] x) => (uint8[N] y)", 26, 'a = Cast <to = 24, round_mode = "down"> (x) y = BitCast <to = 2> (a)', ['b = Identity (x) a = Cast <to = 24, round_mode = "down"> (b) y = BitCast <to = 2> (a)'],
        ["a = Cast <to = 24> (x) y = BitCast <to = 2> (a)"],
    ),
    "a table that is looked up by bits": (
        "g (float[N] x) => (float[N] y) <float[2] t = {5, 7}, float[2] w = {7, 5}, int32 z = {0}, int32 o = {1}>", 26, "b = BitCast <to = 6> (x) a = Max (b, z) p = Min (a, o) y = Gather (t, p)", ["b = BitCast <to = 6> (x) a = Max (b, z) p = Min (a, o) i = Cast <to = 7> (p) y = Gather (t, i)", "b = BitCast <to = 6> (x) a = Max (b, z) p = Min (a, o) y = GatherElements (t, p)"],
        ["b = BitCast <to = 6> (x) a = Max (b, z) p = Min (a, o) y = Gather (w, p)", "b = BitCast <to = 6> (x) a = Max (b, z) p = Min (a, z) y = Gather (t, p)"],
    ),
    "a size that what has no elements leaves": (
        "g (float[N] x) => (bool[1] y) <int64[1] z = {0}, int64[2] t = {-1, 2}, bool[1] f = {0}, int64[1] b = {0}, int64[1] e = {1}>", 21, "a = NonZero (x) r = Reshape (a, t) s = Shape <end = 1> (r) y = Equal (s, z)", [],
        ["y = Identity (f)"],
    ),
    "a size that what has elements leaves": (
        "g (float[N] x) => (bool[1] y) <int64[1] z = {0}, int64[2] t = {-1, 2}, bool[1] f = {0}, int64[1] b = {0}, int64[1] e = {1}>", 21, "r = Reshape (x, t) s = Shape <end = 1> (r) y = Equal (s, z)", ["y = Identity (f)"],
        [],
    ),
    "a size to which what has no elements is broadcast": (
        "g (float[N] x, float[M] w) => (bool[2] y) <int64[2] z = {0, 0}, bool[2] f = {0, 0}>", 21, "a = NonZero (x) c = Cast <to = 1> (a) r = Add (c, w) s = Shape <start = 1> (r) y = Equal (s, z)", [],
        ["y = Identity (f)"],
    ),
    "a size to which sizes are broadcast": (
        "g (float[N] x, float[M] w) => (bool[2] y) <int64[2] z = {0, 0}, bool[2] f = {0, 0}>", 21, "r = Add (x, w) s = Shape (r) y = Equal (s, z)", ["y = Identity (f)"],
        [],
    ),
    "a size of a range": (
        "g (float[N] x, float[M] z) => (bool[1] y) <int64[1] o = {0}, int64 zero = {0}, int64 one = {1}, bool[1] f = {0}>", 21, "h = Size (x) r = Range (zero, h, one) s = Shape (r) y = Equal (s, o)", ["y = Identity (f)"],
        [],
    ),
    "a size of an empty range": (
        "g (float[N] x, float[M] z) => (bool[1] y) <int64[1] o = {0}, int64 zero = {0}, int64 one = {1}, bool[1] f = {0}>", 21, "h = Size (x) w = Size (z) d = Sub (h, w) r = Range (zero, d, one) s = Shape (r) y = Equal (s, o)", [],
        ["y = Identity (f)"],
    ),
    "a size that is not known, of what may have no elements": (
        "g (float[N] x, float[M] w) => (bool[1] y) <int64[1] z = {0}, int64[1] m = {-1}, bool[1] f = {0}>", 21, "a = NonZero (x) h = Shape (x) v = Shape (w) d = Sub (h, v) t = Concat <axis = 0> (d, m) r = Reshape (a, t) s = Shape <start = 1> (r) y = Equal (s, z)", [],
        ["y = Identity (f)"],
    ),
    "a size that is not known, of what has elements": (
        "g (float[N] x, float[M] w) => (bool[1] y) <int64[1] z = {0}, int64[1] m = {-1}, bool[1] f = {0}>", 21, "h = Shape (x) v = Shape (w) d = Sub (h, v) t = Concat <axis = 0> (d, m) r = Reshape (x, t) s = Shape <start = 1> (r) y = Equal (s, z)", ["y = Identity (f)"],
        [],
    ),
    "a Reshape to sizes that are not known": (
        "g (float[N] x, float[N] z, float[M] w) => (float[A, B] y)", 21, "h = Shape (x) v = Shape (w) d = Sub (h, v) m = Constant <value_ints = [-1]> () t = Concat <axis = 0> (d, m) y = Reshape (x, t)",
        ["h = Shape (z) v = Shape (w) d = Sub (h, v) m = Constant <value_ints = [-1]> () t = Concat <axis = 0> (d, m) y = Reshape (x, t)"],
        ["h = Shape (x) v = Shape (w) d = Sub (h, v) m = Constant <value_ints = [-1]> () t = Concat <axis = 0> (d, m) y = Reshape (z, t)", "h = Shape (x) v = Shape (w) d = Sub (h, v) m = Constant <value_ints = [-1]> () t = Concat <axis = 0> (m, d) y = Reshape (x, t)"],
    ),
    "QuantizeLinear of a constant": (
        "g () => (uint8[2] y) <float[2] k = {nan, 1}, float[2] l = {-3, 1.25}, float s = {0.5}, uint8[2] q = {0, 2}, uint8[2] o = {0, 3}, uint8 z = {0}>", 23, "y = Identity (q)",
        ["y = QuantizeLinear (l, s)", "y = QuantizeLinear (l, s, z)"], ["y = QuantizeLinear (k, s)", "y = QuantizeLinear (k, s, z)", "y = Identity (o)"],
    ),
    "QuantizeLinear of NaN, which an earlier opset computes": ("g () => (uint8[2] y) <float[2] k = {nan, 1}, float s = {0.5}, uint8[2] q = {0, 2}>", 10, "y = Identity (q)", [], ["y = QuantizeLinear (k, s)"]),
    "a scale of two axes that is not in blocks": (
        "g (int8[2, 3] x) => (float[2, 3] y) <float[1, 3] c = {0.5, 3, 0.1}, float[3] k = {0.5, 3, 0.1}>", 21, "a = Cast <to = 1> (x) y = Mul (a, c)", ["b = Identity (x) a = Cast <to = 1> (b) y = Mul (a, c)"], ["y = DequantizeLinear (x, c)"],
    ),
    "blocks of more scales than there are": ("g (int8[4] x) => (float[4] y) <float[1] s = {0.5}>", 21, "a = Cast <to = 1> (x) y = Mul (a, s)", ["b = Identity (x) a = Cast <to = 1> (b) y = Mul (a, s)"], ["y = DequantizeLinear <axis = 0, block_size = 2> (x, s)"]),
    'zero points of 0, one for each channel': (
        'g (int8[2, 3] x) => (float[2, 3] y) <float[3] c = {0.5, 3, 0.1}, int8[3] o = {0, 0, 0}, int8[3] q = {0, 0, 1}>', 21, 'y = DequantizeLinear (x, c)',
        ['y = DequantizeLinear (x, c, o)'], ['y = DequantizeLinear (x, c, q)'],
    ),
    'QuantizeLinear with zero points of 0, one for each channel': (
        'g (float[2, 3] x) => (uint8[2, 3] y) <float[3] c = {0.5, 3, 0.1}, uint8[3] o = {0, 0, 0}, uint8[3] q = {0, 0, 1}>', 21, 'y = QuantizeLinear (x, c)',
        ['y = QuantizeLinear (x, c, o)'], ['y = QuantizeLinear (x, c, q)'],
    ),
    'a table of two axes that is looked up': (
        'g (uint8[2] x) => (int64[A] s) <float[2, 2] t = {1, 2, 3, 4}>', 21, 'i = Cast <to = 7> (x) y = Gather (t, i) s = Shape (y)',
        [], ['s = Constant <value_ints = [2]> ()', 's = Shape (x)'],
    ),
    'a table that is looked up from its end': (
        'g (int8[N] x) => (float[N] y) <float[128] t = {' + ", ".join(map(str, range(128))) + '}, int8 m = {127}>', 21, 'a = BitwiseAnd (x, m) y = Cast <to = 1> (a)',
        ['i = Cast <to = 7> (x) y = Gather (t, i)'], ['y = Cast <to = 1> (x)'],
    ),
    'a table that is looked up beyond its end': (
        'g (uint8[N] x) => (float[N] y) <float[2] t = {5, 7}>', 21, 'i = Cast <to = 7> (x) y = Gather (t, i)',
        ['i = Cast <to = 6> (x) y = Gather (t, i)'], ['i = Cast <to = 7> (x) n = Neg (i) y = Gather (t, n)'],
    ),
    'float16 that is added along an axis': (
        'g (float16[2, 2] x, float16[2] z) => (float16[2, 2] y)', 6, 'y = Add <axis = 0, broadcast = 1> (x, z)',
        ['a = Identity (x) y = Add <axis = 0, broadcast = 1> (a, z)'], ['y = Add <axis = 1, broadcast = 1> (x, z)'],
    ),
    'bools that are equal along an axis': (
        'g (bool[2, 2] x, bool[2] z) => (bool[2, 2] y)', 6, 'y = Equal <axis = 0, broadcast = 1> (x, z)',
        ['a = Identity (x) y = Equal <axis = 0, broadcast = 1> (a, z)'], ['y = Equal <axis = 1, broadcast = 1> (x, z)'],
    ),
    'NonZero of bools': (
        'g (bool[N] x) => (int64[A, B] y)', 21, 'y = NonZero (x)',
        ['a = NonZero (x) y = Cast <to = 7> (a)'], [],
    ),
    'infinity, which a narrow type has more of': (
        'g (float[N] x) => (bool[N] y)', 20, 'y = IsInf (x)',
        [], ['a = Cast <to = 10> (x) y = IsInf (a)', 'a = Cast <to = 16> (x) y = IsInf (a)'],
    ),
    'DequantizeLinear of what only its zero point tells the type of': (
        'g (float[N] x, float s, int8 z) => (float[N] y)', 21, 'a = l.Op (x) y = DequantizeLinear (a, s, z)',
        ['a = l.Op (x) b = Cast <to = 1> (a) c = Cast <to = 1> (z) d = Sub (b, c) y = Mul (d, s)'], ['a = l.Op (x) b = Cast <to = 1> (a) y = Mul (b, s)'],
    ),
    'DequantizeLinear of what has no type': (
        'g (float[N] x, float s) => (float[N] y)', 21, 'a = l.Op (x) y = DequantizeLinear (a, s)',
        ['a = l.Op (x) b = Identity (a) y = DequantizeLinear (b, s)'], ['a = l.Op (x) b = Cast <to = 1> (a) y = Mul (b, s)'],
    ),
    'DequantizeLinear of float8 by a bfloat16 scale': (
        'g (float8e5m2[N] x, bfloat16 s) => (bfloat16[N] y)', 23, 'y = DequantizeLinear (x, s)',
        ['a = Cast <to = 16> (x) y = Mul (a, s)'], ['a = Cast <to = 1> (x) c = Cast <to = 1> (s) d = Mul (a, c) y = Cast <to = 16> (d)'],
    ),
    'DequantizeLinear to a type narrower than its scale': (
        'g (int8[N] x) => (float[N] y) <float s = {0.3}>', 23, 'y = DequantizeLinear (x, s)',
        [], ['a = DequantizeLinear <output_dtype = 10> (x, s) y = Cast <to = 1> (a)'],
    ),
    'QuantizeLinear to uint8 with a zero point of unknown shape': (
        'g (float[N] x, uint8[1] z, int64[M] n) => (uint8[N] y) <float s = {0.5}>', 21, 'r = Reshape (z, n) y = QuantizeLinear (x, s, r)',
        [], ['y = QuantizeLinear (x, s)'],
    ),
    'QuantizeLinear to float8 in another precision': (
        'g (float[N] x) => (float8e4m3fn[N] y) <float s = {0.3}, float8e4m3fn z = {2}>', 23, 'y = QuantizeLinear (x, s, z)',
        ['y = QuantizeLinear <precision = 0> (x, s, z)'], ['y = QuantizeLinear <precision = 10> (x, s, z)'],
    ),
    'QuantizeLinear to float8 without a zero point': (
        'g (float[N] x) => (float8e4m3fn[N] y) <float s = {0.3}, float8e4m3fn z = {2}>', 23, 'y = QuantizeLinear <output_dtype = 17> (x, s)',
        ['a = Identity (x) y = QuantizeLinear <output_dtype = 17> (a, s)'], ['y = QuantizeLinear (x, s, z)'],
    ),
    'QuantizeLinear of int32': (
        'g (int32[N] x) => (uint8[N] y) <float s = {0.5}, float o = {0}, float h = {255}>', 23, 'y = QuantizeLinear (x, s)',
        ['a = Cast <to = 1> (x) d = Div (a, s) r = Round (d) n = IsNaN (r) w = Where (n, o, r) m = Min (w, h) l = Max (m, o) y = Cast <to = 2> (l)'], ['a = Neg (x) y = QuantizeLinear (a, s)'],
    ),
    'an axis out of range': (
        'g (int8[2, 3] x) => (float[2, 3] y) <float[3] c = {0.5, 3, 0.1}>', 21, 'y = DequantizeLinear (x, c)',
        ['y = DequantizeLinear <axis = -1> (x, c)'], ['y = DequantizeLinear <axis = -3> (x, c)', 'y = DequantizeLinear <axis = 3> (x, c)', 'y = DequantizeLinear <axis = 2> (x, c)'],
    ),
    'DequantizeLinear of a value of unknown rank': (
        'g (int8[6] x, int64[M] n) => (float[A, B] y) <float[3] c = {0.5, 3, 0.1}>', 21, 'r = Reshape (x, n) y = DequantizeLinear (r, c)',
        ['r = Reshape (x, n) a = Identity (r) y = DequantizeLinear (a, c)'], ['r = Reshape (x, n) a = Cast <to = 1> (r) y = Mul (a, c)'],
    ),
    'blocks of an axis of unknown size': (
        'g (int8[2, N] x, float[2, 2] r) => (float[2, N] y)', 21, 'y = DequantizeLinear <block_size = 2> (x, r)',
        ['a = Identity (x) y = DequantizeLinear <block_size = 2> (a, r)'], ['y = DequantizeLinear <block_size = 3> (x, r)'],
    ),
    'blocks along the first axis': (
        'g (int8[3, 2] x, float[2, 2] r) => (float[3, 2] y) <int64[3] i = {0, 0, 1}, int64[3] j = {0, 1, 1}>', 21, 'y = DequantizeLinear <axis = 0, block_size = 2> (x, r)',
        ['e = Gather (r, i) a = Cast <to = 1> (x) y = Mul (a, e)'], ['e = Gather (r, j) a = Cast <to = 1> (x) y = Mul (a, e)'],
    ),
    'Dropout of opset 7, which has no mode': (
        'g (float[N] x) => (float[N] y)', 7, 'y = Dropout (x)',
        ['y = Identity (x)'], [],
    ),
    "an axis one too great": (
        "g (int8[3, 3] x) => (float[3, 3] y) <float[3] c = {0.5, 3, 0.1}>", 21, "y = DequantizeLinear <axis = 0> (x, c)",
        ["y = DequantizeLinear <axis = -2> (x, c)"], ["y = DequantizeLinear <axis = 2> (x, c)"],
    ),
    'a choice by sizes that are broadcast': (
        'g (bool[N] c, float[M] x, float[M] z) => (int64[A] s)', 21, 'y = Where (c, x, z) s = Shape (y)',
        ['f = Cast <to = 1> (c) a = Add (f, x) s = Shape (a)'], ['s = Shape (x)', 's = Shape (c)'],
    ),
    'a Reshape that copies a size that is not there': (
        'g (float[6] x) => (float[A, B] y) <int64[2] t = {6, 0}, int64[2] u = {6, 1}>', 21, 'y = Reshape (x, t)',
        ['a = Identity (x) y = Reshape (a, t)'], ['y = Reshape (x, u)'],
    ),
    'a Reshape to a size below -1': (
        'g (float[6] x) => (float[A, B] y) <int64[2] u = {2, 3}, int64[2] t = {-2, 3}>', 21, 'y = Reshape (x, u)',
        [], ['y = Reshape (x, t)'],
    ),
    'a Reshape of a value of unknown rank': (
        'g (float[6] x, int64[M] n) => (float[A] y) <int64[1] t = {-1}, int64[2] z = {0, -1}>', 21, 'r = Reshape (x, n) y = Reshape (r, t)',
        ['r = Reshape (x, n) a = Identity (r) y = Reshape (a, t)'], ['r = Reshape (x, n) y = Reshape (r, z)'],
    ),
    'a Flatten of a value of unknown rank': (
        'g (float[6] x, int64[M] n) => (float[A, B] y)', 21, 'r = Reshape (x, n) y = Flatten (r)',
        ['r = Reshape (x, n) a = Identity (r) y = Flatten (a)'], ['r = Reshape (x, n) y = Flatten <axis = 0> (r)'],
    ),
    'a Squeeze of a value of unknown rank': (
        'g (float[6] x, int64[M] n) => (float[A] y) <int64[1] o = {0}, int64[1] e = {1}>', 21, 'r = Reshape (x, n) y = Squeeze (r, o)',
        ['r = Reshape (x, n) a = Identity (r) y = Squeeze (a, o)'], ['r = Reshape (x, n) y = Squeeze (r, e)', 'r = Reshape (x, n) y = Squeeze (r)'],
    ),
    'a Flatten along an axis out of range': (
        'g (float[2, 3] x) => (float[A, B] y)', 21, 'y = Flatten <axis = 2> (x)',
        [], ['y = Flatten <axis = 3> (x)'],
    ),
    'a Flatten along an axis before the first': (
        'g (float[2, 3] x) => (float[A, B] y)', 21, 'y = Flatten <axis = 0> (x)',
        ['y = Flatten <axis = -2> (x)'], ['y = Flatten <axis = -3> (x)'],
    ),
    'a range from a number that is not known': (
        'g (float[N] x, int64 a) => (int64[A] y) <int64 o = {1}>', 21, 'h = Size (x) y = Range (a, h, o)',
        ['h = Size (x) b = Identity (a) y = Range (b, h, o)'], ['h = Size (x) y = Range (o, h, o)'],
    ),
    'a range to a number that is not known': (
        'g (float[N] x, int64 a) => (int64[A] y) <int64 o = {1}, int64 z = {0}>', 21, 'y = Range (z, a, o)',
        ['b = Identity (a) y = Range (z, b, o)'], ['y = Range (o, a, o)'],
    ),
    'the size of a range in steps of 2': (
        'g (float[N] x) => (int64[A] s) <int64 z = {0}, int64 t = {2}>', 21, 'h = Size (x) r = Range (z, h, t) s = Shape (r)',
        ['h = Size (x) i = Identity (h) r = Range (z, i, t) s = Shape (r)'], ['s = Shape (x)'],
    ),
    'the size of a range that may be empty': (
        'g (float[N] x, float[M] w) => (int64[A] s) <int64 z = {0}, int64 o = {1}>', 21, 'h = Size (x) v = Size (w) d = Sub (h, v) r = Range (z, d, o) s = Shape (r)',
        ['h = Size (x) v = Size (w) c = Sub (h, v) d = Identity (c) r = Range (z, d, o) s = Shape (r)'], ['h = Shape (x) v = Shape (w) s = Sub (h, v)'],
    ),
    'a constant that is rounded up to float8e8m0': (
        'g () => (float8e8m0[1] y) <float[1] k = {1.25}, float8e8m0[1] o = {127}, float8e8m0[1] t = {128}>', 24, 'y = Cast <to = 24> (k)',
        ['a = Identity (k) y = Cast <to = 24> (a)'], ['y = Identity (o)', 'y = Identity (t)'],
    ),
    'a value and its transpose': (
        'g (int8[2, 2] x) => (int8[2, 2] y)', 21, 't = Transpose (x) y = Sub (t, x)',
        ['a = Identity (x) t = Transpose (a) y = Sub (t, x)'], ['a = Sub (x, x) y = Transpose (a)'],
    ),
    'a table that is defined where a cast is not': (
        'g (float8e5m2[N] x) => (int32[N] y) <int32[256] t = {' + _NEGATED + '}>', 26, 'b = BitCast <to = 2> (x) i = Cast <to = 6> (b) y = Gather (t, i)',
        ['b = BitCast <to = 2> (x) i = Cast <to = 7> (b) y = Gather (t, i)'], ['a = Cast <to = 6> (x) y = Neg (a)'],
    ),
    'a quantized value as double': (
        'g (float[N] x) => (double[N] y) <float s = {0.5}, uint8 z = {7}>', 21, 'q = QuantizeLinear (x, s, z) a = Cast <to = 11> (q) y = Exp (a)',
        ['p = Identity (x) q = QuantizeLinear (p, s, z) a = Cast <to = 11> (q) y = Exp (a)'], ['q = QuantizeLinear (x, s, z) a = Cast <to = 1> (q) y = Exp (a)'],
    ),
    'a quotient of which one divides by zero': (
        'g (uint8[N] x) => (uint8[N] y) <uint8 a = {5}, uint8[256] t = {' + ", ".join(str(5 // n if n else 0) for n in range(256)) + '}>', 21, 'i = Cast <to = 6> (x) y = Gather (t, i)',
        ['i = Cast <to = 7> (x) y = Gather (t, i)'], ['y = Div (a, x)'],
    ),
    'float16 that is given back': (
        'g (float16[N] x) => (float16[N] y)', 21, 'y = Identity (x)',
        [], ['y = Max (x, x)'],
    ),
    'a Reshape of a constant to another size': (
        'g () => (float[A] y) <float[2] k = {1, 2}, int64[1] t = {3}, float[3] m = {1, 2, 1}>', 21, 'y = Reshape (k, t)',
        ['a = Identity (k) y = Reshape (a, t)'], ['y = Identity (m)'],
    ),
    'an Expand of a Reshape': (
        'g (float[2] x) => (float[A, B] y) <int64[2] r = {2, 1}, int64[2] e = {2, 2}>', 21, 'a = Reshape (x, r) y = Expand (a, e)',
        ['b = Identity (x) a = Reshape (b, r) y = Expand (a, e)'], ['y = Expand (x, e)'],
    ),
    'a cast to a type that is not known': (
        'g (float[N] x, float[N] w) => (y, int64 p, int64 q)', 21, 't = l.Op (x) u = l.Op (w) p = Size (t) q = Size (u) y = CastLike (x, t)',
        ['a = Identity (x) t = l.Op (a) u = l.Op (w) p = Size (t) q = Size (u) y = CastLike (a, t)'], ['t = l.Op (x) u = l.Op (w) p = Size (t) q = Size (u) y = CastLike (x, u)'],
    ),
    'a Slice of no elements': (
        'g (float[4] x) => (int64[1] s) <int64[1] z = {0}, int64[1] o = {1}>', 21, 'y = Slice (x, z, z) s = Shape (y)',
        ['s = Identity (z)'], ['s = Identity (o)'],
    ),
    'a zero point other than that of the quantizer': (
        'g (float[N] x) => (float[N] y) <float s = {0.5}, uint8 z = {7}, uint8 w = {5}>', 21, 'q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)',
        ['p = Identity (x) q = QuantizeLinear (p, s, z) y = DequantizeLinear (q, s, z)'], ['q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, w)'],
    ),
    "parts of a shape": (
        "g (float[N, M, 3] x) => (int64[A] y)", 15, "y = Shape <start = 1> (x)", ["y = Shape <start = -2> (x)", "y = Shape <start = 1, end = 3> (x)", "s = Shape (x) i = Constant <value_ints = [1, 2]> () y = Gather (s, i)"],
        ["y = Shape (x)", "y = Shape <start = 1, end = 2> (x)", "y = Shape <start = 2> (x)", "y = Shape <end = 2> (x)"],
    ),
}  # fmt: skip


def test_rules() -> None:
    def compare(head: str, opset: int, first: str, same: list[str], others: list[str]) -> None:
        head = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1, "l" : 1]>\n{head}'
        before = onnx.parser.parse_model(f"{head} {{ {first} }}")
        pool: dict[str, checker.Array] = {}
        states = [checker.state_of(before, pool)]
        reader = checker.checker_of(before, pool)
        read = reader.read(states[0], is_first=True)
        models = {body: onnx.parser.parse_model(f"{head} {{ {body} }}") for body in (first, *same, *others)}
        certified = [body for body, after in models.items() if is_certified(reader, before, read, after)]
        assert certified == [first, *same]

    check_all(compare, RULES.values())


_VERSIONS = [
    ("y = Relu (x)", 13, 14, True),
    ("y = Identity (x)", 13, 25, True),
    ("y = Softmax (x)", 11, 12, True),
    ("y = Softmax (x)", 12, 13, False),
    ("y = Add (x, x)", 6, 7, False),
    *((f"q = Cast <to = {to}> (x) y = Cast <to = 1> (q)", 23, 24, to in (17, 19)) for to in (17, 18, 19, 20)),
    *(
        (
            f"o = Constant <value_float = 0.0> () a = Constant <value_float = 0.5> () z = Cast <to = {to}> (o) q = QuantizeLinear (x, a, z) y = Cast <to = 1> (q)",
            23,
            24,
            to in (17, 19),
        )
        for to in (17, 18, 19, 20)
    ),
    *(
        ("a = Constant <value_float = 0.5> () q = QuantizeLinear (x, a) y = Cast <to = 1> (q)", old, old + 1, old > 10)
        for old in (10, 12)
    ),
    *((f"q = Cast <to = {to}, saturate = 0> (x) y = Cast <to = 1> (q)", 23, 24, True) for to in (17, 18, 19, 20)),
]


def test_versions_of_operators_that_mean_the_same() -> None:
    def compare(body: str, old: int, new: int, equal: bool) -> None:
        texts = [
            f'<ir_version: 3, opset_import: ["" : {n}]> g (float[2, 3] x) => (float[A, B] y) {{ {body} }}'
            for n in (old, new)
        ]
        before, after = map(onnx.parser.parse_model, texts)
        assert (outcome(before, after) == "certified") is equal

    check_all(compare, _VERSIONS)
