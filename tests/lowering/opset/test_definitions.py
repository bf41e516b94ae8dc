"""Operators written out by their definitions: exact ones by their bits, others by their axes and close numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.targets.target import Target
from tests.lowering.float8.test_lower import model_of
from tests.lowering.opset.test_adapters import ANY, check_row

M, Y = "float[3,4] x", "float[a,b] y"
LACKS = "cannot be expressed in opset"


@pytest.mark.parametrize(
    ("now", "to", "body", "expected"),
    [
        (18, 17, f"({M}) => ({Y}) <int64[2] l = {{5, 2}}> {{ y = CenterCropPad (x, l) }}", ANY),
        (18, 17, f"({M}, int64[2] p) => ({Y}) {{ y = CenterCropPad (x, p) }}", ANY),
        (15, 14, f"({M}, float16 j) => (float16[a,b] y) {{ y = CastLike (x, j) }}", "Cast (to=10)"),
        (14, 13, f"({M}) => ({Y}) {{ y = HardSwish (x) }}", "HardSigmoid (alpha=0.1666666716337204, beta=0.5) Mul ()"),
        (20, 19, "(float[1,2,3] x, int64[n] l) => (float[a,b,c,d] y) { y = AffineGrid (x, l) }", LACKS),
        (20, 19, "(float[1,2,3] x, int64[3] l) => (float[a,b,c,d] y) { y = AffineGrid (x, l) }", LACKS),
    ],
)  # fmt: skip
def test_definitions_that_are_exact(now: int, to: int, body: str, expected: str) -> None:
    check_row(now, to, body, expected)


def moved(text: str, now: int, to: int, feeds: dict[str, Any]) -> onnx_ir.Model:
    """Return the model below the opset; the checker accepts it and the evaluator gives close numbers."""
    model = model_of(text, now)
    before = onnx_ir.to_proto(model)
    target = Target("old", "", newest_opset=to, newest_ir_version=10)
    assert not LegalizeVersion(target)(model).records.refusals
    after = onnx_ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    results = [ReferenceEvaluator(proto).run(None, feeds) for proto in (before, after)]
    for old, new in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(new), np.asarray(old), rtol=1e-5, atol=1e-6)
    return model


X = np.random.default_rng(0).normal(0, 2, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("outputs", ["y", "y, m", "y, m, i", "y, , i"])
def test_results_that_the_node_leaves_out(outputs: str) -> None:
    declared = ", ".join(
        f"float[{name}0,{name}1,{name}2] {name}" for name in outputs.replace(" ", "").split(",") if name
    )
    text = f"g (float[2,3,4] x, float[4] s) => ({declared}) {{ {outputs} = LayerNormalization (x, s) }}"
    model = moved(text, 17, 16, {"x": X, "s": np.array([1, 2, -1, 0.5], np.float32)})
    made = {value for node in model.graph for value in node.outputs}
    assert all(value.uses() or value.is_graph_output() for value in made)
