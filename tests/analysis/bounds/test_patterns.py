"""Normalizations that exporters write as several nodes: forms that are found, and others like them."""

from __future__ import annotations

import math

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

from castsmith import bounds
from castsmith.analysis.bounds.patterns import is_node, same
from castsmith.verification.bounds import Bound

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
    "L2": (_ROOT, "n = ReduceL2 (x, last) r = Max (n, e) y = Div (x, r)", 1),
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
    assert (made.how, made.low) == ("proven", -made.high)
    assert most <= made.high <= most * 1.001


@pytest.mark.parametrize("new", ["Sqrt (v)", "ReduceL2 (x, last)"])
def test_a_norm_may_vanish_without_epsilon(new: str) -> None:
    """The squares of 1e-30 are 0 in float, and the quotient is infinite; of larger numbers it is bounded."""
    body = _ROOT.replace("Sqrt (a)", new)
    assert found(body).how == found(body, x=(1e-30, 1)).how == "unknown"
    assert found(body, x=(-1e-30, 1)).may_be_nan
    made, most = found(body, x=(0.5, 100)), 2 if "Sqrt" in new else 1
    assert made.how == "proven"
    assert most <= made.high <= most * 1.001


@pytest.mark.parametrize(("op_type", "norm", "beside"), [("ReduceMean", 2, 2.138), ("ReduceSum", 1, 1.1338)])
def test_a_small_epsilon_counts_beside_squares_that_vanish(op_type: str, norm: float, beside: float) -> None:
    """It is seven times what two roundings lose, those of a square and a mean: 2 * sqrt(8 / 7); a sum has four."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]> g (float[2,4] x) => (float[2,4] y)
        <float e = {{1}}, int64[1] a = {{-1}}>
        {{ q = Mul (x, x) v = {op_type} (q, a) s = Add (v, e) r = Sqrt (s) y = Div (x, r) }}""")
    for epsilon, most in ((1e-38, norm), (2e-44, beside)):
        # The parser of onnx 1.21 refuses subnormal numbers.
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array(epsilon, np.float32), "e"))
        assert most <= bounds(model, ranges={"x": (-1, 1)})["y"].magnitude <= most + 1e-3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r = Sqrt (a)", "s = Cast <to = 10> (a) t = Sqrt (s) r = Cast <to = 1> (t)"),
        ("q = Mul (x, x)", "h = Cast <to = 16> (x) b = Mul (h, h) q = Cast <to = 1> (b)"),
    ],
)
def test_casts_that_round_count(old: str, new: str) -> None:
    """By the type that they go through; a norm of other numbers, rounded, is none of these."""
    made = found(_ROOT.replace(old, new), x=(-100, 100))
    assert made.high > 2.002


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
    assert found(body, x=(0.1, 2)).magnitude > 1.1
    made = found(body.replace("keepdims = 0", "keepdims = 1"), x=(0.1, 2))
    assert 1 <= made.magnitude <= 1.001


def test_axes_as_attributes() -> None:
    body = "q = Mul (x, x) v = ReduceMean <axes = [%s]> (q) a = Add (v, e) r = Sqrt (a) y = Div (x, r)"
    for axes, most in (("-1", 2), ("1", 2), ("0", math.sqrt(2)), ("0, 1", math.sqrt(8))):
        assert most <= found(body % axes, 13).magnitude <= most * 1.001
    clipped = "r = ReduceL2 <axes = [1]> (x) c = Clip <min = 0.001> (r) y = Div (x, c)"
    assert 1 <= found(clipped, 10).magnitude <= 1.001
    assert found(clipped.replace("min = 0.001", "min = 0.001, max = 2.0"), 10).magnitude == math.inf


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
        assert most <= made.magnitude <= most * 1.5


def test_swish_written_out() -> None:
    for body in ("s = Sigmoid (x) y = Mul (x, s)", "s = Sigmoid (x) y = Mul (s, x)"):
        made = found(body, x=(-10, 10))
        assert -0.279 < made.low < -0.2784645 < 9.9995 < made.high < 10.001
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
        (
            "q = Mul (x, x) v = ReduceMean (q, last) a = Add (v, e) r = Sqrt (a) n = Div (x, r) y = MatMul (n, m)",
            2 * math.sqrt(30),
        ),
        (
            "q = Mul (x, x) v = ReduceMean (q, first) a = Add (v, e) r = Sqrt (a) n = Div (x, r) y = MatMul (n, m)",
            math.sqrt(2) * 10,
        ),
    ],
)
def test_rows_of_a_known_norm_times_a_matrix(body: str, most: float) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[2,4] x) => (float[2,1] y)
        <{_CONSTANTS}, float[4] o = {{1, 1, 1, 1}}, float[4,1] m = {{1, 2, 3, 4}}> {{ {body} }}"""
    made = bounds(onnx.parser.parse_model(text))["y"]
    assert most <= made.magnitude <= most * 1.01


@pytest.mark.parametrize(("domain", "known"), [("", True), ("ai.onnx", True), ("com.microsoft", False)])
def test_an_operator_of_another_domain_is_another_one(domain: str, *, known: bool) -> None:
    node = onnx_ir.Node(domain, "Sqrt", [onnx_ir.val("x")])
    assert (is_node(node.outputs[0], "Sqrt") is node) is known
    assert is_node(node.outputs[0], "Mul") is is_node(None, "Sqrt") is is_node(node.inputs[0], "Sqrt") is None


def test_what_is_absent_is_the_same_as_nothing() -> None:
    value = onnx_ir.val("x")
    assert [same(a, b, {}) for a in (None, value) for b in (None, value)] == [False, False, False, True]
