"""Numbers that inputs should hold so that a model takes every branch, and bounds that its operators put on inputs."""

from __future__ import annotations

import math
from typing import Any

import onnx.parser
import onnx_ir
import pytest

from castsmith.verification.evaluate.indices import RangeError
from castsmith.verification.inputs.reach import Needs, Reach

_CONSTANTS = """float k = {0.5}, float two = {2}, float four = {4}, float[1] three = {3}, float[2] pair = {1, 2},
    int64 i = {7}, int64[1] j = {1}, float nan = {nan}, float inf = {inf}, float zero = {0}, uint8 z = {0}"""


def needs(body: str, inputs: str = "float[N] x", output: str = "bool[N] y", more: str = "") -> Needs:
    text = f"""<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g ({inputs}) => ({output}) <{_CONSTANTS}>
        {{ {body} }} {more}"""
    return Reach(onnx_ir.from_proto(onnx.parser.parse_model(text))).needs["x"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # an operator before Greater (v, k) with k = 0.5: the number that x should hold
        ("v = Identity (x)", [0.5]),
        ("v = Add (x, two)", []), ("v = Mul (two, x)", []), ("v = Neg (x)", [0.5]), ("v = Mul (x, x)", []),
        ("v = Sin (x)", []), ("v = Abs (x)", [0.5]),
        ("v = Relu (x)", [0.5]), ("v = ReduceMax (x)", [0.5]), ("v = ReduceSum (x)", [0.5]),
        ("v = CumSum (x, i)", [0.5]),
        ("v = Max (x, x)", [0.5]), ("v = Transpose (x)", [0.5]), ("v = Concat <axis = 0> (two, x)", [0.5]),
        ("c = Cast <to = 11> (x) v = Cast <to = 1> (c)", [0.5]), ("v = f.h (x)", [0.5]), ("v = f.unknown (x)", []),
        ("v = Sub (two, k)", []),
    ],
)  # fmt: skip
def test_numbers_that_decide_a_comparison(body: str, expected: list[float]) -> None:
    more = '<domain: "f", opset_import: ["" : 21]> h (p) => (q) { q = Identity (p) }'
    for test in ("y = Greater (v, k)", "y = Less (k, v)", "y = Equal (v, k)"):
        found = needs(f"{body} {test}", more=more)
        wanted = [number for number in found.wanted if number not in (2.0, 0.0) or expected == [number]]
        assert wanted == pytest.approx(expected), test
        assert (found.low, found.high, found.nonzero, found.sizes) == (-math.inf, math.inf, "Div (two" in body, None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Greater (x, pair)", [1, 2]), ("y = Greater (x, nan)", []), ("y = Greater (x, inf)", [math.inf]),
        ("w = Identity (pair) y = Greater (x, w)", [1, 2]), ("w = Neg (pair) y = Greater (x, w)", []),
        ("a = Max (x, k) y = IsNaN (a)", [0.5]), ("a = PRelu (x, k) y = IsNaN (a)", [0.5]),
        ("a = Mod <fmod = 1> (x, k) y = IsNaN (a)", [0.5]), ("a = Add (x, k) y = IsNaN (a)", []),
        ("a = Clip (x, k, two) y = IsNaN (a)", [0.5, 2]),
        ("a = LeakyRelu <alpha = 0.25> (x) y = IsNaN (a)", [0.25, -0.25]),
        ("c = Cast <to = 9> (x) y = Not (c)", [0, 1]), ("c = Cast <to = 9> (x) y = Where (c, c, c)", [0, 1]),
        ("q = QuantizeLinear (x, two, z) y = Cast <to = 9> (q)",
         [2 * step for step in (0.5, 1.5, 2.5, -0.5, -1.5, 3.0, 126.5, 127.5, 128.5, -128.5, 254.5, 255.5)]),
        ("q = QuantizeLinear (x, inf, z) y = Cast <to = 9> (q)", []),
        ("q = QuantizeLinear (x, x, z) y = Cast <to = 9> (q)", []),
        ("y = f.Greater (x, k)", []),
    ],
)  # fmt: skip
def test_numbers_that_operators_compare_with(body: str, expected: list[float]) -> None:
    assert list(needs(body).wanted) == expected


_FLOW = {
    "If": """c = Cast <to = 9> (two) v = If (c) <then_branch = t () => (float[N] p) { p = Sin (x) },
        else_branch = e () => (float[N] q) { q = Identity (x) }>""",
    "Loop": """v = Loop (i, , x) <body = b (int64 n, bool c, float[N] s) => (bool co, float[N] so)
        { co = Not (c) so = Identity (s) }>""",
    "Scan": """v = Scan <num_scan_inputs = 1, body = b (float e) => (float o) { o = Identity (e) }> (x)""",
}


@pytest.mark.parametrize("name", _FLOW)
def test_numbers_are_followed_into_graphs(name: str) -> None:
    assert 0.5 in needs(f"{_FLOW[name]} y = Greater (v, k)").wanted
    other = _FLOW[name].replace("Identity (", "Sin (")
    assert 0.5 not in needs(f"{other} y = Greater (v, k)").wanted


