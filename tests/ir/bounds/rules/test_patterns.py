"""Normalizations and softmax that exporters write as several nodes: forms that are found, and others like them."""

from __future__ import annotations

import math

import onnx.parser
import pytest

from castsmith import bounds
from castsmith.ir.bounds.report import Bound

_CONSTANTS = """float e = {0.001}, float minus = {-0.001}, float one = {1}, float two = {2}, float three = {3},
    float half = {0.5}, float less = {-0.5}, float more = {-0.25}, int64[1] last = {-1}, int64[1] first = {0},
    int64[2] both = {0, 1}, int64[0] none = {}, float[2,4] w = {1, 2, 3, 4, 1, 2, 3, 4}, float[4] row = {1, 2, 3, 4}"""


def found(body: str, opset: int = 18, **ranges: tuple[float, float]) -> Bound:
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]> g (float[2,4] x, float[2,4] z, float p) => (float[2,4] y)
        <{_CONSTANTS}> {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    return bounds(model, ranges=ranges)["y"]


_ROOT = "q = Mul (x, x) v = ReduceMean (q, last) a = Add (v, e) r = Sqrt (a) y = Div (x, r)"
"""The rows of x over their root mean square: at most 2, the root of 4."""

_FOUND = {
    "as it is": ("", "", 2),
    "other order of the sum": ("Add (v, e)", "Add (e, v)", 2),
    "without epsilon": ("Sqrt (a)", "Sqrt (v)", 2),
    "power": ("q = Mul (x, x)", "q = Pow (x, two)", 2),
    "root as a power": ("Sqrt (a)", "Pow (a, half)", 2),
    "sum": ("ReduceMean (q, last)", "ReduceSum (q, last)", 1),
    "sum of squares": ("v = ReduceMean (q, last)", "v = ReduceSumSquare (x, last)", 1),
    "both axes": ("ReduceMean (q, last)", "ReduceMean (q, both)", math.sqrt(8)),
    "first axis": ("ReduceMean (q, last)", "ReduceMean (q, first)", math.sqrt(2)),
    "all axes": ("ReduceMean (q, last)", "ReduceMean (q)", math.sqrt(8)),
    "maximum of the square": ("a = Add (v, e)", "a = Max (e, v)", 2),
    "maximum of the norm": ("r = Sqrt (a)", "s = Sqrt (a) r = Max (e, s)", 2),
    "clipped square": ("a = Add (v, e)", "a = Clip (v, e)", 2),
    "clipped norm": ("r = Sqrt (a)", "s = Sqrt (a) r = Clip (s, e)", 2),
    "sum with the norm": ("r = Sqrt (a)", "s = Sqrt (a) r = Add (s, e)", 2),
    "casts": ("r = Sqrt (a)", "s = Cast <to = 11> (a) t = Sqrt (s) r = Cast <to = 1> (t)", 2),
    "square of an identity": ("q = Mul (x, x)", "i = Identity (x) q = Mul (i, x)", 2),
    "expanded": ("r = Sqrt (a)", "h = Shape (x) s = Sqrt (a) r = Expand (s, h)", 2),
    "L2": (_ROOT, "r = ReduceL2 (x, last) y = Div (x, r)", 1),
    "reciprocal": ("y = Div (x, r)", "i = Reciprocal (r) y = Mul (x, i)", 2),
    "reciprocal first": ("y = Div (x, r)", "i = Reciprocal (r) y = Mul (i, x)", 2),
    "one over it": ("y = Div (x, r)", "i = Div (one, r) y = Mul (x, i)", 2),
    "negative power": ("r = Sqrt (a) y = Div (x, r)", "i = Pow (a, less) y = Mul (x, i)", 2),
    "of a difference": (_ROOT, """m = ReduceMean (x, last) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, last)
        a = Add (v, e) r = Sqrt (a) y = Div (d, r)""", 2),
    "of a difference made twice": (_ROOT, """m = ReduceMean (x, last) d = Sub (x, m) f = Sub (x, m) q = Mul (d, d)
        v = ReduceMean (q, last) a = Add (v, e) r = Sqrt (a) y = Div (f, r)""", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", _FOUND)
def test_vectors_over_their_norm(name: str) -> None:
    old, new, most = _FOUND[name]
    assert old in _ROOT
    made = found(_ROOT.replace(old, new) if old else _ROOT)
    assert made.magnitude == pytest.approx(most, rel=1e-3)
    assert made.magnitude >= most
    assert (made.low, made.how != "unknown") == (-made.high, not made.may_be_nan)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q = Mul (x, x)", "q = Mul (x, z)"),
        ("q = Mul (x, x)", "q = Pow (x, three)"),
        ("q = Mul (x, x)", "q = Mul (z, z)"),
        ("Sqrt (a)", "Pow (a, two)"),
        ("r = Sqrt (a)", "r = Identity (a)"),
        ("Add (v, e)", "Add (v, minus)"),
        ("Add (v, e)", "Add (v, p)"),
        ("Add (v, e)", "Sub (v, e)"),
        ("a = Add (v, e)", "a = Clip (v, e, one)"),
        ("r = Sqrt (a)", "s = Sqrt (a) r = Clip (s, e, one)"),
        ("a = Add (v, e)", "a = Min (v, e)"),
        ("ReduceMean (q, last)", "ReduceMax (q, last)"),
        ("ReduceMean (q, last)", "ReduceMean <noop_with_empty_axes = 1> (q)"),
        ("y = Div (x, r)", "y = Div (r, x)"),
        ("y = Div (x, r)", "y = Div (z, r)"),
        ("y = Div (x, r)", "i = Div (two, r) y = Mul (x, i)"),
        ("y = Div (x, r)", "y = Mul (x, r)"),
        ("r = Sqrt (a) y = Div (x, r)", "i = Pow (a, more) y = Mul (x, i)"),
    ],
)
def test_what_is_no_norm(old: str, new: str) -> None:
    assert old in _ROOT
    made = found(_ROOT.replace(old, new))
    assert made.magnitude == math.inf
    assert made.how == "unknown"


def test_a_norm_whose_dimension_is_dropped() -> None:
    body = "r = ReduceL2 <keepdims = 0> (x, both) y = Div (x, r)"
    assert found(body).magnitude == math.inf
    assert found(body.replace("keepdims = 0", "keepdims = 1")).magnitude == pytest.approx(1, rel=1e-3)


def test_axes_as_attributes() -> None:
    body = "q = Mul (x, x) v = ReduceMean <axes = [%s]> (q) r = Sqrt (v) y = Div (x, r)"
    for axes, most in (("-1", 2), ("1", 2), ("0", math.sqrt(2)), ("0, 1", math.sqrt(8))):
        assert found(body % axes, 13).magnitude == pytest.approx(most, rel=1e-3)
    clipped = "r = ReduceL2 <axes = [1]> (x) c = Clip <min = 0.001> (r) y = Div (x, c)"
    assert found(clipped, 10).magnitude == pytest.approx(1, rel=1e-3)
    assert found(clipped.replace("min = 0.001", "min = 0.001, max = 2.0"), 10).magnitude == math.inf


_SOFTMAX = "m = ReduceMax (x, last) d = Sub (x, m) n = Exp (d) s = ReduceSum (n, last) y = Div (n, s)"


@pytest.mark.parametrize(
    ("old", "new", "nan"),
    [
        ("", "", False),
        ("Exp (d)", "Exp (x)", True),
        ("Sub (x, m)", "Sub (m, x)", True),
        ("ReduceMax (x, last)", "ReduceMin (x, last)", True),
        ("ReduceMax (x, last)", "ReduceMax (z, last)", True),
        ("s = ReduceSum (n, last)", "o = ReduceSum (n, last) s = Identity (o)", False),
    ],
)
def test_exponentials_over_their_sum(old: str, new: str, nan: bool) -> None:
    made = found(_SOFTMAX.replace(old, new) if old else _SOFTMAX)
    assert (made.low, made.may_be_nan) == (0, nan)
    assert 1 <= made.high <= 1.001


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ReduceSum (n, last)", "ReduceSum (d, last)"),
        ("ReduceSum (n, last)", "ReduceSum (n, both)"),
        ("ReduceSum (n, last)", "ReduceSum (n)"),
        ("ReduceSum (n, last)", "ReduceMax (n, last)"),
        ("Exp (d)", "Abs (d)"),
        ("Div (n, s)", "Div (s, n)"),
    ],
)
def test_what_is_no_softmax(old: str, new: str) -> None:
    assert old in _SOFTMAX
    assert found(_SOFTMAX.replace(old, new)).how == "unknown"


