"""Operators of TensorRT for quantized formats in standard ones: the bits of their formulas in ml_dtypes and numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper

import castsmith
from tests.evaluator import evaluator, outputs_of
from tests.lowering.runtime import LEVELS, Array, errors, run, session

TARGETS = ("onnxruntime-cpu", "onnxruntime-android", "tflite")
E4M3, E8M0, E2M1 = (np.dtype(getattr(ml_dtypes, f"float{name}")) for name in ("8_e4m3fn", "8_e8m0fnu", "4_e2m1fn"))


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, Array], constants: dict[str, Array], output: int, opset: int
) -> onnx.ModelProto:
    """Return a model of operators of trt that gives `y`; bytes stand for codes, as exporters declare them."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    held = [onnx_ir.to_proto(onnx_ir.tensor(array, name=name)) for name, array in constants.items()]
    outputs = [helper.make_tensor_value_info("y", output, None)]
    graph = helper.make_graph(nodes, "g", given, outputs, held)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("trt", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), domain="trt", **attributes)


def assert_gives(model: onnx.ModelProto, feeds: dict[str, Array], wanted: Array) -> None:
    """Compare the lowered model in ONNX Runtime with the expected array, for each target."""
    for target in TARGETS:
        result = castsmith.optimize(model, target=target)
        assert not [each for each in result.refusals if each.pass_name == "lower-custom"]
        assert not errors(result.model, target=target), target
        proto = onnx_ir.to_proto(result.model)
        assert not [each for each in proto.graph.node if each.domain == "trt"]
        for level in LEVELS:
            (got,) = run(session(proto, level), feeds)
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8), target)


def in_short(node: onnx.NodeProto) -> tuple[str, dict[str, Any]]:
    """Return the operator, by one name for those that dequantize without float8e8m0, and its attributes."""
    alike = ("TRT_FP8DequantizeLinear", "TRT_INT4DequantizeLinear")
    name = "DequantizeLinear" if node.op_type in alike else node.op_type
    return name, {each.name: helper.get_attribute_value(each) for each in node.attribute}


def assert_comes_back(model: onnx.ModelProto, feeds: dict[str, Array], wanted: Array) -> onnx.ModelProto:
    """Compare the model with what its standard form becomes for TensorRT, and run that, lowered once more."""
    standard = castsmith.optimize(model, target="tflite", passes=["lower-custom"]).model
    assert not any(each.domain for each in standard.graph)
    result = castsmith.optimize(standard, target="tensorrt-11", vendor="trt")
    assert not result.refusals
    assert not errors(result.model, target="tensorrt-11")
    back = onnx_ir.to_proto(result.model)
    assert list(map(in_short, back.graph.node)) == list(map(in_short, model.graph.node))
    lowered = onnx_ir.to_proto(castsmith.optimize(back, target="onnxruntime-cpu").model)
    (got,) = run(session(lowered), feeds)
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
    return back


