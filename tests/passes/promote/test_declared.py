"""Declared types follow what promotion makes."""

from __future__ import annotations

import onnx_ir

from castsmith.lowering.pipeline import optimize


def test_a_record_has_the_types_that_the_results_have_now() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float16[2] x, float[2] y, float[2] z) => (float[2] o) <float16[2] a> { a = Sum (x, y, z) o = Neg (a) }"""
    (first, *_) = optimize(onnx_ir.from_onnx_text(text)).rewrites
    assert "a = Sum (x_float, y, z)  # (float[2], float[2], float[2]) -> float[2]" in first.after
    assert "-> float16[2]" in first.before
