"""Places that narrow-types narrows, beside those that it leaves: stretches of moves, sources of doubles, limits."""

from __future__ import annotations

from typing import Any

import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.targets.target import Target

LACKS = Target("t", "", newest_opset=21, newest_ir_version=10, kernels={DataType.INT32: {"Clip": 1}},
               probed=frozenset({"Add", "Clip"}))  # fmt: skip
X = "(int64[4] x) => (int64[4] z) <int64 low = {0}, int64 high = {8}, int64 two = {2}>"
LONG, DOUBLE = {"narrow": "int64"}, {"narrow": "double"}
LOOSE = "{}, int64, may hold values that are not in int32"
LOOSE_DOUBLE = "{}, double, may hold values that are not in float"
OF_X = ("Clip", LOOSE.format("x"), "2147483648")
SIZES = "(float[a] x) => (int64[1] z) <int64[1] two = {2}> { k = Shape (x) z = Mul (k, two) }"
HELD = """(int64[4] x) => (int64[4] z) <int64 l = {{{}}}, int64 h = {{{}}}, int64 n = {{-1}}> {{
    k = Clip (x, l, h) z = Mul (k, n) }}"""
OF_INTEGERS = """(int64[4] x) => (float[4] z) <int64 l = {{0}}, int64 h = {{{}}}> {{
    k = Clip (x, l, h) s = Cast <to = 11> (k) t = Neg (s) z = Cast <to = 1> (t) }}"""
Row = tuple[str, dict[str, Any], list[str], list[tuple[str, str, str]]]