def numbers(*shape: int) -> Array:
    """Return floats of many binades, zeros of both signs among them, and a block of zeros."""
    rng = np.random.default_rng(shape)
    x = (rng.normal(0, 1, shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    x.reshape(-1)[::7] *= np.float32(0.0)
    x[0, :32] = 0
    return x


@pytest.mark.parametrize("opset", [17, 21])
def test_float8(opset: int) -> None:
    x = numbers(4, 300)
    pair = [node("TRT_FP8QuantizeLinear", "x s", "q"), node("TRT_FP8DequantizeLinear", "q s", "y")]
    scale = np.array(0.37, np.float32)
    codes = np.clip(x / scale, -448, 448).astype(E4M3)
    assert_gives(model_of(pair, {"x": x}, {"s": scale}, 1, opset), {"x": x}, codes.astype(np.float32) * scale)
    each = np.linspace(0.1, 3, 4, dtype=np.float32)
    for n in pair:
        n.attribute.append(helper.make_attribute("axis", 0))
    codes = np.clip(x / each[:, None], -448, 448).astype(E4M3)
    model = model_of(pair, {"x": x}, {"s": each}, 1, opset)
    assert_gives(model, {"x": x}, codes.astype(np.float32) * each[:, None])
    assert_comes_back(model, {"x": x}, codes.astype(np.float32) * each[:, None])


def test_codes_that_are_declared_as_bytes() -> None:
    codes = np.arange(256, dtype=np.uint8)[np.arange(256) % 128 != 127]
    model = model_of(
        [node("TRT_FP8DequantizeLinear", "q s", "w"), helper.make_node("Add", ["w", "x"], ["y"])],
        {"x": np.zeros(1, np.float32)},
        {"q": codes, "s": np.array(0.3, np.float32)},
        1,
        21,
    )
    wanted = codes.view(E4M3).astype(np.float32) * np.float32(0.3) + np.float32(0)
    assert_gives(model, {"x": np.zeros(1, np.float32)}, wanted)


@pytest.mark.parametrize("name", ["DequantizeLinear", "TRT_INT4DequantizeLinear"])
@pytest.mark.parametrize("axis", [0, 1])
def test_int4_in_blocks(name: str, axis: int) -> None:
    rng = np.random.default_rng(axis)
    codes = rng.integers(-8, 8, (128, 128)).astype(ml_dtypes.int4)
    scale = rng.uniform(0.1, 2, (2, 128) if axis == 0 else (128, 2)).astype(np.float32)
    dequantized = node(name, "q s", "w", axis=axis, block_size=64)
    x = np.eye(128, dtype=np.float32)
    added = helper.make_node("Mul", ["w", "x"], ["y"])
    wanted = codes.astype(np.float32) * np.repeat(scale, 64, axis) * x
    model = model_of([dequantized, added], {"x": x}, {"q": codes, "s": scale}, 1, 21)
    assert_gives(model, {"x": x}, wanted)
    assert_comes_back(model, {"x": x}, wanted)


def scales_of(x: Array, axis: int, block: int) -> Array:
    """Return the largest magnitude of each block of the axis."""
    shape = [*x.shape[:axis], x.shape[axis] // block, block, *x.shape[axis + 1 :]]
    return np.abs(x.reshape(shape)).max(axis=axis + 1)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 23, reason="onnx has no QuantizeLinear to float4e2m1")
@pytest.mark.parametrize("floats", [np.float32, np.float16])
def test_fp4(floats: Any) -> None:
    x = np.clip(numbers(4, 96), -60000, 60000).astype(floats)
    whole = np.array(0.0625, np.float32)
    blocks = {"axis": -1, "block_size": 16}
    nodes = [
        node("TRT_FP4DynamicQuantize", "x g", "q s", scale_type=17, **blocks),
        helper.make_node("DequantizeLinear", ["s", "g"], ["t"]),
        node("DequantizeLinear", "q t", "y", **blocks),
    ]
    wide = x.astype(np.float32)
    scale = np.clip(scales_of(wide, 1, 16) / np.float32(6) / whole, -448, 448).astype(E4M3).astype(np.float32) * whole
    spread = np.repeat(scale, 16, 1)
    codes = np.clip(wide / np.where(spread == 0, np.float32(1), spread), -6, 6).astype(E2M1).astype(np.float32)
    assert (scale == 0).any()
    assert len(np.unique(codes)) > 12
    model = model_of(nodes, {"x": x}, {"g": whole}, 1, 23)
    assert_gives(model, {"x": x}, codes * spread)
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = f"d{dim.dim_value}"
    lowered = castsmith.optimize(model, target="tflite", passes=["lower-custom"])
    assert lowered.refusals == []
    assert outputs_of(evaluator(lowered.model), {"x": x})[0].tobytes() == (codes * spread).tobytes()


@pytest.mark.parametrize(
    ("nodes", "constants", "reason"),
    [
        (
            [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])],
            {"s": np.array(1, np.float32), "z": np.array(1, E4M3)},
            "TensorRT supports only zero points that are constant zeros",
        ),
        (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=17, saturate=0)],
            {"s": np.array(1, np.float32)},
            "TensorRT always saturates",
        ),
        (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=22)],
            {"s": np.array(1, np.float32)},
            "in TensorRT int4 is for constant weights",
        ),
        (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=23, axis=1, block_size=20)],
            {"s": np.ones((4, 2), np.float32)},
            "trt has no QuantizeLinear to float4e2m1",
        ),
        (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=17, axis=1, block_size=20)],
            {"s": np.ones((4, 2), E8M0)},
            "trt has no QuantizeLinear whose scales have a different type from the numbers",
        ),
        (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=17, axis=1, block_size=20)],
            {"s": np.ones((4, 2), np.float32)},
            "trt has no blocks of float8e4m3fn",
        ),
        (
            [helper.make_node("DequantizeLinear", ["s", "h"], ["y"], output_dtype=1)],
            {"s": np.ones((4, 2), E4M3), "h": np.array(1, np.float16)},
            "trt has no DequantizeLinear whose scales have a different type from the numbers",
        ),
    ],
)
def test_what_tensorrt_has_no_operator_for(
    nodes: list[onnx.NodeProto], constants: dict[str, Array], reason: str
) -> None:
    output = 1 if nodes[0].op_type.startswith("De") else 17
    model = model_of(nodes, {"x": np.zeros((4, 40), np.float32)}, constants, output, 24)
    del model.opset_import[1]
    result = castsmith.optimize(model, target="tensorrt-11", vendor="trt", passes=["use-vendor"])
    assert [each.reason for each in result.refusals] == [reason]
    assert not result.rewrites


