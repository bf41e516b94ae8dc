"""Operators of com.microsoft are converted as their schemas and the kernels of the target allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx_ir
import pytest

from castsmith import convert
from castsmith.ir.io.protos import to_proto
from castsmith.ir.records import Severity
from castsmith.targets.target import load_target
from tests.passes.precision.judged import session

_WIDTH, _HEADS, _LENGTH = 32, 2, 4


def node(op_type: str, inputs: str, outputs: str, domain: str = "com.microsoft", **attributes: Any) -> onnx.NodeProto:
    names = [name.strip() for name in inputs.split(",")]
    return onnx.helper.make_node(op_type, names, outputs.split(), name=op_type, domain=domain, **attributes)


def block() -> onnx.ModelProto:
    """A transformer block of fused operators, as the optimizer of ONNX Runtime writes it."""
    draw = np.random.default_rng(0)
    weights: dict[str, Any] = {
        **{name: draw.normal(0, 0.2, (_WIDTH, _WIDTH)).astype("f4") for name in ("wq", "wo")},
        **{name: draw.normal(0, 0.2, _WIDTH).astype("f4") for name in ("gamma", "beta", "bias")},
        "packed": draw.normal(0, 0.2, (_WIDTH, 3 * _WIDTH)).astype("f4"),
        "packed_bias": draw.normal(0, 0.2, 3 * _WIDTH).astype("f4"),
        "cos": draw.normal(0, 0.5, (8, _WIDTH // _HEADS // 2)).astype("f4"),
        "sin": draw.normal(0, 0.5, (8, _WIDTH // _HEADS // 2)).astype("f4"),
        "places": np.arange(_LENGTH, dtype=np.int64).reshape(1, -1),
        "codes": draw.integers(0, 255, (_WIDTH, 1, 16)).astype(np.uint8),
        "scales": draw.uniform(0.01, 0.05, _WIDTH).astype("f4"),
        "lengths": np.array([_LENGTH - 1], np.int32),
        "total": np.array(_LENGTH, np.int32),
    }
    nodes = [
        node("SkipLayerNormalization", "x, x, gamma, beta, bias", "n"),
        node("Attention", "n, packed, packed_bias", "a", num_heads=_HEADS),
        node("FusedMatMul", "a, wq", "q", transB=1, alpha=0.5),
        node("RotaryEmbedding", "q, places, cos, sin", "r", num_heads=_HEADS),
        node("MultiHeadAttention", "r, n, a", "h", num_heads=_HEADS),
        node("GroupQueryAttention", "h, n, a, , , lengths, total", "g k v", num_heads=_HEADS, kv_num_heads=_HEADS),
        node("MatMulNBits", "g, codes, scales", "b", K=_WIDTH, N=_WIDTH, bits=4, block_size=32),
        node("BiasGelu", "b, bias", "e"),
        node("FastGelu", "e, bias", "f"),
        node("QuickGelu", "f", "u"),
        node("Gelu", "u", "l"),
        node("SkipSimplifiedLayerNormalization", "l, x, gamma", "s"),
        node("MatMul", "s, wo", "y", domain=""),
    ]
    port = [onnx.helper.make_tensor_value_info(name, 1, [1, _LENGTH, _WIDTH]) for name in ("x", "y")]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "block", port[:1], port[1:], tensors)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    "options", [{}, {"lower": "*"}, {"keep": ["Attention", "GroupQueryAttention"]}, {"keep": "FusedMatMul"}]
)
def test_fused_operators_are_converted_and_run(options: dict[str, Any]) -> None:
    before = block()
    result = convert(before, to="float16", **options)
    after = to_proto(result.model)
    kept = options.get("keep", ())
    kept = {kept} if isinstance(kept, str) else set(kept)
    assert {name for name, (dtype, _) in result.precisions.items() if dtype.name == "FLOAT"} == kept
    x = np.random.default_rng(1).normal(0, 1, (1, _LENGTH, _WIDTH)).astype("f4")
    expected, found = (np.asarray(session(each).run(None, {"x": x})[0]) for each in (before, after))
    assert 0 < np.abs(expected - found).max() < 0.02 * np.abs(expected).max()


def test_scales_and_codes_of_quantized_weights() -> None:
    after = to_proto(convert(block(), to="float16").model)
    types = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    assert types["scales"] == onnx.TensorProto.FLOAT16
    assert types["codes"] == onnx.TensorProto.UINT8


def test_bfloat16_goes_by_the_kernels_of_the_target() -> None:
    cpu = load_target("onnxruntime-cpu")
    kernels = {**cpu.kernels, onnx_ir.DataType.BFLOAT16: {**cpu.kernels[onnx_ir.DataType.BFLOAT16], "Add": 13}}
    precisions = convert(block(), to="bfloat16", target=replace(cpu, kernels=kernels)).precisions
    assert (
        precisions["RotaryEmbedding"][1]
        == "onnxruntime-cpu has no com.microsoft.RotaryEmbedding of bfloat16 at opset 17"
    )
    free = convert(block(), to="bfloat16")
    assert {dtype.name for dtype, _ in free.precisions.values()} == {"BFLOAT16"}
    (note,) = free.diagnostics
    assert (note.code, note.severity) == ("target-lacks-kernel", Severity.NOTE)
    assert note.message.startswith("onnxruntime-cpu has no ")


def test_the_target_names_the_operators_with_their_domain() -> None:
    target = load_target("onnxruntime-cpu")
    assert "com.microsoft.GroupQueryAttention" in target.probed
    assert not any(name.startswith("com.microsoft.Gemma") for name in target.probed)


def test_tensorrt_has_none_of_them() -> None:
    """The product of four bits is written as a standard one first, so that it is converted."""
    result = convert(block(), to="float16", target="tensorrt-11")
    fused = {each.op_type for each in block().graph.node if each.domain} - {"MatMulNBits"}
    products = [found for name, found in result.precisions.items() if result.operators[name] == "MatMul"]
    assert {dtype for dtype, _ in products} == {onnx_ir.DataType.FLOAT16}
    kept = {
        result.operators[name]: found for name, found in result.precisions.items() if result.operators[name] in fused
    }
    reason = "tensorrt-11 has no operators of com.microsoft"
    assert {op_type for op_type, found in kept.items() if found == (onnx_ir.DataType.FLOAT, reason)} == fused
    told = [finding for finding in result.diagnostics if finding.code == "unregistered-operator"]
    assert {finding.subject for finding in told} == {
        f"tensorrt-11 has no operator {name} of com.microsoft, which needs a plugin" for name in fused
    }
    assert {each.severity for each in told} == {Severity.WARNING}
    assert not [each for each in convert(block(), to="float16").diagnostics if each.code == "unregistered-operator"]