_STANDARD = """m = ReduceMean (x, last) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, last) a = Add (v, e)
    r = Sqrt (a) i = Reciprocal (r) g = Mul (i, row) xs = Mul (x, g) ms = Mul (m, g) b = Sub (w, ms) y = Add (xs, b)"""
"""(x - m) * i * row + w, as TensorFlow writes it: at most 2 * 4 + 4, and the roundings of numbers up to 1e6."""


@pytest.mark.parametrize(
    ("old", "new", "most"),
    [
        ("", "", 12), ("Mul (i, row)", "Mul (row, i)", 12), ("Mul (x, g)", "Mul (g, x)", 12),
        ("Mul (m, g)", "Mul (g, m)", 12), ("Add (xs, b)", "Add (b, xs)", 12),
        ("g = Mul (i, row)", "g = Identity (i)", 6), ("g = Mul (i, row) xs = Mul (x, g) ms = Mul (m, g)",
         "xs = Mul (x, i) ms = Mul (m, i)", 6),
        ("Mul (x, g)", "Mul (z, g)", None), ("Mul (m, g)", "Mul (x, g)", None), ("Sub (w, ms)", "Sub (ms, w)", None),
        ("Sub (w, ms)", "Add (w, ms)", None), ("y = Add (xs, b)", "y = Sub (xs, b)", None),
    ],
)  # fmt: skip
def test_normalizations_whose_difference_is_never_computed(old: str, new: str, most: float | None) -> None:
    assert old in _STANDARD
    made = found(_STANDARD.replace(old, new) if old else _STANDARD, x=(-1e3, 1e3), z=(-1e3, 1e3))
    if most is None:
        assert made.magnitude > 1e5
    else:
        assert most <= made.magnitude <= most + 0.5 * most


