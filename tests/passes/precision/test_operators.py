"""Operators that keep a type of their own in another precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest

from castsmith import convert
from castsmith.ir.io.protos import to_proto
from tests.passes.precision.judged import session


@pytest.mark.parametrize("opset", [19, 21, 23, 25])
def test_the_result_of_dequantize_linear_follows_its_scale(opset: int) -> None:
    """From opset 23 on its type is a variable of its own, and the scale's without the attribute output_dtype."""
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (uint8[4,4] q, float[4,4] x) => (float[4,4] d, float[4,4] y) <float s = {{0.5}}, uint8 z = {{128}}> {{
      d = DequantizeLinear (q, s, z) e = MatMul (d, x) y = Exp (d)
    }}"""
    before = onnx.parser.parse_model(text)
    wide: dict[str, Any] = {"lower": "*"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("float16", {}),
        ("bfloat16", wide),
        ("bfloat16", {**wide, "io": "convert"}),
    ]
    for to, options in cases:
        if to == "bfloat16" and opset < 23:
            continue
        after = to_proto(convert(before, to=to, **options).model)
        onnx.checker.check_model(after, full_check=True)
        node = next(each for each in after.graph.node if each.op_type == "DequantizeLinear")
        scale = next(tensor for tensor in after.graph.initializer if tensor.name == node.input[1])
        types = {port.name: port.type.tensor_type.elem_type for port in (*after.graph.output, *after.graph.value_info)}
        assert types.get(node.output[0], scale.data_type) == scale.data_type
        assert to == "float16" or scale.data_type == onnx.TensorProto.BFLOAT16


@pytest.mark.parametrize("target", [None, "onnxruntime-cpu", "openvino-cpu", "tensorrt-11"])
def test_quantized_operators_take_scales_in_the_precision(target: str | None) -> None:
    """The kernels of QuantizeLinear and its inverse are known by the type of the codes."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,4] x) => (float[2,4] y)
    <float s = {0.5}, int8 z = {0}, int8[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> {
      q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) b = DequantizeLinear (w, s, z) y = MatMul (a, b)
    }"""
    result = convert(onnx.parser.parse_model(text), to="float16", target=target)
    types = {name: dtype.name for name, (dtype, _) in result.precisions.items()}
    assert types.items() >= {"a": "FLOAT16", "b": "FLOAT16", "y": "FLOAT16"}.items()
    assert not result.diagnostics
    after = to_proto(result.model)
    assert sum(node.op_type == "Cast" for node in after.graph.node) == (1 if types["q"] == "FLOAT" else 2)
    x = np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 4)
    expected, found = (session(each).run(None, {"x": x})[0] for each in (onnx.parser.parse_model(text), after))
    np.testing.assert_array_equal(expected, found)  # all numbers are exact in float16
