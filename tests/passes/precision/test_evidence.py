"""What is known of a value, and which values do not fit the precision by it."""

from __future__ import annotations

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.passes.precision.evidence import Evidence, Known, keys_of

HALF, BRAIN = DataType.FLOAT16, DataType.BFLOAT16


def parsed(body: str, more: str = "") -> onnx_ir.Model:
    text = f"""<ir_version: 8, opset_import: ["": 17, "loc": 1, "com.acme": 1]>
        g (float[3] x, bool c) => (float[3] y) <float[3] w = {{1, 1, 1}}, int64 n = {{1}}> {{ {body} }} {more}"""
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def evidence(model: onnx_ir.Model, to: DataType, known: dict[str, Known]) -> Evidence:
    return Evidence(model, to, known.get)


@pytest.mark.parametrize(
    ("low", "high", "to", "why"),
    [
        (-65519.0, 0.0, HALF, ""),
        (-65520.0, 0.0, HALF, "x reaches 65520 (stated), beyond float16"),
        (0.0, 1e7, BRAIN, ""),
        (0.0, 0.0, HALF, ""),
        (0.0, 2.0**-14, HALF, ""),
        (-(2.0**-15), 0.0, HALF, "x stays below 3.05176e-05 (stated), where float16 loses bits"),
        (0.0, 2.0**-15, BRAIN, ""),
    ],
)
def test_a_value_that_does_not_fit(low: float, high: float, to: DataType, why: str) -> None:
    model = parsed("y = Neg (x)")
    assert evidence(model, to, {"x": Known(low, high)}).misfit(model.graph.inputs[0]) == why
    assert evidence(model, to, {"x": Known(low, high, "unknown")}).misfit(model.graph.inputs[0]) == ""


def test_what_is_proven_to_be_zero_but_for_rounding_fits() -> None:
    model = parsed("y = Neg (x)")
    for high, how, fits in ((2.0**-127, "proven", True), (2.0**-126, "proven", False), (2.0**-127, "stated", False)):
        found = evidence(model, HALF, {"x": Known(0, high, how)}).misfit(model.graph.inputs[0])
        assert (found == "") == fits


BODIES = {
    "arithmetic": ("y = Add (x, w)", "", "x y"),
    "a movement": ("a = Identity (x) y = Reshape (a, n)", "", "x a y"),
    "another domain": ("a = com.acme.Add (x, w) b = com.acme.Identity (x) y = Neg (w)", "", "x"),
    "what is known of the shape": ("a = Shape (x) y = Expand (w, a)", "", "x"),
    "what may be small": ("a = Exp (x) b = Sigmoid (x) y = Neg (w)", "", "x"),
    "its indices": ("i = Cast <to = 7> (x) y = Gather (w, i)", "", "x i"),
    "If": ("y = If (c) <then_branch = t () => (float[3] r) { r = Neg (x) }, else_branch = e () => (float[3] s)"
           " { s = Tanh (w) }>", "", "x r y"),
    "a state of a Loop": ('y = Loop (n, "", x) <body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t)'
                          " { e = Identity (d) t = Identity (s) }>", "", "x s t y"),
    "a Scan": ("z, y = Scan (w, x) <num_scan_inputs = 1, body = b (float[3] s, float v) => (float[3] t, float u)"
               " { t = Identity (s) u = Neg (v) }>", "", "x v u y"),
    "a function": ("y = loc.F (w, x)", '<domain: "loc", opset_import: ["": 17]> F (p, q) => (r) { r = Neg (q) }',
                   "x q r y"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "more", "beyond"), BODIES.values(), ids=BODIES)
def test_what_gets_the_elements_does_not_fit_either(body: str, more: str, beyond: str) -> None:
    model = parsed(body, more)
    found = evidence(model, HALF, {"x": Known(0, 1e6)}).beyond(lambda _: True)
    assert {value.name for value in found} == set(beyond.split())
    assert set(found.values()) == {"x reaches 1e+06 (stated), beyond float16"}
    assert not evidence(model, HALF, {"x": Known(0, 1e6)}).beyond(lambda value: value.name != "x")
    assert not evidence(model, HALF, {"w": Known(0, 1e6)}).beyond(lambda _: True)  # a constant
    assert not Evidence(model, HALF, None).beyond(lambda _: True)
    apart = evidence(model, HALF, {"x": Known(0, 1e6)}).beyond(lambda value: value.name != "y")  # y has another type
    assert {value.name for value in apart} == set(beyond.split()) - {"y"}
    fits = {key: Known(0, 1) for value, key in keys_of(model).items() if value.name == "y"}
    found = evidence(model, HALF, {"x": Known(0, 1e6), **fits}).beyond(lambda _: True)
    assert {value.name for value in found} == set(beyond.split()) - {"y"}


