"""Undefined elements through If and Loop, and the attributes of Scan."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from tests.verification.evaluate.test_evaluator import HEAD, NUMBERS, F, T, run, undefined


def test_an_undefined_condition_makes_all_undefined() -> None:
    branches = (
        "then_branch = t () => (int8[4] p) { p = Identity (n) }, else_branch = e () => (int8[4] q) { q = Neg (n) }"
    )
    for place, marks in ((0, []), (1, [T] * 4)):
        body = f"""i = Constant <value_int = {place}> () e = Gather (u, i) k = Cast <to = 9> (e)
            y = If (k) <{branches}>"""
        found = undefined(body, "int8[4] y", n=NUMBERS)
        assert found == marks


LOOP = """y, z = Loop (m, , n) <body = b (int64 i, bool k, int8[4] a) => (bool ko, int8[4] r, int8 s) {
    ko = Identity (k) r = Add (a, u) s = Gather (u, i) }>"""


def test_a_loop_keeps_what_each_turn_leaves_undefined() -> None:
    assert undefined(LOOP, "int8[4] y, int8[N] z", n=NUMBERS, m=np.array(2)) == [F, T, F, T]
    text = LOOP.replace("y, z =", "z, y =")
    assert undefined(text, "int8[N] y, int8[4] z", n=NUMBERS, m=np.array(3)) == [F, T, F]
    assert undefined(text, "int8[N] y, int8[4] z", n=NUMBERS, m=np.array(1)) == []
    assert undefined(LOOP, "int8[4] y, int8[N] z", n=NUMBERS, m=np.array(0)) == []


SCAN = """{head} g (float[2] s, float[3,2] x) => (float[2] y, float[3,2] z) {{
  y, z = Scan <num_scan_inputs = 1{more}, body = b (float[2] a, float[N] e) => (float[2] r, float[2] q) {{
    t = ReduceSum <keepdims = 0> (e) r = Add (a, t) q = Identity (r) }}> (s, x) }}"""

ROWS = np.array([[1, 2], [10, 20], [100, 200]], np.float32)


@pytest.mark.parametrize(
    ("more", "last", "stack"),
    [
        ("", 333, [[3, 3], [33, 33], [333, 333]]),
        (", scan_input_directions = [1]", 333, [[300, 300], [330, 330], [333, 333]]),
        (", scan_output_directions = [1]", 333, [[333, 333], [33, 33], [3, 3]]),
        (", scan_input_axes = [1]", 333, [[111, 111], [333, 333]]),
        (", scan_output_axes = [1]", 333, [[3, 33, 333], [3, 33, 333]]),
        (", scan_output_axes = [-1]", 333, [[3, 33, 333], [3, 33, 333]]),
    ],
)
def test_the_attributes_of_scan(more: str, last: float, stack: list[list[float]]) -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(SCAN.format(head=HEAD, more=more)))
    found = run(model, {"s": np.zeros(2, np.float32), "x": ROWS})
    assert found["y"].array.tolist() == [last, last]
    assert found["z"].array.tolist() == stack
    empty = run(model, {"s": np.ones(2, np.float32), "x": np.zeros((0, 2), np.float32)}) if not more else found
    assert more or (empty["y"].array.tolist(), empty["z"].array.shape) == ([1, 1], (0, 2))


SCAN_8 = """<ir_version: 5, opset_import: ["" : 8]>
g (int64[2] n, float[2,1] s, float[2,3,1] x) => (float[2,1] y, float[2,3,1] z) {
  y, z = Scan <num_scan_inputs = 1DIRECTIONS, body = b (float[1] a, float[1] e) => (float[1] r, float[1] q) {
    r = Add (a, e) q = Identity (r) }> (n, s, x) }"""


@pytest.mark.parametrize(
    ("directions", "expected"),
    [("", [[1, 3, 6], [10, 30, 0]]), (", directions = [1]", [[3, 5, 6], [20, 30, 0]])],
)
def test_scan_of_opset_8_over_sequences_of_a_batch(directions: str, expected: list[list[float]]) -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(SCAN_8.replace("DIRECTIONS", directions)))
    x = np.array([[1, 2, 3], [10, 20, 40]], np.float32)[:, :, None]
    found = run(model, {"n": np.array([3, 2]), "s": np.zeros((2, 1), np.float32), "x": x})
    assert found["z"].array[:, :, 0].tolist() == expected
    assert found["y"].array.tolist() == [[6], [30]]


def test_scan_over_texts() -> None:
    text = f"""{HEAD} g (string[2] x) => (string[2] y) {{
        y = Scan <num_scan_inputs = 1, body = b (string e) => (string r) {{ r = StringConcat (e, e) }}> (x) }}"""
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"x": np.array(["a", "b"], object)})
    assert found["y"].array.tolist() == ["aa", "bb"]