def test_at_most_so_many_numbers() -> None:
    numbers = ", ".join(str(number) for number in range(40))
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (bool[N] y) <float[40] k = {{{numbers}}}>
        {{ y = Greater (x, k) }}"""
    assert list(Reach(onnx_ir.from_proto(onnx.parser.parse_model(text))).needs["x"].wanted) == list(range(32))


@pytest.mark.parametrize(
    ("body", "inputs", "low", "high", "sizes"),
    [
        ("y = Gather (w, x)", "int64[N] x, float[5] w", -5, 4, None),
        ("y = Gather (w, x)", "int64[N] x, float[M] w", -math.inf, math.inf, None),
        ("y = Gather (w, x) v = Gather (u, x)", "int64[N] x, float[5] w, float[3] u", -3, 2, None),
        ("y = Expand (w, x)", "int64[1] x, float[1] w", 1, 4, (1, 4)),
        ("y = ConstantOfShape (x)", "int64[1] x", 1, 4, (1, 4)),
        ("y = Tile (w, x)", "int64[1] x, float[1] w", 1, 4, (1, 4)),
        ("y = Pad (w, x)", "int64[2] x, float[1] w", 0, 4, (0, 4)),
        ("y, n = TopK (w, x)", "int64[1] x, float[5] w", 1, 2, (1, 2)),
        ("y = Range (x, i, i)", "int64 x", -8, 8, (-8, 8)),
        ("y = Range (i, x, i)", "int64 x", -16, 16, (-16, 16)),
        ("y = Range (i, i, x)", "int64 x", 1, 4, (1, 4)),
        ("y = Range (x, i, i) v = Range (i, i, x)", "int64 x", 1, 4, (1, 4)),
        ("y = Range (i, i, x) v = Range (x, i, i)", "int64 x", 1, 4, (1, 4)),
        ("y = Expand (w, x) v = Pad (w, x)", "int64[2] x, float[1] w", 1, 4, (1, 4)),
        ("y = f.Gather (w, x)", "int64[N] x, float[5] w", -math.inf, math.inf, None),
        ("w = Constant <value_floats = [1.0, 2.0, 3.0]> () y = Gather (w, x)", "int64[N] x", -3, 2, None),
        ("a = Identity (x) y = Gather (w, a)", "int64[N] x, float[5] w", -5, 4, None),
        ("a = ReduceMax <keepdims = 0> (x) y = Gather (w, a)", "int64[N] x, float[5] w", -5, 4, None),
        ("a = Abs (x) y = Gather (w, a)", "int64[N] x, float[5] w", -math.inf, math.inf, None),
        ("a = Max (x, i) y = Gather (w, a)", "int64[N] x, float[5] w", -math.inf, math.inf, None),
        ("a = ReduceSum (x) y = Gather (w, a)", "int64[N] x, float[5] w", -math.inf, math.inf, None),
        ("y = Resize (w, , , x)", "int64[1] x, float[1] w", 1, 16, (1, 16)),
        ("y = STFT (w, x, , n)", "int64 x, float[1,9,1] w, int64 n", 1, 4, (1, 4)),
        ("y = STFT (w, n, , x)", "int64 x, float[1,9,1] w, int64 n", 1, 4, (1, 4)),
        (
            "y = Loop (x, , w) <body = b (int64 n, bool c, float s) => (bool co, float so) { co = Identity (c)"
            " so = Neg (s) }>",
            "int64 x, float w",
            0,
            4,
            (0, 4),
        ),
        ("y = f.Expand (w, x)", "int64[1] x, float[1] w", -math.inf, math.inf, None),
        ("y = Expand (x)", "int64[1] x", -math.inf, math.inf, None),
    ],
)
def test_bounds_of_inputs(body: str, inputs: str, low: float, high: float, sizes: tuple[float, float] | None) -> None:
    found = needs(body, inputs, "float[N] y")
    if sizes is not None:
        found.narrow_sizes()
    assert (found.low, found.high, found.sizes) == (low, high, sizes)


@pytest.mark.parametrize(
    ("body", "nonzero"),
    [
        ("y = Div (i, x)", True), ("y = Div (x, i)", False), ("y = Mod (i, x)", True), ("y = Add (i, x)", False),
        ("a = Identity (x) y = Div (i, a)", True),
        ("a = Cast <to = 7> (x) y = Div (i, a)", False),
    ],
)  # fmt: skip
def test_divisors(body: str, nonzero: bool) -> None:
    assert needs(body, "int64[N] x", "int64[N] y").nonzero is nonzero


def test_needs_are_narrowed_as_long_as_a_number_remains() -> None:
    found = Needs()
    for low, high, expected in ((0, 9, (0, 9)), (-3, 4, (0, 4)), (5, 7, (0, 4)), (4, 4, (4, 4)), (3, 5, (4, 4))):
        found.narrow(low, high)
        assert (found.low, found.high) == expected
    counted = Needs(sizes=(1, 4), wanted=dict.fromkeys((6.0, 99.0, 100.0)))
    counted.narrow_sizes()
    assert (counted.low, counted.high) == (1, 100)


def test_an_index_out_of_range_narrows_the_input() -> None:
    text = (
        """<ir_version: 10, opset_import: ["" : 21]> g (int64[N] x, float[M] w) => (float[N] y) { y = Gather (w, x) }"""
    )
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    reach = Reach(model)
    error: Any = RangeError("out of range")
    assert not reach.repair(error)
    error.node, error.bound = model.graph.node(0), (1, -3, 2)
    assert reach.repair(error)
    assert (reach.needs["x"].low, reach.needs["x"].high) == (-3, 2)
    assert not reach.repair(error)
