"""Shapes of operators of com.microsoft are those that ONNX Runtime gives."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.contrib import RULES
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.promotion.rules import PromotionRules
from tests.analysis.bounds import operators
from tests.analysis.bounds.containment import results, runtimes
from tests.sampling import check_all

_CASES = [(op_type, seed) for op_type in RULES if op_type in operators.FOREIGN for seed in range(12)]


def check_shapes(op_type: str, seed: int) -> None:
    case = operators.case_of("com.microsoft", op_type, 17, onnx.TensorProto.FLOAT, seed)
    proto = case.model()
    names = [value.name for value in proto.graph.output]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    model = onnx_ir.from_proto(proto)
    inference = infer_element_types(model, PromotionRules())
    shapes = Shapes(model, inference)
    for _, run in runtimes(case.model(), reference=False):
        arrays = results(run, names, next(iter(case.feeds(1))))
        for value in model.graph.outputs:
            found = shapes.shape(value)
            if arrays is not None and found is not None:
                assert found == arrays[value.name or ""].shape, value.name


def test_shapes_are_those_of_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    check_all(check_shapes, _CASES)


_QUERIES, _KEYS = "float[2,N,16] x, float[2,N,4] k, float[2,N,4] v", "int32[2] n, int32 t"
_SHAPES = [
    ("float[2,3,4] x, float[2,3,5] y", "FusedMatMul <transA = 1> (x, y)", "(2, 4, 5)"),
    ("float[2,3,4] x, float[2,5,4] y", "FusedMatMul <transB = 1> (x, y)", "(2, 3, 5)"),
    ("float[3,4] x, float[3,5] y", "FusedMatMul <transA = 1> (x, y)", "(4, 5)"),
    ("float[7,2,3,4] x, float[3,5] y", "FusedMatMul <transA = 1> (x, y)", "(7, 2, 4, 5)"),
    ("float[2,3,4] x, float[1,4,5] y", "FusedMatMul (x, y)", "(2, 3, 5)"),
    ("float[1,3,4] x, float[2,4,5] y", "FusedMatMul (x, y)", "(2, 3, 5)"),
    ("float[3,4] x, float[7,2,4,5] y", "FusedMatMul (x, y)", "(7, 2, 3, 5)"),
    ("float[2,N,16] x", "FusedMatMul <transB = 1> (x, x)", "(2, N, N)"),
    ("float[2,3,4] x, float[2,4,5] y", "FusedMatMul <transBatchA = 1> (x, y)", "None"),
    ("float[2,3,4] x, float[2,4,5] y", "FusedMatMul <transBatchB = 1> (x, y)", "None"),
    ("float[3,4] x, float[4] y", "FusedMatMul <transB = 1> (x, y)", "None"),
    ("float[4] x, float[4,3] y", "FusedMatMul <transA = 1> (x, y)", "None"),
    ("float[3,4] x, float[] y", "FusedMatMul <transB = 1> (x, y)", "None"),
    ("float[] x, float[4,3] y", "FusedMatMul <transA = 1> (x, y)", "None"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention <num_heads = 4, kv_num_heads = 1> (x, k, v, , , n, t)", "(2, N, 16)"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (x, , , , , n, t)", "(2, N, 8)"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention <num_heads = 2> (x, , , , , n, t)", "(2, N, 16)"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention <kv_num_heads = 2> (x, , , , , n, t)", "(2, N, 0)"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention (x, , , , , n, t)", "(2, N, ?)"),
    (f"{_QUERIES}, {_KEYS}", "GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (x, k, , , , n, t)", "(2, N, 16)"),
    (f"float[2,N,W] x, {_KEYS}", "GroupQueryAttention <num_heads = 2> (x, , , , , n, t)", "(2, N, ?)"),
    (f"float[] x, {_KEYS}", "GroupQueryAttention <num_heads = 2> (x, , , , , n, t)", "None"),
    ("float[2,3,8] x, float[2,4,6] v", "MultiHeadAttention <num_heads = 2> (x, x, v)", "(2, 3, 6)"),
    ("float[2,3,8] x, float[2,2,4,4] v", "MultiHeadAttention <num_heads = 2> (x, x, v)", "(2, 3, 8)"),
    ("float[2,3,8] x, float[] v", "MultiHeadAttention <num_heads = 2> (x, x, v)", "(2, 3, ?)"),
    ("float[2,3,8] x, float[] v", "MultiHeadAttention <num_heads = 2> (v, x, x)", "None"),
    ("float[2,3,8] x, float[2,3,2,3,4] q", "MultiHeadAttention <num_heads = 2> (q, x, x)", "None"),
    ("float[2,3,8] x", "MultiHeadAttention <num_heads = 2> (x)", "None"),
    ("float[2,3,8] x, float[8,12] w", "Attention <num_heads = 2> (x, w)", "(2, 3, 4)"),
    ("float[2,3,8] x, float[8,12] w", "Attention <num_heads = 2, qkv_hidden_sizes = [2, 4, 6]> (x, w)", "(2, 3, 6)"),
    ("float[2,3,8] x, float[8,12] w", "Attention <num_heads = 2, qkv_hidden_sizes = [2, 4]> (x, w)", "(2, 3, 4)"),
    ("float[2,3,8] x, float[] w", "Attention <num_heads = 2> (x, w)", "(2, 3, ?)"),
    ("float[2,3,8] x, float[8,W] w", "Attention <num_heads = 2> (x, w)", "(2, 3, ?)"),
    ("float[3,8] x, float[8,12] w", "Attention <num_heads = 2> (x, w)", "None"),
    ("float[] x, float[8,12] w", "Attention <num_heads = 2> (x, w)", "None"),
    ("float[2,N,16] x, uint8[8,1,8] c, float[8] s", "MatMulNBits <K = 16, N = 8> (x, c, s)", "(2, N, 8)"),
    ("float[2,N,16] x, uint8[8,1,8] c, float[8] s", "MatMulNBits <K = 16> (x, c, s)", "None"),
    ("float[] x, uint8[8,1,8] c, float[8] s", "MatMulNBits <K = 16, N = 8> (x, c, s)", "None"),
    ("float[2,N,16] x", "Gelu (x)", "(2, N, 16)"),
    ("float[2,N,16] x", "Gelu ()", "None"),
    ("float[2,N,16] x", "Other (x)", "None"),
    ("float[2,N,16] x, float[16] s", "SkipLayerNormalization (x, x, s)", "(2, N, 16) None None (2, N, 16)"),
    ("float[2,N,16] x, float[16] s", "BiasGelu (x, s)", "(2, N, 16) None None None"),
]


def has_shapes(inputs: str, node: str, expected: str) -> None:
    names = [f"y{index}" for index in range(len(expected.replace(", ", ",").split()))]
    text = f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    g ({inputs}) => ({", ".join(f"float {name}" for name in names)}) {{ {", ".join(names)} = com.microsoft.{node} }}"""
    proto = onnx.parser.parse_model(text)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    model = onnx_ir.from_proto(proto)
    shapes = Shapes(model, infer_element_types(model, PromotionRules()))
    assert " ".join(str(shapes.shape(value)) for value in model.graph.outputs) == expected


def test_shapes_by_attributes_and_ranks() -> None:
    check_all(has_shapes, _SHAPES)