@pytest.mark.parametrize(
    ("nodes", "constants", "reason"),
    [
        (
            [node("TRT_FP8DequantizeLinear", "x s", "y")],
            {"s": np.array(1, np.float32)},
            "x is float, expected float8e4m3fn or constant bytes of it",
        ),
        (
            [node("TRT_FP8QuantizeLinear", "x s", "y")],
            {"s": np.array(1, np.float16)},
            "x is float, and its scale float16",
        ),
        (
            [node("TRT_FP4DynamicQuantize", "x s", "y t", axis=-1)],
            {"s": np.array(1, np.float32)},
            "axis 1 of length 40 has no blocks of 16",
        ),
    ],
)
def test_what_is_refused(nodes: list[onnx.NodeProto], constants: dict[str, Array], reason: str) -> None:
    model = model_of(nodes, {"x": np.zeros((4, 40), np.float32)}, constants, 1, 24)
    refusals = castsmith.optimize(model, target="tflite").refusals
    assert [each.reason for each in refusals] == [reason]


@pytest.mark.parametrize(
    ("scale", "refused", "opset"),
    [(np.float32, "axis 1 of length 40 has no blocks of 16", 21), (np.float16, "and its scale float16", 17)],
)
def test_the_opset_is_raised_only_for_what_is_replaced(scale: Any, refused: str, opset: int) -> None:
    """TRT_FP4DynamicQuantize needs opset 23 and is refused; TRT_FP8QuantizeLinear needs 21, if it is not refused."""
    nodes = [
        node("TRT_FP4DynamicQuantize", "x g", "a b", axis=-1),
        node("TRT_FP8QuantizeLinear", "x s", "q"),
        helper.make_node("Shape", ["q"], ["y"]),
    ]
    model = model_of(
        nodes, {"x": np.zeros((4, 40), np.float32)}, {"s": np.array(1, scale), "g": np.array(1, np.float32)}, 7, 17
    )
    result = castsmith.optimize(model, target="tflite", passes=["lower-custom"])
    assert result.model.opset_imports[""] == opset
    reasons = [each.reason for each in result.refusals]
    assert any(refused in each for each in reasons)
    assert not any("raise the opset" in each for each in reasons)
    assert [each.rule for each in result.rewrites if each.rule == "opset"] == ["opset"] * (opset > 17)


def test_an_operator_that_the_newer_opset_changes_keeps_the_model_at_its_own() -> None:
    nodes = [
        node("TRT_FP8QuantizeLinear", "x s", "q"),
        node("TRT_FP8DequantizeLinear", "q s", "d"),
        helper.make_node("ReduceMax", ["d"], ["y"], axes=[0]),
    ]
    model = model_of(nodes, {"x": np.zeros((4, 40), np.float32)}, {"s": np.array(1, np.float32)}, 1, 17)
    refusals = castsmith.optimize(model, target="tflite").refusals
    assert refusals[0].reason.startswith("the replacement needs opset 21, but ")
    assert refusals[1].reason == "QuantizeLinear to float8e4m3fn needs opset 21: raise the opset from 17"


def test_tensorrt_keeps_its_own_operators() -> None:
    pair = [node("TRT_FP8QuantizeLinear", "x s", "q"), node("TRT_FP8DequantizeLinear", "q s", "y")]
    model = model_of(pair, {"x": np.zeros(4, np.float32)}, {"s": np.array(1, np.float32)}, 1, 21)
    for target in ("tensorrt-10", "tensorrt-11", "onnxruntime-tensorrt-rtx"):
        kept = castsmith.optimize(model, target=target).model.graph
        assert [each.domain for each in kept] == ["trt", "trt"]