ROWS: dict[str, Row] = {
    "nothing asked": (f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}", {}, [], []),
    "a sum of small numbers": (f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}", LONG, ["Add"], [OF_X]),
    "in a branch": (
        """(bool c, int64[4] x) => (int64[4] z) <int64 low = {0}, int64 high = {8}> { z = If (c) <
            then_branch = t () => (int64[4] p) { k = Clip (x, low, high) p = Add (k, low) },
            else_branch = e () => (int64[4] q) { q = Identity (x) }> }""", LONG, ["Add"], [OF_X],
    ),
    "no kernel of the narrow type": (
        f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}", {**LONG, "target": LACKS}, [],
        [OF_X, ("Add", "the target has no kernel of Add for int32", "")],
    ),
    "of the interface": (
        f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}", {**LONG, "narrow_interface": True}, ["Clip", "Add"], [],
    ),
    "another type asked": (f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}", DOUBLE, [], []),
    # Stretches of mere moves.
    "moves between wide ends": (f"{X} {{ k = Clip (x, low, high) t = Transpose (k) z = Transpose (t) }}", LONG, [],
                                [OF_X]),
    "moves up to a computation": (
        f"{X} {{ k = Clip (x, low, high) t = Transpose (k) u = Transpose (t) z = Add (u, two) }}", LONG,
        ["Transpose", "Transpose", "Add"], [OF_X],
    ),
    "moves after a cast from a narrow type": (
        "(int8[4] x) => (int64[4] z) { s = Cast <to = 7> (x) z = Transpose (s) }", LONG, ["Transpose"], [],
    ),
    "moves after a cast from a wide type": (
        "(uint64[4] x) => (int64[4] z) <int64 l = {0}> { s = Cast <to = 7> (x) m = Min (s, l) n = Max (m, l)"
        " z = Transpose (n) }",
        LONG, [], [("Min", LOOSE.format("s"), "2147483648"), ("Max", LOOSE.format("m"), "-2147483649")],
    ),
    "moves before a cast": (
        f"{X.replace('int64[4] z', 'int32[4] z')} {{"
        " k = Clip (x, low, high) t = Transpose (k) z = Cast <to = 6> (t) }",
        LONG,
        ["Transpose"], [OF_X],
    ),
    "moves before a cast and an output": (
        f"{X.replace('int64[4] z', 'int32[4] z, int64[4] t')} {{"
        " k = Clip (x, low, high) t = Transpose (k) z = Cast <to = 6> (t) }",
        LONG, [], [OF_X],
    ),
    "moves before a cast and a wide operator": (
        "(int64[4] x) => (int32[4] z, float[a,b,c,d] y) <int64 low = {1}, int64 high = {8}> {"
        " k = Clip (x, low, high) t = Transpose (k) z = Cast <to = 6> (t) y = ConstantOfShape (t) }", LONG, [], [OF_X],
    ),
    "moves of a constant": (
        "() => (int64[2] z) <int64[2] w = {1, 2}> { z = Transpose (w) }", LONG, ["Transpose"], [],
    ),
    "moves in a row after a cast from a narrow type": (
        "(int8[4] x) => (int64[4] z) { s = Cast <to = 7> (x) t = Transpose (s) z = Transpose (t) }", LONG,
        ["Transpose", "Transpose"], [],
    ),
    "moves in a row before a cast": (
        f"{X.replace('int64[4] z', 'int32[4] z')} {{"
        " k = Clip (x, low, high) t = Transpose (k) u = Transpose (t) z = Cast <to = 6> (u) }", LONG,
        ["Transpose", "Transpose"], [OF_X],
    ),
    "moves that end in an index": (
        "(float[9] d, int64[4] x) => (int64[4] t, float[4] z) <int64 low = {0}, int64 high = {8}> {"
        " k = Clip (x, low, high) t = Transpose (k) z = Gather (d, t) }", LONG, ["Transpose", "Gather"], [OF_X],
    ),
    "a function with the name of an operator": (
        f"{X} {{ k = Clip (x, low, high) z = Add (k, two) }}"
        ' <domain: "", opset_import: ["" : 21]> Add (a, b) => (c) { c = Sub (a, b) }', LONG, [], [OF_X],
    ),
    # Exact limits.
    "a size up to a limit": (SIZES, {**LONG, "largest_dim": 2**30 - 1}, ["Mul"], []),
    "a size beyond it": (SIZES, {**LONG, "largest_dim": 2**30}, [], [("Mul", LOOSE.format("z"), "2147483648")]),
    "the largest numbers": (HELD.format(-(2**31) + 1, 2**31 - 1), LONG, ["Mul"], [OF_X]),
    "the negative of the least": (
        HELD.format(-(2**31), 2**31 - 1), LONG, [], [OF_X, ("Mul", LOOSE.format("z"), "2147483648")],
    ),
    "beyond the least": (
        HELD.format(-(2**31) - 1, 5), LONG, [],
        [("Clip", LOOSE.format("x"), "2147483648"), ("Mul", LOOSE.format("k"), "-2147483649")],
    ),
    # Doubles.
    "floats": (
        "(float[4] x) => (float[4] z) { s = Cast <to = 11> (x) t = Neg (s) z = Cast <to = 1> (t) }",
        DOUBLE, ["Neg"], [],
    ),
    "text": (
        "(string[4] x) => (float[4] z) { s = Cast <to = 11> (x) t = Neg (s) z = Cast <to = 1> (t) }", DOUBLE, [],
        [("Neg", LOOSE_DOUBLE.format("s"), "1 + 2**-30")],
    ),
    "integers of 16 bits": (
        "(int16[4] x) => (float[4] z) { s = Cast <to = 11> (x) t = Neg (s) z = Cast <to = 1> (t) }",
        DOUBLE, ["Neg"], [],
    ),
    "integers of 32 bits": (
        "(int32[4] x) => (float[4] z) { s = Cast <to = 11> (x) t = Neg (s) z = Cast <to = 1> (t) }", DOUBLE, [],
        [("Neg", LOOSE_DOUBLE.format("s"), "1 + 2**-30")],
    ),
    "integers up to 2**24": (OF_INTEGERS.format(2**24), DOUBLE, ["Neg"], []),
    "integers beyond 2**24": (
        OF_INTEGERS.format(2**24 + 1), DOUBLE, [], [("Neg", LOOSE_DOUBLE.format("s"), "1 + 2**-30")],
    ),
    "a computation": (
        "(float[4] x) => (float[4] z) { s = Cast <to = 11> (x) t = Sqrt (s) z = Cast <to = 1> (t) }", DOUBLE, [],
        [("Sqrt", "Sqrt of double may give different bits in float", "1 + 2**-30")],
    ),
    "constants": (
        "(float[4] x) => (float[4] z, float[4] w) <double h = {0.5}, double t = {0.1}> { s = Cast <to = 11> (x)"
        " a = Max (s, h) z = Cast <to = 1> (a) b = Min (s, t) w = Cast <to = 1> (b) }", DOUBLE, ["Max"],
        [("Min", LOOSE_DOUBLE.format("t"), "0.1")],
    ),
    "a foreign operator with the name of a move": (
        "(float[4] x) => (float[4] z) <double[4] t> { s = Cast <to = 11> (x) t = com.acme.Transpose (s)"
        " u = Neg (t) z = Cast <to = 1> (u) }", DOUBLE, [], [("Neg", LOOSE_DOUBLE.format("t"), "1 + 2**-30")],
    ),
    "both types": (
        "(float[4] x, int64[4] i) => (float[4] z, int64[4] y) <int64 l = {0}, int64 h = {9}> { s = Cast <to = 11> (x)"
        " t = Neg (s) z = Cast <to = 1> (t) k = Clip (i, l, h) y = Neg (k) }", {"narrow": ["int64", "double"]},
        ["Neg", "Neg"], [("Clip", LOOSE.format("i"), "2147483648")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_place_is_narrowed_or_refused_with_a_number(name: str) -> None:
    body, options, narrowed, refused = ROWS[name]
    text = f'<ir_version: 10, opset_import: ["" : 21, "com.acme" : 1]> g {body}'
    result = castsmith.optimize(onnx.parser.parse_model(text), passes=["narrow-types"], **options)
    narrow = (DataType.INT32, DataType.FLOAT)
    made = [node.op_type for node in result.model.graph.all_nodes()
            if node.op_type != "Cast" and node.outputs[0].dtype in narrow and (node.name or "").startswith("castsmith_")
            ]  # fmt: skip
    assert made == narrowed
    assert [(each.site.op, each.reason, each.witness) for each in result.refusals] == refused


def test_an_assumed_size_is_told_only_where_it_was_used() -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g {SIZES}'
    for largest, told in (
        (2**30 - 1, ["assumed: no dimension exceeds 1073741823"]),
        (2**30, list[str]()),
        (0, list[str]()),
    ):
        found = castsmith.optimize(
            onnx.parser.parse_model(text), passes=["narrow-types"], narrow="int64", largest_dim=largest
        )
        assert [each.message for each in found.diagnostics] == told
