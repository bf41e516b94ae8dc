"""What a target loads, asked of OpenVINO."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from tests.lowering.check.test_registered import CALL, IMPORTS, errors, filled, openvino_refusal

pytestmark = pytest.mark.usefixtures("untried")

_LOOP = """g (int64 n, bool c, float[2] s) => (float[2] y) { y = Loop (n, c, s)
    <body = b (int64 i, bool k, float[2] u) => (RESULTS) { r = Identity (k) v = Neg (u) }> }"""

_IF = """g (float[SIZE,2] x, bool c) => (float[n] y) <int64[1] a = {0}, int64 one = {1}, int64 zero = {0}>
    { h = Shape (x) d = Gather (h, zero) k = Equal (d, one) y = If (CONDITION) <then_branch = t () => (BRANCH },
    else_branch = e () => (float[SIZE,2] u) { u = Abs (x) }> }"""

_SCAN = """g (float[2] s, float[3,2] q, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Scan (s, q)
    <num_scan_inputs = 1, body = b (float[2] u, float[2] o) => (float[2] r) { p = Add (u, o) r = Add (p, WEIGHT) }> }"""

_ROWS = "g (uint8[2,3] x, float[SIZE] s) => (float[2,3] y) { y = DequantizeLinear (x, s) }"

_CONV = "g (uint8[1,SIZE,2,2] x, uint8[4,SIZE,1,1] w) => (uint8[1,4,2,2] y) <PARAMETERS> { y = QLinearConv (OPERANDS) }"

_MATMUL = "g (uint8[2,2] x, uint8[2,4] w) => (uint8[2,4] y) <PARAMETERS> { y = QLinearMatMul (OPERANDS) }"

_SAME, _SQUEEZED = "float[SIZE,2] v) { v = Neg (x)", "float[2] v) { v = Squeeze (x, a)"

OPENVINO = [
    *(filled(_LOOP, RESULTS=results) for results in ("bool r, float[2] v", "bool k, float[2] v", "bool r, float[2] u")),
    *(
        filled(_IF, CONDITION=condition, BRANCH=branch, SIZE="1")
        for condition in ("c", "k")
        for branch in (_SAME, _SQUEEZED)
    ),
    filled(_IF, CONDITION="k", BRANCH=_SQUEEZED, SIZE="N"),
    *(filled(CALL, FUNCTION=name, OPERATOR=inner) for name, inner in (("lib.f", "Neg"), ("Abs", "lib.Foo"))),
    *(filled(_SCAN, WEIGHT=weight) for weight in ("w", "s")),
    *(filled(_ROWS, SIZE=size) for size in "123"),
    *(
        filled(_CONV, SIZE=size, OPERANDS=operands)
        for size in "13"
        for operands in ("x, s, z, w, s, z, s, z", "x, s, z, w, s1, z1, s, z", "x, s1, z1, w, s, z, s, z")
    ),
    *(filled(_MATMUL, OPERANDS=f"x, s, z, w, {scale}, z, s, z") for scale in ("s", "s1", "s4")),
]


def test_an_error_is_what_openvino_refuses():
    wrong = []
    for text in OPENVINO:
        model = onnx.parser.parse_model(IMPORTS + text)
        theirs, ours = openvino_refusal(model), errors(model, "openvino-cpu")
        if bool(theirs) != bool(ours):
            wrong.append(f"{text}: {theirs[-200:] or 'loads'}; check: {ours}")
    assert not wrong
