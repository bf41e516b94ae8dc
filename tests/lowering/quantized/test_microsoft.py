"""com.microsoft QuantizeLinear, DequantizeLinear and MatMulNBits in standard operators: the bits of ONNX Runtime's own
kernels, which the models are small enough to compute without rounding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

import castsmith
from castsmith.lowering.quantized.tables import LOWERINGS
from tests.lowering.runtime import LEVELS, Array, errors, run, session
from tests.sampling import sampled

TARGET = "tflite"
"""A target without com.microsoft, about whose kernels nothing is known: no type of less than 8 bits is left to it."""


def model_of(op_type: str, x: Array, constants: dict[str, Array], opset: int, **attributes: Any) -> onnx.ModelProto:
    """Return the operator with an input and constants; an empty name is an operand that is left out."""
    node = helper.make_node(op_type, ["x", *constants], ["y"], domain="com.microsoft", **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    held = [numpy_helper.from_array(array, name) for name, array in constants.items() if name]
    output = onnx.ValueInfoProto(name="y")
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [given], [output], held)
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 21 else 10)


def assert_lowered_alike(model: onnx.ModelProto, x: Array, **options: Any) -> onnx_ir.Model:
    """Compare ONNX Runtime's own kernel with the lowered model, and return it."""
    (wanted,) = run(session(model), {"x": x})
    result = castsmith.optimize(model, target=TARGET, **options)
    assert not [each for each in result.refusals if each.pass_name == "lower-custom"]
    assert not errors(result.model, target=TARGET)
    assert {node.domain for node in result.model.graph.all_nodes()} == {""}
    proto = onnx_ir.to_proto(result.model)
    for level in LEVELS:
        (got,) = run(session(proto, level), {"x": x})
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
    return result.model


@pytest.mark.parametrize(
    ("floats", "dtype", "opset"),
    sampled(
        "types of quantizers of a vendor",
        itertools.product((np.float32, np.float16), (np.uint8, np.int8, np.uint16, np.int16), (12, 13, 21)),
        6,
        cover=lambda case: [case[:2], case[2]],
    ),
)
def test_quantize_and_dequantize(floats: Any, dtype: Any, opset: int) -> None:
    rng, info = np.random.default_rng(opset), np.iinfo(dtype)
    x = rng.normal(0, 60, (4, 300)).astype(floats)
    codes = rng.integers(info.min, info.max, (4, 300), dtype, endpoint=True)
    for shape, axis in (((), None), ((1,), None), ((4,), 0), ((300,), -1)):
        scale, zero = rng.uniform(0.01, 2, shape).astype(floats), rng.integers(0, 9, shape).astype(dtype)
        attributes = {} if axis is None else {"axis": axis}
        for array, op_type in ((x, "QuantizeLinear"), (codes, "DequantizeLinear")):
            model = model_of(op_type, array, {"s": np.asarray(scale), "z": np.asarray(zero)}, opset, **attributes)
            assert_lowered_alike(model, array)


def test_int32_is_dequantized_by_the_standard_operator_alone() -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 500).astype(np.int32)
    for opset, raised in ((13, 13), (12, 21)):
        lowered = assert_lowered_alike(model_of("DequantizeLinear", x, {"s": np.array(0.1, np.float32)}, opset), x)
        assert lowered.opset_imports[""] == raised


SHAPES = [(32, 16), (33, 16), (70, 32), (64, 64), (100, 128)]
"""K and block sizes: whole blocks, and a last one that is shorter."""
POINTS = ["none", "packed", "float"]
FORMS = [
    form
    for form in itertools.product((2, 4, 8), POINTS, SHAPES, (12, 21, 25), (np.float32, np.float16))
    if form[:2] != (8, "float")  # ONNX Runtime's CPU provider lacks it
]