def test_which_operators_give_results_as_large_as_their_operands() -> None:
    passing = [
        *("ReduceMax (q)", "ReduceMin (q)", "ReduceMean (q)", "GlobalAveragePool (q)", "GlobalMaxPool (q)", "Neg (q)"),
        *("MaxPool <kernel_shape = [1]> (q)", "AveragePool <kernel_shape = [1]> (q)", "ReduceSum (q)", "Abs (q)"),
        *("Sub (q, q)", "Mul (q, q)", "Div (q, q)", "Cast <to = 11> (q)", "Transpose (q)", "Concat <axis = 0> (q, q)"),
    ]
    for node in (*passing, *("Sigmoid (q)", "Tanh (q)", "Exp (q)", "Erf (q)", "Shape (q)", "Softmax (q)")):
        model = onnx_ir.from_proto(
            onnx.parser.parse_model(
                f'<ir_version: 8, opset_import: ["": 17]> g (float[1,1,3] q) => (y) {{ y = {node} }}'
            )
        )
        found = evidence(model, HALF, {"q": Known(0, 1e6)}).beyond(lambda _: True)
        assert (model.graph.outputs[0] in found) == (node in passing), node


def test_a_value_of_a_function_is_known_by_the_name_of_the_function() -> None:
    model = parsed("y = loc.F (w, x)", BODIES["a function"][1])
    inside = {key for value, key in keys_of(model).items() if (value.name or "-") in "pqr"}
    assert inside == {"loc::F/p", "loc::F/q", "loc::F/r"}
    branches = "r = If (q) <then_branch = a () => (s) { s = Neg (p) }, else_branch = b () => (t) { t = Abs (p) }>"
    model = parsed("y = loc.F (x, c)", f'<domain: "loc", opset_import: ["": 17]> F (p, q) => (r) {{ {branches} }}')
    assert {"loc::F/r", "loc::F/s", "loc::F/t"} <= set(keys_of(model).values())


_MOVED = [
    " ".join(f"m{step} = Identity ({f'm{step - 1}' if step else 'a'})" for step in range(count)) for count in (7, 8)
]
"""Movements in a row: seven, and one more, after which nothing is followed."""


@pytest.mark.parametrize(
    ("body", "sums", "beyond"),
    [
        ("a = Mul (x, w) y = Add (a, w)", 1.0, "x"),
        ("a = Mul (x, w) b = Reshape (a, n) y = Sub (w, b)", 1.0, "x"),
        ("a = Mul (x, w) y = Add (a, w)", 2.0**-14, "x"),
        ("a = Mul (x, w) y = Add (a, w)", 2.0**-15, "x a y"),
        ("a = Mul (x, w) y = Add (a, w)", 1e-6, "x a y"),
        ("a = Mul (x, w) y = Add (a, w)", None, "x"),
        ("a = Mul (x, w) y = com.acme.Add (a, w)", 1.0, "x a"),
        ("a = Mul (x, w) y = Neg (w)", 1.0, "x a"),  # nothing reads it
        ("a = Mul (x, w) p, q = Split (a) y = Add (p, q)", 1.0, "x"),
        ("a = Mul (x, w) p, q = Split (a) r = Neg (q) y = Add (p, w)", 1.0, "x a p q r"),
        (f"a = Mul (x, w) {_MOVED[0]} y = Add (m6, w)", 1.0, "x"),
        (f"a = Mul (x, w) {_MOVED[1]} y = Add (m7, w)", 1.0, "x a m0 m1 m2 m3 m4 m5 m6 m7"),
        ("a = Mul (x, w) y = Div (a, w)", 1.0, "x a"),
        ("a = Mul (x, w) b = Add (a, w) y = Mul (a, b)", 1.0, "x a"),
    ],
)
def test_what_vanishes_beside_what_it_is_added_to_fits(body: str, sums: float | None, beyond: str) -> None:
    """The sum is rounded by as much, unless it vanishes too, or there is another user."""
    model = parsed(body)
    known = {"x": Known(0, 1e-6), "a": Known(0, 1e-6)}
    known |= {} if sums is None else {"b": Known(0, sums), "y": Known(0, sums)}
    if "b = Reshape" in body:
        known["b"] = known["a"]
    assert {value.name for value in evidence(model, HALF, known).beyond(lambda _: True)} == set(beyond.split())


def test_a_small_output_does_not_vanish_in_a_sum() -> None:
    model = parsed("a = Mul (x, w) y = Add (a, w)")
    model.graph.outputs.append(model.graph.node(0).outputs[0])
    known: dict[str, Known] = {"x": Known(0, 1), "a": Known(0, 1e-6), "y": Known(0, 1)}
    assert {value.name for value in evidence(model, HALF, known).beyond(lambda _: True)} == {"a"}
