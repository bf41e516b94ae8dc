"""A filling that is cast, in models of peers."""

from __future__ import annotations

import onnx_ir

import castsmith
from tests.passes.simplify.test_run_peers import outputs, same


def test_constant_to_float8e8m0_still_computes() -> None:
    """ONNX Runtime fails to load a constant of 128 or more elements cast to float8e8m0."""
    weights = ", ".join(str(2.0**k) for k in range(-64, 64))
    text = f'<ir_version: 12, opset_import: ["": 24]>\ng () => (float[128] z) <float[128] w = {{{weights}}}> '
    model = onnx_ir.from_onnx_text(text + "{ a = Cast <to = 24> (w) z = Cast <to = 1> (a) }")
    assert same(outputs(castsmith.optimize(model).model, {}), [2.0**k for k in range(-64, 64)])
