"""Values of strings and complex numbers, which no cast converts by arithmetic, in every pass and command."""

from __future__ import annotations

import onnx
import onnx.checker
import pytest

from castsmith.ir.io.loading import from_proto
from castsmith.ir.io.protos import to_proto
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import PASSES, make_pass
from castsmith.targets.target import load_target
from castsmith.verification.run import verify

pytestmark = pytest.mark.usefixtures("engines_here")

CASTS = [
    "(string[3] a) => (float[3] y) { y = Cast <to = 1> (a) }",
    "(string a) => (float16 y, float b) { b = Cast <to = 1> (a) y = Cast <to = 10> (b) }",
    "(string[3] a, float b) => (float[3] y) { y = CastLike (a, b) }",
    "(string[3] a) => (string[3] y) { b = Cast <to = 1> (a) y = Cast <to = 8> (b) }",
    "(string[3] a) => (string[3] y) { y = Cast <to = 8> (a) }",
    "(float[3] a) => (float[3] y) { b = Cast <to = 8> (a) y = Cast <to = 1> (b) }",
    "(float[3] a) => (string[3] y) { b = Cast <to = 11> (a) y = Cast <to = 8> (b) }",
    "(float[3] a, string b) => (string[3] y) { y = CastLike (a, b) }",
    "(string[3] a) => (float[3] y) { b = Cast <to = 11> (a) c = Transpose (b) y = Cast <to = 1> (c) }",
    "(string[3] a) => (int64[3] y) { b = Transpose (a) y = Cast <to = 7> (b) }",
    "(float[3] a) => (string[6] y) { b = Cast <to = 8> (a) c = Cast <to = 8> (a) y = Concat <axis = 0> (b, c) }",
    """(bool c, float[3] a, string[3] b) => (string[3] y) {
        y = If (c) <then_branch = t () => (string[3] p) { p = Cast <to = 8> (a) },
                    else_branch = e () => (string[3] q) { q = Identity (b) }> }""",
]

SEEN = [
    "(string[3] a, string[3] b) => (bool[3] y) { c = Cast <to = 1> (a) d = Cast <to = 1> (b) y = Equal (c, d) }",
    "(float[3] a, string[3] b) => (bool[3] y) { c = Cast <to = 8> (a) y = Equal (c, b) }",
    "(string[3] a) => (bool[3] y) { c = Cast <to = 1> (a) y = IsNaN (c) }",
    "(string[3] a) => (int64[1, N] y) { c = Cast <to = 1> (a) y = NonZero (c) }",
    "(string[3] a) => (int64[1] y) { c = Cast <to = 1> (a) y = Shape (c) }",
    "(string[3] a, float[5] d) => (float[3] y) { c = Cast <to = 7> (a) y = Gather (d, c) }",
]

COMPLEX = [
    "(complex64[3] a) => (complex64[3] y, int64[1] s) { y = Transpose (a) s = Shape (y) }",
    "(bool c, complex128[3] a, complex128[3] b) => (complex128[3] y) { y = Where (c, a, b) }",
    "(complex64[3] a, complex64[3] b) => (complex64[6] y) { c = Identity (a) y = Concat <axis = 0> (c, b) }",
]


@pytest.mark.parametrize("text", [*CASTS, *SEEN, *COMPLEX])
def test_every_pass_and_command_takes_them(text: str) -> None:
    before = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {text}')
    onnx.checker.check_model(before, full_check=True)
    for name in PASSES:
        if not PASSES[name].startswith("castsmith.lowering."):
            make_pass(name, {})(from_proto(before))
    for target in (None, "onnxruntime-cpu", "tensorrt-10", "openvino-cpu"):
        result = optimize(before, target=None if target is None else load_target(target))
        onnx.checker.check_model(to_proto(result.model), full_check=True)
    assert verify(before, optimize(before, verify="reference").model, engine="reference", sets=2).mismatch is None
