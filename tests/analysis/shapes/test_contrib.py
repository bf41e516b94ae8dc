"""Shapes of operators of com.microsoft are those that ONNX Runtime gives."""

from __future__ import annotations

import onnx
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


def test_most_first_results_are_known() -> None:
    codes, scales = ", ".join(["0"] * 64), ", ".join(["1"] * 8)
    text = f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    g (float[2,N,16] x, int32[2] n, int32 t) => (float y, float z, float p) 
    <uint8[8,1,8] c = {{{codes}}}, float[8] s = {{{scales}}}> {{
        a = com.microsoft.Gelu (x) y = com.microsoft.MatMulNBits <K = 16, N = 8, block_size = 16> (a, c, s)
        z = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (x, , , , , n, t)
        p = com.microsoft.FusedMatMul <transB = 1> (x, x) }}"""
    proto = onnx.parser.parse_model(text)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    model = onnx_ir.from_proto(proto)
    inference = infer_element_types(model, PromotionRules())
    shapes = Shapes(model, inference)
    assert [str(shapes.shape(value)) for value in model.graph.outputs] == ["(2, N, 8)", "(2, N, 8)", "(2, N, N)"]
