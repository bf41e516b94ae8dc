"""Models of which few nodes need to be in float: no more casts than needed, and no larger error, with inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.walks import all_nodes
from tests.lowering.shipped import Case, draw, rms_norm

_WEIGHTS: dict[str, Any] = {
    "w0": draw(32, 32, scale=0.2),
    "w1": draw(32, 32, scale=0.2, seed=2),
    "two": np.float32(2),
    "eps": np.float32(1e-6),
    "gain": np.ones(32, np.float32),
}
_BLOCK = f"{rms_norm('x', 'n')} a = MatMul (n, w0) b = Relu (a) c = MatMul (b, w1) y = Add (x, c)"
CASES = [
    # The residual stream stays in float beside a norm that has to: nothing of it is rounded.
    (Case("a stream beyond the squares of float16", "", _BLOCK, _WEIGHTS, scale=1000), 2, 1e-5),
    # In float alone 1/sqrt of the epsilon bounds the product beyond float16; on the inputs it is small.
    (Case("a norm whose bound is far from what it reaches", "", _BLOCK, _WEIGHTS), 2, 2e-3),
    # What vanishes beside the stream that it is added to does no harm.
    (
        Case(
            "layer scale of 1e-6, as ConvNeXt starts with",
            "",
            "a = MatMul (x, w0) b = Tanh (a) s = Mul (b, gamma) c = Add (x, s) y = MatMul (c, w1)",
            {**_WEIGHTS, "gamma": np.full(32, 1e-6, np.float32)},
        ),
        2,
        2e-3,
    ),
]


@pytest.mark.parametrize(("case", "casts", "most"), CASES, ids=str)
def test_casts_and_error(case: Case, casts: int, most: float) -> None:
    original = case.original()
    unused = [tensor for tensor in original.graph.initializer if f"{tensor.name})" not in case.body]
    for tensor in unused:
        original.graph.initializer.remove(tensor)
    result = castsmith.convert(original, to="float16", inputs=case.inputs())
    assert sum(node.op_type == "Cast" for node in all_nodes(result.model)) <= casts
    assert result.error is not None
    assert result.error.worst < most
    products = [name for name, operator in result.operators.items() if operator == "MatMul"]
    assert {result.precisions[name][0] for name in products} == {DataType.FLOAT16}
