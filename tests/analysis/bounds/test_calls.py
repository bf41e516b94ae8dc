"""Calls of functions of the model, in the opset of the function."""

from __future__ import annotations

import onnx
import onnx.parser

from castsmith import bounds


def test_a_call_that_leaves_out_outputs() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { y = f.both (x) }
        <domain: "f", opset_import: ["" : 21]> both (a) => (r, s) { r = Relu (a) s = Neg (a) }"""
    assert bounds(onnx.parser.parse_model(text))["y"].low == 0


def test_functions_of_another_opset() -> None:
    """The function is computed by its own: before opset 13 a softmax along axis 1 covers all axes behind it."""
    text = """<ir_version: 10, opset_import: ["" : 13, "f" : 1]> m (float[2,2] x) => (float[2,2] y) { y = f.h (x) }
        <domain: "f", opset_import: ["" : %d]> h (a) => (r) { r = ReduceMax <axes = [0]> (a) }"""
    assert bounds(onnx.parser.parse_model(text % 13), ranges={"x": (-1, 2)})["y"].high == 2
    text = text.replace("ReduceMax <axes = [0]> (a)", "Clip <min = 0.0> (a)")
    assert bounds(onnx.parser.parse_model(text % 6), ranges={"x": (-1, 2)})["y"].low == 0


_CALL = """<ir_version: 10, opset_import: ["" : 21, "f" : 1, "k" : 1]> g (float[2] x, bool c) => (y) {{ y = {} }}
    <domain: "f", opset_import: ["" : 21, "k" : 1]> neg (a) => (r) {{ t = Neg (a) u = k.Op (t) r = Tanh (t) }}
    <domain: "f", opset_import: ["" : 21, "f" : 1]> outer (p, q) => (s) {{ v = f.neg (p) s = Add (v, q) }}
    <domain: "f", opset_import: ["" : 21]> scaled <by> (e) => (h) {{
        n = LeakyRelu <alpha : float = @by> (e) h = Neg (n) }}
    <domain: "f", opset_import: ["" : 21]> stretched <by> (b) => (m) {{
        k = Constant <value_float = 0.5> () j = Cast <to = 3> (b) m = DequantizeLinear <axis : int = @by> (j, k) }}
    <domain: "f", opset_import: ["" : 21]> held <by> () => (w) {{ w = Constant <value_float : float = @by> () }}"""

_BRANCHES = """If (c) <then_branch = d () => (i) { i = f.neg (x) },
    else_branch = l () => (o) { o = f.scaled <by = 2.0> (x) }>"""


def test_what_is_said_in_functions() -> None:
    for call, expected in (
        ("f.neg (x)", {"y": (-0.964, 0.762), "t": (-2, 1), "r": (-0.964, 0.762)}),
        ("f.outer (x, x)", {"y": (-1.964, 2.762), "t": (-2, 1), "v": (-0.964, 0.762), "s": (-1.964, 2.762)}),
        # an operand that is left out: nothing is known, in the function that it calls neither
        ("f.outer (x)", {"y": None, "s": None, "v": None, "t": None, "r": None}),
        ("f.scaled <by = 0.5> (x)", {"y": (-2, 0.5), "n": (-0.5, 2)}),
        ("f.scaled <by = 2.0> (x)", {"y": (-2, 2), "n": (-2, 2)}),
        ("f.scaled (x)", {"y": (-2, 0.01), "n": (-0.01, 2)}),
        ("f.held <by = 3.0> ()", {"y": (3, 3), "w": (3, 3)}),
        ("f.stretched <by = 0> (x)", {"y": (-0.5, 1), "m": (-0.5, 1)}),
        (_BRANCHES, {"y": (-2, 2), "i": (-0.964, 0.762), "o": (-2, 2), "n": (-2, 2), "t": (-2, 1)}),
    ):
        model = onnx.parser.parse_model(_CALL.format(call))
        found = {name.rpartition("/")[2]: bound for name, bound in bounds(model, ranges={"x": (-1, 2)}).found.items()}
        for name, ends in expected.items():
            bound = found[name]
            if ends is None:
                assert bound.how == "unknown", (call, name)
                assert bound.may_be_nan, (call, name)
            else:
                assert bound.how == "proven", (call, name)
                assert (round(bound.low, 3), round(bound.high, 3)) == ends, (call, name)
