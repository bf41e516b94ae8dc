"""Undefined elements through If and Loop, and the attributes of Scan."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
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


@pytest.mark.parametrize(("place", "marks"), [(0, []), (1, []), (2, [F, T, F, T])])
def test_members_of_a_sequence_keep_what_they_leave_undefined(place: int, marks: list[bool]) -> None:
    """The third operand of SequenceInsert is a place, that of SequenceConstruct a member."""
    body = f"i = Constant <value_int = {place}> () q = SequenceConstruct (n, n, u) y = SequenceAt (q, i)"
    assert undefined(body, n=NUMBERS) == marks


def test_an_empty_optional_of_an_undefined_condition() -> None:
    body = """i = Constant <value_int = 1> () e = Gather (u, i) k = Cast <to = 9> (e)
        o = If (k) <then_branch = t () => (a) { a = Optional <type = int8> () },
        else_branch = f () => (b) { b = Optional <type = int8> () }> y = OptionalHasElement (o)"""
    assert undefined(body, "bool y") == []


def test_a_state_of_text_is_kept() -> None:
    text = f"""{HEAD} g (int64 m, string x) => (string y) {{ t = Constant <value = bool {{1}}> ()
        y = Loop (m, t, x) <body = b (int64 i, bool k, string a) => (bool ko, string r) {{
        ko = Identity (k) r = StringConcat (a, a) }}> }}"""
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"m": np.array(2), "x": np.array("a", object)})
    assert found["y"].array.tolist() == "aaaa"


def test_a_split_along_another_axis() -> None:
    text = f"""{HEAD} g (float[2, 3] x) => (float[2, N] y) {{ i = Constant <value_int = 1> ()
        p = Constant <value_ints = [1, 2]> () q = SplitToSequence <axis = 1> (x, p) y = SequenceAt (q, i) }}"""
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32)})
    assert found["y"].array.tolist() == [[2, 3], [5, 6]]


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


LOOPED = """y, z = Loop (m, c, s) <body = b (int64 i, bool k, int8 a) => (bool ko, int8 r, int64 q) {
    o = Constant <value = int8 {1}> () three = Constant <value_int = 3> () ko = Less (i, three) r = Add (a, o)
    q = Identity (i) }>"""


@pytest.mark.parametrize(
    ("trips", "condition", "turns"),
    [
        (0, True, 0),
        (1, True, 1),
        (2, True, 2),
        (9, True, 4),
        (9, False, 0),
        (None, True, 4),
        (2, None, 2),
        (9, None, 4),
    ],
)
def test_the_turns_of_a_loop(trips: int | None, condition: bool | None, turns: int) -> None:
    """It ends after its trips, or when its condition is false: an operand that is left out does not end it."""
    text = f"{HEAD} g (int64 m, bool c, int8 s) => (int8 y, int64[N] z) {{ {LOOPED} }}"
    text = text.replace("(m, c, s) <", f"({'' if trips is None else 'm'}, {'' if condition is None else 'c'}, s) <")
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    evaluator = Evaluator(model, PromotionRules(), Engine("reference"))
    feeds = {"m": np.array(trips or 0), "c": np.array(bool(condition)), "s": np.array(5, np.int8)}
    found: dict[str, Any] = dict(evaluator.run(feeds))
    assert found["y"].array.tolist() == 5 + turns
    assert (found["z"].array.tolist(), found["z"].array.dtype) == ([*range(turns)], np.int64)
    loop = next(node for node in model.graph if node.op_type == "Loop")
    assert evaluator.coverage.ways[(), loop] == {str(min(turns, 2))}


@pytest.mark.parametrize("place", [0, 1])
def test_undefined_trips_and_conditions_make_all_undefined(place: int) -> None:
    """The trips, the first condition, and that of a turn."""
    begin = f"at = Constant <value_int = {place}> () e = Gather (u, at) k = Cast <to = 9> (e) w = Cast <to = 7> (k)"
    body = "<body = b (int64 i, bool q, int8[4] a) => (bool ko, int8[4] r, int8 s) {"
    body += " ko = KO r = Neg (a) s = Gather (a, i) }>"
    for operands, again in (
        ("w, t, n", "Identity (q)"),
        ("w, , n", "Identity (q)"),
        ("m, k, n", "Identity (q)"),
        ("m, t, n", "Identity (k)"),
    ):
        line = f"{begin} t = Constant <value = bool {{1}}> () y, z = Loop ({operands}) {body.replace('KO', again)}"
        for text, more in ((line, ""), (line.replace("y, z =", "z, y ="), "z")):
            outputs = "int8[N] y, int8[4] z" if more else "int8[4] y, int8[N] z"
            marks = undefined(text, outputs, n=NUMBERS, m=np.array(2))
            assert (all(marks) and bool(marks)) is (place == 1), (operands, again, marks)


MIXED = """<ir_version: 10, opset_import: ["" : 21]> g (bool c, float16[2] x, float[2] z)
    => (y) { y = If (c) <then_branch = t () => (float16[2] a) { a = Neg (x) },
    else_branch = e () => (float[2] b) { b = OP }> }"""


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_of_two_types_have_their_common_type(chosen: bool) -> None:
    """And the taken branch its own if the other does not run."""
    feeds = {"c": np.array(chosen), "x": np.array([1, 2], np.float16), "z": np.array([3, 4], np.float32)}
    for op, dtypes in (("Abs (z)", ["float32"] * 2), ("Nothing (z)", ["float16"])):
        model = onnx_ir.from_proto(onnx.parser.parse_model(MIXED.replace("OP", op)))
        if op.startswith("Nothing") and not chosen:
            continue
        result: Any = Evaluator(model, PromotionRules(promote_unsafe=True), Engine("reference")).run(feeds)["y"]
        assert [result.array.dtype.name] == dtypes[:1]
        assert result.array.tolist() == ([-1, -2] if chosen else [3, 4])


STATES = """<ir_version: 10, opset_import: ["" : 21]> g (int64 m, float16[2] x, float[2] z) => (y, w) {
    t = Constant <value = bool {1}> () y, w = Loop (m, t, x) <body = b (int64 i, bool k, v) => (bool ko, r, q) {
    ko = Identity (k) r = Add (v, z) q = Identity (v) }> }"""


def test_a_state_that_is_widened_is_wide_from_the_first_turn() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(STATES))
    x, z = np.array([1, 2], np.float16), np.array([0.5, 2**-20], np.float32)
    for turns in (0, 1, 3):
        evaluator = Evaluator(model, PromotionRules(promote_unsafe=True), Engine("reference"))
        found: dict[str, Any] = dict(evaluator.run({"m": np.array(turns), "x": x, "z": z}))
        assert (found["y"].array.dtype, found["w"].array.dtype) == (np.float32, np.float32)
        assert found["y"].array.tolist() == [1 + turns * 0.5, 2 + turns * 2**-20]
        assert found["w"].array.shape == (turns, 2)


TWO_SCANS = """{head} g (float s, float[3] p, float[2, 3] q) => (float t, float[3] u, float[N, M] v) {{
    t, u, v = Scan <num_scan_inputs = 2{more}, body = b (float a, float e, float[2] f)
    => (float r, float h, float[2] k) {{
    r = Add (a, e) h = Identity (r) k = Mul (f, e) }}> (s, p, q) }}"""


def test_each_scanned_input_and_output_has_its_own_entry() -> None:
    """The second one is scanned along its last axis, and stacked along it backwards."""
    more = ", scan_input_axes = [0, 1], scan_input_directions = [0, 1], scan_output_axes = [0, 1]"
    text = TWO_SCANS.format(head=HEAD, more=f"{more}, scan_output_directions = [0, 1]")
    q = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    given = {"s": np.array(100, np.float32), "p": np.array([1, 10, 1000], np.float32), "q": q}
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), given)
    assert found["t"].array.tolist() == 1111
    assert found["u"].array.tolist() == [101, 111, 1111]
    assert found["v"].array.tolist() == [[1000, 20, 3], [4000, 50, 6]]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("q = SequenceConstruct (x, x) y = Loop (n, t, q) <body = b (int64 i, bool k, v) => (k2, w) {"
         " k2 = Identity (v) w = Identity (v) }>", "Loop needs a tensor, but its operand is not one."),
        ("y = SequenceMap (x) <body = b (float a) => (float r) { r = Neg (a) }>", "SequenceMap needs a sequence."),
        ("z, y = Loop (n, t, x) <body = b (int64 i, bool k, v) => (bool k2, w, s) { k2 = Identity (k) w = Identity (v)"
         " o = Constant <value_int = 1> () e = Constant <value_int = 0> () s = Range (e, i, o) }>",
         "tensors of different shapes cannot be joined ("),
        ("y = Loop (n, t, missing) <body = b (int64 i, bool k, v) => (bool k2, w) { k2 = Identity (k)"
         " w = Identity (x) }>", "Loop has a state without an initial value, which is not supported."),
        ("e = Optional <type = float> () y = OptionalGetElement (missing)",
         "OptionalGetElement gets an empty optional."),
        ("p = Constant <value_ints = [1, 2]> () q = SplitToSequence (x, p) y = ConcatFromSequence <axis = 0> (q)",
         "SplitToSequence cannot split 2 elements into [1, 2]."),
        ("p = Constant <value_int = 0> () q = SplitToSequence (x, p) y = ConcatFromSequence <axis = 0> (q)",
         "SplitToSequence cannot split 2 elements into 0."),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, text: str) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g (int64 n, bool t, float[2] x) => (y) {{ {body} }}")
    for node in proto.graph.node:
        node.input[:] = ["" if name == "missing" else name for name in node.input]
    with pytest.raises(EngineError, match=re.escape(text)):
        run(onnx_ir.from_proto(proto), {"n": np.array(2), "t": np.array(True), "x": np.zeros(2, np.float32)})
