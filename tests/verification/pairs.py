"""Pairs of models that differ in one subtle way: no pair may be called equal.

Each is two graphs in ONNX text, at opset 23 unless it says otherwise, and what a comparison that is less careful misses.
"""

# ruff: noqa: E501
from __future__ import annotations

HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'


def _pair(right: str, old: str, new: str) -> tuple[str, str]:
    assert old in right, (right, old)
    return HEAD + right, HEAD + right.replace(old, new)


def _branches(condition: str, then: str, other: str, more: str = "") -> str:
    return (
        f"g (float[2] x{more}) => (float[2] y) {{ {condition} y = If (c) <then_branch = one () => (float[2] a) {{ {then} }},"
        f" else_branch = two () => (float[2] b) {{ {other} }}> }}"
    )


_LOOP = """g (float[2] x, int64 n) => (float[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x)
    <body = step (int64 i, bool going, float[2] s) => (bool still, float[2] r) {
        still = Identity (going) limit = Constant <value_int = 3> () late = Less (i, limit)
        twice = Add (s, s) once = Neg (s) r = Where (late, twice, once) }> }"""
_SCAN = """g (float[3, 2] x, float[2] s) => (float[2] y, float[3, 2] z) { y, z = Scan <num_scan_inputs = 1,
    body = step (float[2] a, float[2] e) => (float[2] b, float[2] o) { b = Add (a, e) o = Mul (b, e) }> (s, x) }"""
_SEQUENCE = """g (float[6] x, int64 p) => (float[2] y) { k = Constant <value_int = 2> () s = SplitToSequence (x, k)
    y = SequenceAt (s, p) }"""
_TABLE = """g (int64[4] i) => (float[4, 2] y) <float[5, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> { y = Gather (w, i) }"""
_WIDE = "g (float[2] x) => (float[2] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }"
_FLOAT8 = "g (float[2] x) => (float[2] y) { q = Cast <to = 17> (x) y = Cast <to = 1> (q) }"
_INTEGER = "g (int64[2] x) => (int64[2] y) { h = Cast <to = 6> (x) y = Cast <to = 7> (h) }"

