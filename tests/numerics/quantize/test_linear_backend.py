"""QuantizeLinear and DequantizeLinear against the ONNX backend node tests and ONNX Runtime, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.types import parse_type
from tests.graphs.backend import array_of_case, node_cases
from tests.numerics import oracle
from tests.numerics.quantize.judged import dequantize_status, quantize_status
from tests.numerics.runtimes.onnxruntime_node import run_node

CASES = node_cases("test_(de)?quantizelinear")


def test_there_are_as_many_cases_as_when_this_was_written() -> None:
    assert len(CASES) == 27
    assert all(case.model is not None and len(case.model.graph.node) == 1 for case in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_backend_node_case(name: str) -> None:
    """Not one of them differs."""
    model = CASES[name].model
    assert model is not None
    node = model.graph.node[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if "output_dtype" in attributes:
        attributes["output_dtype"] = DataType(attributes["output_dtype"])
    attributes["opset"] = model.opset_import[0].version
    compute, status = _functions(node.op_type)
    for inputs, outputs in CASES[name].data_sets or ():
        given, expected = [array_of_case(i) for i in inputs], array_of_case(outputs[0])
        got = compute(*given, **attributes)
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
        assert not status(*given, **attributes).any()


def _functions(op: str) -> tuple[Any, Any]:
    if op == "QuantizeLinear":
        return quantize_linear, quantize_status
    return dequantize_linear, dequantize_status


ORT_TYPES = ("int8", "uint8", "int16", "uint16", *oracle.FLOAT8_TYPES)
X = np.concatenate([
    np.linspace(-600, 600, 4801, dtype=np.float32),
    np.array([np.inf, -np.inf, 3e38, -3e38, 1e-45, 65519, 65521, 2.5, 3.5, -0.0, 0.0], np.float32),
    np.random.default_rng(0).standard_normal(2000).astype(np.float32) * 100,
])  # fmt: skip


@pytest.mark.parametrize("opset", [19, 21, 25])
@pytest.mark.parametrize("output", ORT_TYPES)
@pytest.mark.parametrize("x_type", ["float", "float16"])
def test_onnx_runtime_quantizes_what_is_defined_alike(x_type: str, output: str, opset: int) -> None:
    if output in ("int16", "uint16") and opset < 21:
        pytest.skip("the type comes with opset 21")
    zero = (
        np.zeros(1, parse_type(output).numpy()) if output in oracle.FLOATS else np.array([7], oracle.INTS[output].dtype)
    )
    for scale in (1.0, 0.37, 3.0):
        arrays = [cast(X, x_type), cast(np.array([scale]), x_type), zero]
        got = run_node("QuantizeLinear", arrays, output, opset)
        ours = quantize_linear(*arrays, opset=opset)
        fixed = quantize_status(*arrays, opset=opset) == 0
        assert fixed.mean() > 0.9
        assert (got.view(np.uint8 if got.itemsize == 1 else np.uint16) == ours.view(oracle.unsigned(output)))[
            fixed
        ].all()


@pytest.mark.parametrize("opset", [19, 21, 25])
@pytest.mark.parametrize("source", [*ORT_TYPES, "int32"])
@pytest.mark.parametrize("scale_type", ["float", "float16"])
def test_onnx_runtime_dequantizes_what_is_defined_alike(scale_type: str, source: str, opset: int) -> None:
    if source in ("int16", "uint16") and opset < 21:
        pytest.skip("the type comes with opset 21")
    codes = list(oracle.all_codes(source)) if source != "int32" else [0, 1, 2**31, 2**24 + 1, 2**32 - 1, 77777]
    x = oracle.array_of(source, codes)
    for scale in (1.0, 0.37, 3.0):
        arrays = [x, cast(np.array([scale]), scale_type)]
        if source in oracle.INTS and source != "int32":
            arrays.append(np.array([7], oracle.INTS[source].dtype))
        got, ours = run_node("DequantizeLinear", arrays, scale_type, opset), dequantize_linear(*arrays, opset=opset)
        fixed = dequantize_status(*arrays, opset=opset) == 0
        assert fixed.mean() > 0.3
        numbers = ~np.isnan(ours.astype(np.float32))  # it drops the sign of a NaN from float8
        assert (got.view(oracle.unsigned(scale_type)) == ours.view(oracle.unsigned(scale_type)))[fixed & numbers].all()
        assert np.isnan(got.astype(np.float32)[~numbers]).all()


def test_onnx_runtime_cuts_blocks_alike() -> None:
    x = np.random.default_rng(1).standard_normal((3, 7, 4)).astype(np.float32) * 50
    for axis, shape in ((0, (2, 7, 4)), (1, (3, 4, 4)), (2, (3, 7, 2)), (-1, (3, 7, 2))):
        scale = np.random.default_rng(axis + 1).random(shape).astype(np.float32) + 0.1
        zero = np.random.default_rng(axis + 2).integers(0, 255, shape, np.uint8)
        got = run_node("QuantizeLinear", [x, scale, zero], "uint8", 21, axis=axis, block_size=2)
        assert (got == quantize_linear(x, scale, zero, axis=axis, block_size=2, opset=21)).all()
        back = run_node("DequantizeLinear", [got, scale, zero], "float", 21, axis=axis, block_size=2)
        assert back.tobytes() == dequantize_linear(got, scale, zero, axis=axis, block_size=2, opset=21).tobytes()


def test_where_onnx_runtime_divides_in_another_type_is_disputed() -> None:
    x, scale = cast(X, "float16"), cast(np.array([0.37]), "float16")
    zero = np.zeros(1, np.uint16)
    got, ours = run_node("QuantizeLinear", [x, scale, zero], "uint16", 21), quantize_linear(x, scale, zero, opset=21)
    differs = got != ours
    assert differs.any()  # an infinite quotient becomes the least integer
    assert (quantize_status(x, scale, zero, opset=21)[differs] == 1).all()
