"""Quantizers of uint8 for targets that take int8 only: shifted or written out, with the same bits for all codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.lowering.operators.run import LowerOperators
from castsmith.targets.target import Target
from tests.evaluator import evaluator, outputs_of

SIGNED = Target(
    "signed", newest_opset=21, newest_ir_version=10, types=["float", "uint8", "int8", "int32", "int64", "bool"],
    kernels={"uint8": {"Cast": 6}, "int8": {"Cast": 6, "QuantizeLinear": 10, "DequantizeLinear": 10, "Add": 7}},
    probed=["QuantizeLinear", "DequantizeLinear", "Cast"],
)  # fmt: skip
"""A target that takes codes of int8 with any zero point."""

SYMMETRIC = castsmith.load_target("tensorrt-11")
ALL = np.arange(256, dtype=np.uint8).reshape(4, 64)
SCALES = {
    "tensor": ("", np.float32(0.1), np.uint8(128), np.uint8(3)),
    "axis": (
        "<axis = 0>",
        np.array([0.1, 2, 3e-3, 7], np.float32),
        np.array([128] * 4, np.uint8),
        np.array([0, 255, 127, 3], np.uint8),
    ),
    "blocks": (
        "<axis = 1, block_size = 32>",
        np.linspace(0.1, 2, 8, dtype=np.float32).reshape(4, 2),
        np.full((4, 2), 128, np.uint8),
        np.arange(8, dtype=np.uint8).reshape(4, 2),
    ),
}


def model(body: str, **constants: Any) -> onnx.ModelProto:
    found = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {body}')
    for name, value in constants.items():
        if name in body:
            found.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return found


def check_same(before: onnx.ModelProto, target: Target, rules: list[str], **feeds: Any) -> onnx_ir.Model:
    result = LowerOperators(target)(onnx_ir.from_proto(before))
    assert [each.rule for each in result.records.rewrites] == rules
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    assert not LowerOperators(target)(result.model).modified
    (expected,), (found,) = (outputs_of(evaluator(each), feeds) for each in (onnx_ir.from_proto(before), result.model))
    assert expected.dtype == found.dtype
    assert expected.tobytes() == found.tobytes()
    return result.model


@pytest.mark.parametrize("granularity", SCALES)
@pytest.mark.parametrize("zero", ["middle", "any", "absent"])
def test_stored_codes_are_shifted(granularity: str, zero: str) -> None:
    attributes, scale, middle, other = SCALES[granularity]
    operands = "c, s" if zero == "absent" else "c, s, z"
    body = f"() => (float[4, 64] y) {{ y = DequantizeLinear {attributes} ({operands}) }}"
    before = model(body, c=ALL, s=scale, z=middle if zero == "middle" else other)
    after = check_same(before, SIGNED, ["shift-to-int8"])
    assert {node.inputs[0].dtype for node in after.graph if node.inputs[0] is not None} == {DataType.INT8}
    written = ["shift-to-int8"] if zero == "middle" else ["quantize-in-float"]
    check_same(before, SYMMETRIC, written)


@pytest.mark.parametrize("granularity", SCALES)
@pytest.mark.parametrize("zero", ["middle", "any", "absent"])
def test_codes_between_two_quantizers_are_shifted(granularity: str, zero: str) -> None:
    attributes, scale, middle, other = SCALES[granularity]
    more = ", s" if zero == "absent" else ", s, z"
    body = f"""(float[4, 64] x) => (float[4, 64] y) {{
        q = QuantizeLinear {attributes} (x{more})
        y = DequantizeLinear {attributes} (q{more})
    }}"""
    before = model(body, s=scale, z=middle if zero == "middle" else other)
    x = np.random.default_rng(0).uniform(-300, 300, (4, 64)).astype(np.float32)
    x[0, :4] = [np.inf, -np.inf, 0.5, -0.0]
    check_same(before, SIGNED, ["shift-to-int8"] * 2, x=x)
    check_same(before, SYMMETRIC, ["shift-to-int8" if zero == "middle" else "quantize-in-float"] * 2, x=x)


@pytest.mark.parametrize("granularity", SCALES)
def test_codes_that_others_read_are_written_out(granularity: str) -> None:
    attributes, scale, _, other = SCALES[granularity]
    body = f"(uint8[4, 64] c) => (float[4, 64] y) {{ y = DequantizeLinear {attributes} (c, s, z) }}"
    check_same(model(body, s=scale, z=other), SIGNED, ["quantize-in-float"], c=ALL)
    body = f"(float[4, 64] x) => (uint8[4, 64] y) {{ y = QuantizeLinear {attributes} (x, s, z) }}"
    x = np.random.default_rng(1).uniform(-300, 300, (4, 64)).astype(np.float32)
    check_same(model(body, s=scale, z=other), SIGNED, ["quantize-in-float"], x=x)


def test_the_result_is_legal() -> None:
    body = """(float[4, 64] x) => (float[4, 64] y) {
        q = QuantizeLinear (x, s, z)
        a = DequantizeLinear (q, s, z)
        w = DequantizeLinear (c, s, z)
        y = Mul (a, w)
    }"""
    for zero in (128, 3):
        before = model(body, c=ALL, s=np.float32(0.5), z=np.uint8(zero))
        result = castsmith.optimize(before, target="tensorrt-11", max_growth=0)
        assert not result.diagnostics
        assert {each.code for each in castsmith.check(result.model, target="tensorrt-11")} <= {"nan-lost-in-chain"}


def test_what_the_target_takes_stays() -> None:
    body = "() => (float[4, 64] y) { y = DequantizeLinear (c, s, z) }"
    before = model(body, c=ALL.view(np.int8), s=np.float32(0.1), z=np.int8(0))
    for target in (SIGNED, SYMMETRIC):
        assert not LowerOperators(target)(onnx_ir.from_proto(before)).modified


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize(
    "body", ["y = QuantizeLinear (x, s, z)", "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"]
)
def test_what_is_written_out_exists_at_the_opset_of_the_result(opset: int, body: str) -> None:
    """Round is of opset 11, and quantizers are of opset 10."""
    to = "float" if "Dequantize" in body else "uint8"
    before = onnx.parser.parse_model(
        f'<ir_version: 5, opset_import: ["": {opset}]> g (float[4] x, float s, uint8 z) => ({to}[4] y) {{ {body} }}'
    )
    result = castsmith.optimize(before, target=SYMMETRIC)
    onnx.checker.check_model(result.proto, full_check=True)
    assert (result.proto.opset_import[0].version, "Round" in {node.op_type for node in result.proto.graph.node}) == (
        max(opset, 11),
        True,
    )
    x = np.array([-1.5, 0.5, 2.5, 300], np.float32)
    feeds = {"x": x, "s": np.array(1, np.float32), "z": np.array(3, np.uint8)}
    (expected,), (given,) = (outputs_of(evaluator(onnx_ir.from_proto(each)), feeds) for each in (before, result.proto))
    assert np.array_equal(expected, given)