PAIRS: dict[str, tuple[str, str]] = {
    # the interface
    "an input is of another type": _pair(
        "g (float[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "float[2] x", "float16[2] x"
    ),
    "an input has another fixed size": _pair("g (float[4] x) => (float[N] y) { y = Relu (x) }", "float[4]", "float[3]"),
    "an input lost its fixed size": _pair("g (float[4] x) => (float[N] y) { y = Relu (x) }", "float[4]", "float[M]"),
    "a symbolic input has become fixed": _pair("g (float[M] x) => (float[N] y) { y = Relu (x) }", "float[M]", "float[5]"),
    "an input has another rank": _pair("g (float[A] x) => (float[N] y) { y = Relu (x) }", "float[A]", "float[A, 1]"),
    "inputs are in another order": _pair(
        "g (float[2] x, float[2] z) => (float[2] y) { y = Sub (x, z) }", "float[2] x, float[2] z", "float[2] z, float[2] x"
    ),
    "outputs are in another order": _pair(
        "g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x) z = Neg (x) }",
        "float[2] y, float[2] z",
        "float[2] z, float[2] y",
    ),
    "an input has another name": _pair("g (float[2] x) => (float[2] y) { y = Relu (x) }", "x", "z"),
    "an output is missing": _pair(
        "g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x) z = Neg (x) }", ", float[2] z)", ")"
    ),
    "an output is of another type": _pair(
        "g (float[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "(float[2] y) { y = Cast <to = 1>", "(double[2] y) { y = Cast <to = 11>"
    ),
    "an input has lost its default": _pair(
        "g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Add (x, d) }", " = {1, 2}", ""
    ),
    "a default is another": _pair(
        "g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Add (x, d) }", "{1, 2}", "{1, 3}"
    ),
    "a shape is declared that the value has not": _pair(
        "g (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }", "(float[2, 3] y)", "(float[3, 2] y)"
    ),
    # classes of values in small shapes
    "NaN in two elements": _pair(
        "g (float[2] x) => (float[2] y) { z = Constant <value_float = 0.0> () y = Max (x, z) }", "y = Max (x, z)", "n = IsNaN (x) m = Max (x, z) y = Where (n, z, m)"
    ),
    "infinity in a scalar": _pair(
        "g (float x) => (float y) { y = Identity (x) }",
        "y = Identity (x)",
        "l = Constant <value_float = -3.4028235e38> () h = Constant <value_float = 3.4028235e38> () y = Clip (x, l, h)",
    ),
    "negative zero in a scalar": _pair("g (float x) => (float y) { y = Identity (x) }", "y = Identity (x)", "z = Constant <value_float = 0.0> () y = Add (x, z)"),
    "subnormals in two elements": _pair(
        "g (float[2] x) => (float[2] y) { y = Identity (x) }",
        "y = Identity (x)",
        "t = Constant <value_float = 1.1754944e-38> () a = Abs (x) s = Less (a, t) z = Sub (x, x) y = Where (s, z, x)",
    ),
    "a tie in two elements": _pair("g (float[2] x) => (float[2] y) { y = Round (x) }", "y = Round (x)", "h = Constant <value_float = 0.5> () s = Add (x, h) y = Floor (s)"),
    "an integer wraps": _pair("g (int32[1] x) => (int32[1] y) { y = Abs (x) }", "y = Abs (x)", "z = Constant <value = int32 {0}> () n = Neg (x) m = Max (x, n) y = Max (m, z)"),
    "the least integer": _pair("g (int8[1] x) => (int8[1] y) { y = Identity (x) }", "y = Identity (x)", "l = Constant <value = int8 {-127}> () y = Max (x, l)"),
    "an integer that float cannot hold": _pair("g (int64 x) => (int64 y) { y = Identity (x) }", "y = Identity (x)", "f = Cast <to = 1> (x) l = Cast <to = 11> (f) y = Cast <to = 7> (l)"),
    "the input 3": _pair("g (int64 x) => (bool y) { k = Constant <value_int = 3> () y = Equal (x, k) }", "value_int = 3", "value_int = 4"),
    "text": _pair("g (string[2] x) => (bool[2] y) { k = Constant <value_strings = [\"text\"]> () y = Equal (x, k) }", '"text"', '"Text"'),
    "both signs of a complex zero": _pair("g (float[2] x) => (float[2] y) { y = Neg (x) }", "y = Neg (x)", "z = Constant <value_float = 0.0> () y = Sub (z, x)"),
    # conversions in small shapes
    "a round trip through float16 is removed": _pair(_WIDE, "h = Cast <to = 10> (x) y = Cast <to = 1> (h)", "y = Identity (x)"),
    "float16 has become bfloat16": _pair(_WIDE, "to = 10", "to = 16"),
    "a float8 does not saturate": _pair(_FLOAT8, "<to = 17>", "<to = 17, saturate = 0>"),
    "a float8 of another format": _pair(_FLOAT8, "to = 17", "to = 18"),
    "a float8 by way of float16": _pair(_FLOAT8, "q = Cast <to = 17> (x)", "h = Cast <to = 10> (x) q = Cast <to = 17> (h)"),
    "double to float16 by way of float": _pair("g (double[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }", "y = Cast <to = 10> (x)", "f = Cast <to = 1> (x) y = Cast <to = 10> (f)"),
    "an integer that is narrowed": _pair(_INTEGER, "h = Cast <to = 6> (x) y = Cast <to = 7> (h)", "y = Identity (x)"),
    "narrowed to another width": _pair(_INTEGER, "to = 6", "to = 5"),
    "unsigned in place of signed": _pair("g (int8[2] x) => (int32[2] y) { y = Cast <to = 6> (x) }", "y = Cast <to = 6> (x)", "u = Cast <to = 2> (x) y = Cast <to = 6> (u)"),
    "zero is true": _pair("g (float[2] x) => (bool[2] y) { y = Cast <to = 9> (x) }", "y = Cast <to = 9> (x)", "i = Cast <to = 7> (x) y = Cast <to = 9> (i)"),
    "the infinities of an older opset": (
        HEAD.replace("23", "19") + "g (float[2] x) => (float[2] y) { q = Cast <to = 18> (x) y = Cast <to = 1> (q) }",
        HEAD.replace("23", "24") + "g (float[2] x) => (float[2] y) { q = Cast <to = 18> (x) y = Cast <to = 1> (q) }",
    ),
    "quantized with half away from zero": _pair(
        "g (float[2] x) => (uint8[2] y) <float s = {0.3}, uint8 z = {128}> { y = QuantizeLinear (x, s, z) }",
        "y = QuantizeLinear (x, s, z)",
        """d = Div (x, s) a = Abs (d) h = Constant <value_float = 0.5> () u = Add (a, h) f = Floor (u) g = Sign (d)
           r = Mul (f, g) w = Cast <to = 1> (z) t = Add (r, w) l = Constant <value_float = 0.0> ()
           m = Constant <value_float = 255.0> () c = Clip (t, l, m) y = Cast <to = 2> (c)""",
    ),
    "a zero point is off by one": _pair(
        "g (uint8[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {128}> { y = DequantizeLinear (x, s, z) }", "{128}", "{127}"
    ),
    "a scale is off by one bit": _pair(
        "g (uint8[2] x) => (float[2] y) <float s = {0.5}> { y = DequantizeLinear (x, s) }", "{0.5}", "{0.50000006}"
    ),
    # what is reached
    "a branch for one number": _pair(
        _branches("k = Constant <value_int = 41> () c = Equal (n, k)", "a = Neg (x)", "b = Identity (x)", ", int64 n"), "Neg", "Abs"
    ),
    "a branch below a bound": _pair(
        _branches("k = Constant <value_float = 41.2> () m = ReduceMax <keepdims = 0> (x) c = Less (m, k)", "a = Neg (x)", "b = Identity (x)"),
        "value_float = 41.2",
        "value_float = 41.199997",
    ),
    "a bound that is included": _pair("g (float x) => (bool y) { k = Constant <value_float = 41.2> () y = Less (x, k) }", "Less", "LessOrEqual"),
    "a bound behind arithmetic": _pair(
        "g (float x) => (bool y) { t = Constant <value_float = 1.8> () p = Mul (x, t) k = Constant <value_float = 77.0> () y = Less (p, k) }", "Less", "LessOrEqual"
    ),
    "a branch that is never taken": _pair(
        _branches("q = Mul (x, x) k = Constant <value_float = -1.0> () m = ReduceMax <keepdims = 0> (q) c = Less (m, k)", "a = Neg (x)", "b = Identity (x)"),
        "a = Neg (x)",
        "a = Abs (x)",
    ),
    "a branch within a branch": _pair(
        """g (float[2] x, bool c, bool d) => (float[2] y) { y = If (c) <
            then_branch = one () => (float[2] a) { a = If (d) <then_branch = in1 () => (float[2] e) { e = Neg (x) },
                else_branch = in2 () => (float[2] f) { f = Abs (x) }> },
            else_branch = two () => (float[2] b) { b = Identity (x) }> }""",
        "f = Abs (x)",
        "f = Relu (x)",
    ),
    "a comparison that nothing meets": _pair(
        "g (float[2] x) => (float[2] y) { s = Sin (x) k = Constant <value_float = 0.987654> () e = Equal (s, k) n = Neg (x) y = Where (e, n, x) }",
        "0.987654",
        "0.987655",
    ),
    "an operand of Where that is never chosen": _pair(
        "g (float[2] x) => (float[2] y) { s = Sin (x) k = Constant <value_float = 2.0> () e = Greater (s, k) n = Neg (x) y = Where (e, n, x) }",
        "Neg (x)",
        "Exp (x)",
    ),
    "a loop of no turn": _pair(_LOOP, "y = Loop (n, t, x)", "o = Constant <value_int = 1> () m = Max (n, o) y = Loop (m, t, x)"),
    "a loop of several turns": _pair(_LOOP, "value_int = 3", "value_int = 2"),
    "a loop that ends at once": _pair(_LOOP, "still = Identity (going)", "still = Not (going)"),
    "a scan in another order": _pair(_SCAN, "num_scan_inputs = 1", "num_scan_inputs = 1, scan_output_directions = [1]"),
    "a scan that starts at its end": _pair(_SCAN, "num_scan_inputs = 1", "num_scan_inputs = 1, scan_input_directions = [1]"),
    "a sequence at another place": _pair(_SEQUENCE, "y = SequenceAt (s, p)", "o = Constant <value_int = 0> () q = Max (p, o) y = SequenceAt (s, q)"),
    "a sequence of other pieces": _pair(_SEQUENCE, "y = SequenceAt (s, p)", "m = SequenceAt (s, p) e = SequenceErase (s, p) t = SequenceInsert (e, m) y = SequenceAt (t, p)"),
    "an optional that holds nothing": _pair(
        "g (float[2] x, optional(float[2]) o) => (bool y) { y = OptionalHasElement (o) }", "y = OptionalHasElement (o)", "y = Constant <value = bool {1}> ()"
    ),
    # indices and constants
    "a row of a table": _pair(_TABLE, "9, 10", "9, 11"),
    "a row of a large table": (
        HEAD + "g (int64[4] i) => (float[4] y) { n = Constant <value_ints = [100000]> () w = ConstantOfShape <value = float[1] {1}> (n) y = Gather (w, i) }",
        HEAD
        + """g (int64[4] i) => (float[4] y) { n = Constant <value_ints = [100000]> () o = ConstantOfShape <value = float[1] {1}> (n)
            k = Constant <value_ints = [77777]> () u = Constant <value_floats = [2.0]> () w = ScatterElements (o, k, u) y = Gather (w, i) }""",
    ),
    "negative indices": _pair(_TABLE, "y = Gather (w, i)", "o = Constant <value_int = 0> () j = Max (i, o) y = Gather (w, j)"),
    "an axis": _pair("g (float[3, 3] x, int64[2] i) => (float[A, B] y) { y = Gather <axis = 0> (x, i) }", "axis = 0", "axis = 1"),
    "an axis of size one": _pair("g (float[N] x) => (float[M, K] y) { a = Constant <value_ints = [0]> () y = Unsqueeze (x, a) }", "[0]", "[1]"),
    "a shape that is made up": _pair("g (float[N, M] x) => (float[A, B] y) { s = Constant <value_ints = [-1, 5]> () y = Reshape (x, s) }", "y = Reshape (x, s)", "y = Identity (x)"),
    "the largest of equals": _pair("g (float[4] x) => (int64 y) { y = ArgMax <keepdims = 0> (x) }", "keepdims = 0", "keepdims = 0, select_last_index = 1"),
    "one bit of a constant": _pair("g (float[2] x) => (float[2] y) <float[2] w = {0.1, 0.2}> { y = Mul (x, w) }", "0.2", "0.20000002"),
    "one bit in a constant of a function": (
        HEAD.replace("]>", ', "local" : 1]>') + 'g (float[2] x) => (float[2] y) { y = local.f (x) } <domain: "local", opset_import: ["" : 23]> f (a) => (b) { k = Constant <value_float = 0.1> () b = Mul (a, k) }',
        HEAD.replace("]>", ', "local" : 1]>') + 'g (float[2] x) => (float[2] y) { y = local.f (x) } <domain: "local", opset_import: ["" : 23]> f (a) => (b) { k = Constant <value_float = 0.10000001> () b = Mul (a, k) }',
    ),
    # nothing to compare
    "undefined everywhere": (
        HEAD + "g (float[2] x) => (int32[2] y) { k = Constant <value_floats = [1e30, 1e30]> () y = Cast <to = 6> (k) }",
        HEAD + "g (float[2] x) => (int32[2] y) { k = Constant <value_floats = [1e30, 1e30]> () n = Cast <to = 6> (k) y = Neg (n) }",
    ),
    "random without a seed": _pair("g (float[2] x) => (float[2] y) { r = RandomNormalLike (x) y = Add (x, r) }", "y = Add (x, r)", "y = Sub (x, r)"),
    "random with another seed": _pair("g (float[2] x) => (float[2] y) { r = RandomNormalLike <seed = 1.0> (x) y = Add (x, r) }", "seed = 1.0", "seed = 2.0"),
    "NaN for every input": _pair(
        "g (float[2] x) => (float[2] y) { q = Mul (x, x) o = Constant <value_float = -1.0> () n = Sub (o, q) y = Sqrt (n) }", "y = Sqrt (n)", "l = Sqrt (n) y = Neg (l)"
    ),
    "no elements": _pair("g (float[0] x) => (float[0] y) { y = Relu (x) }", "Relu", "Neg"),
}  # fmt: skip