def weights_of(bits: int, points: str, shape: tuple[int, int], floats: Any, width: int) -> dict[str, Array]:
    """Return the operands of a MatMulNBits whose products and sums are exact in float16 in any order."""
    rng, (depth, block) = np.random.default_rng([bits, *shape]), shape
    blocks = -(-depth // block)
    held: dict[str, Array] = {"b": rng.integers(0, 256, (width, blocks, block * bits // 8), dtype=np.uint8)}
    held["s"] = (2.0 ** rng.integers(-2, 1, (width, blocks))).astype(floats)
    if points == "packed":
        held["z"] = rng.integers(0, 256, (width, -(-blocks * bits // 8)), dtype=np.uint8)
    elif points == "float":
        held["z"] = rng.integers(0, 2**bits, (width, blocks)).astype(floats)
    return held


@pytest.mark.parametrize(
    ("bits", "points", "shape", "opset", "floats"), sampled("forms of MatMulNBits", FORMS, 14, cover=enumerate)
)
def test_matmul_nbits(bits: int, points: str, shape: tuple[int, int], opset: int, floats: Any) -> None:
    held = weights_of(bits, points, shape, floats, width=5)
    x = np.random.default_rng(0).integers(0, 2, (3, shape[0])).astype(floats)
    sizes = {"K": shape[0], "N": 5, "bits": bits, "block_size": shape[1]}
    for options in ({}, {"max_growth": 0}):
        assert_lowered_alike(model_of("MatMulNBits", x, held, opset, **sizes), x, **options)


def test_matmul_nbits_with_bias_and_operands_of_other_shapes() -> None:
    held = weights_of(4, "packed", (70, 32), np.float32, width=5)
    x = np.ones((2, 1, 70), np.float32)
    bias = np.arange(5, dtype=np.float32)
    sizes = {"K": 70, "N": 5, "bits": 4, "block_size": 32, "accuracy_level": 1}
    model = model_of("MatMulNBits", x, {**held, "": bias, "bias": bias}, 21, **sizes)
    assert_lowered_alike(model, x)
    flat = {**held, "s": held["s"].reshape(-1), "z": held["z"].reshape(-1)}
    assert_lowered_alike(model_of("MatMulNBits", x, flat, 21, **sizes), x)


def test_weights_that_are_not_constant_are_unpacked_when_the_model_runs() -> None:
    held = weights_of(4, "packed", (33, 16), np.float32, width=5)
    x = np.ones((2, 33), np.float32)
    model = model_of("MatMulNBits", x, held, 17, K=33, N=5, bits=4, block_size=16)
    packed = next(tensor for tensor in model.graph.initializer if tensor.name == "b")
    model.graph.input.append(helper.make_tensor_value_info("b", packed.data_type, packed.dims))
    model.graph.initializer.remove(packed)
    (wanted,) = run(session(model), {"x": x, "b": held["b"]})
    lowered = onnx_ir.to_proto(castsmith.optimize(model, target=TARGET).model)
    assert not [node for node in lowered.graph.node if node.domain]
    np.testing.assert_array_equal(run(session(lowered), {"x": x, "b": held["b"]})[0], wanted)


@pytest.mark.parametrize(
    ("attributes", "operands", "reason"),
    [
        ({"weight_prepacked": 1}, {}, "the weights are packed for one execution provider"),
        ({"bits": 3}, {}, "weights of 3 bits have no replacement"),
        ({"K": 0}, {}, "attribute K of MatMulNBits is missing or not positive"),
        ({}, {"": np.zeros(1), "g": np.zeros(33, np.int32)}, "g_idx, which orders the blocks, has no replacement"),
        ({}, {"b": np.zeros((5, 3, 0), np.uint8)}, "the shape of the packed weights is unknown, or 0, which omits the"),
    ],
)
def test_what_is_refused(attributes: dict[str, int], operands: dict[str, Array], reason: str) -> None:
    held = {**weights_of(4, "none", (33, 16), np.float32, width=5), **operands}
    sizes = {"K": 33, "N": 5, "bits": 4, "block_size": 16, **attributes}
    model = model_of("MatMulNBits", np.ones((2, 33), np.float32), held, 21, **sizes)
    refusals = castsmith.optimize(model, target=TARGET).refusals
    (refusal,) = refusals
    assert refusal.reason.startswith(reason)


def test_onnxruntime_keeps_its_own_operators() -> None:
    model = model_of("MatMulNBits", np.ones((2, 33), np.float32), weights_of(4, "none", (33, 16), np.float32, 5), 21)
    for target in ("onnxruntime-cpu", "onnxruntime-android", "onnxruntime-qnn", "onnxruntime-wasm"):
        assert not castsmith.optimize(model, target=target).rewrites
    assert all(name.startswith(("com.microsoft.", "trt.")) for name in LOWERINGS)
