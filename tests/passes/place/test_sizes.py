"""Numbers of elements where shapes have names."""

from __future__ import annotations

import onnx_ir

import castsmith
from castsmith.passes.place.problem import LAUNCH_BYTES
from tests.passes.place.test_problem import FLATTEN


def test_a_dimension_counts_as_often_as_it_is_there() -> None:
    result = castsmith.optimize(onnx_ir.from_onnx_text(FLATTEN), passes=["place-casts"])
    (rewrite,) = result.rewrites
    # 64 * 64 elements: both casts read or write 2 bytes and 4, the Transpose reads and writes 2 in place of 4.
    assert f"bytes moved: {4096 * 4} instead of {4096 * (6 + 8 + 6)}" in rewrite.reason
    assert f"at these sizes (a launch counts as {LAUNCH_BYTES} bytes)" in rewrite.reason