def test_swish_written_out() -> None:
    for body in ("s = Sigmoid (x) y = Mul (x, s)", "s = Sigmoid (x) y = Mul (s, x)"):
        made = found(body, x=(-10, 10))
        assert (made.low, round(made.high, 2)) == (-0.2785, 10)
    assert found("s = Sigmoid (z) y = Mul (x, s)", x=(-10, 10)).low < -9


@pytest.mark.parametrize(
    ("body", "most"),
    [
        # rows of norm 2 times the rows (1, 2, 3, 4): at most 2 * sqrt(30), the sum of the elements of one alone is 20
        ("n = LayerNormalization (x, o) y = MatMul (n, m)", 2 * math.sqrt(30)),
        ("n = LayerNormalization (x, o) h = Mul (n, two) y = MatMul (h, m)", 4 * math.sqrt(30)),
        ("n = LayerNormalization (x, o) h = Mul (two, n) y = MatMul (h, m)", 4 * math.sqrt(30)),
        ("n = LayerNormalization (x, o) h = Mul (n, o) y = MatMul (h, m)", 2 * math.sqrt(30)),
        ("n = LayerNormalization (x, o) h = Add (n, one) y = MatMul (h, m)", 2 * math.sqrt(30) + 10),
        ("n = LayerNormalization (x, o) h = Sub (n, one) y = MatMul (h, m)", 2 * math.sqrt(30) + 10),
        ("n = LayerNormalization (x, o) h = Sub (one, n) y = MatMul (h, m)", 30),
        ("n = LayerNormalization (x, row) y = MatMul (n, m)", 2 * math.sqrt(1 + 16 + 81 + 256)),
        ("n = LayerNormalization (x, o, row) y = MatMul (n, m)", 2 * math.sqrt(30) + 30),
        ("q = Mul (x, x) v = ReduceMean (q, last) r = Sqrt (v) n = Div (x, r) y = MatMul (n, m)", 2 * math.sqrt(30)),
        ("q = Mul (x, x) v = ReduceMean (q, first) r = Sqrt (v) n = Div (x, r) y = MatMul (n, m)", math.sqrt(2) * 10),
    ],
)
def test_rows_of_a_known_norm_times_a_matrix(body: str, most: float) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[2,4] x) => (float[2,1] y)
        <{_CONSTANTS}, float[4] o = {{1, 1, 1, 1}}, float[4,1] m = {{1, 2, 3, 4}}> {{ {body} }}"""
    made = bounds(onnx.parser.parse_model(text))["y"]
    assert most <= made.magnitude <= most * 1.01
