"""The oldest opset of each type, where another node keeps the model below it."""

from __future__ import annotations

import pytest

from tests.lowering.quantized.test_tables import lowered


@pytest.mark.parametrize(
    ("name", "inputs", "output", "what"),
    [
        ("TRT_INT4DequantizeLinear", "int4[2] x, float s", "float", "DequantizeLinear of int4"),
        ("TRT_FP8DequantizeLinear", "float8e4m3fn[2] x, float s", "float", "DequantizeLinear of float8e4m3fn"),
        ("DequantizeLinear", "int8[2] x, float s", "float", "DequantizeLinear of int8"),
        ("TRT_FP8QuantizeLinear", "float[2] x, float s", "float8e4m3fn", "QuantizeLinear to float8e4m3fn"),
        ("TRT_INT4QuantizeLinear", "float[2] x, float s", "int4", "QuantizeLinear to int4"),
    ],
)
def test_types_of_opset_21_below_it(name: str, inputs: str, output: str, what: str) -> None:
    """GroupNormalization keeps the opset at 20: its scale and bias are of groups."""
    keeps = "n = GroupNormalization <num_groups = 1> (m, k, k)"
    text = f"g ({inputs}, float[1,2,3] m, float[1] k) => ({output}[2] y, float[1,2,3] n)"
    obstacle, refused = lowered(f"{text} {{ y = trt.{name} (x, s) {keeps} }}", 20).refusals
    assert obstacle.rule == "opset"
    assert refused.reason == f"{what} needs opset 21: raise the opset from 20"
    assert not lowered(f"{text} {{ y = trt.{name} (x, s) n = Relu (m) }}", 20).refusals
