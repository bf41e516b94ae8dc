"""Models that declare no types inside lower as those that do: plain, in If and Loop, and in model-local functions."""

from __future__ import annotations

import itertools

import onnx_ir
import pytest

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import all_nodes
from castsmith.lowering.float8.lower import LowerFloat8
from tests.sampling import sampled

BODIES = {
    "bfloat16": ("float[4] x", "bfloat16[4] y", "a = Relu (x) y = Cast <to = 16> (a)"),
    "float16": ("int64[4] x", "float16[4] y", "a = Abs (x) y = Cast <to = 10> (a)"),
    "halves": ("float[4] x", "float[4] y", "a = Cast <to = 16> (x) b = Mul (a, a) c = Cast <to = 10> (b) "
               "d = Softmax (c) y = Cast <to = 1> (d)"),
    "like": ("double[4] x", "float16[4] y", "h = Constant <value = float16 {15360}> () a = Neg (x) "
             "y = CastLike (a, h)"),
    "float8": ("double[4] x", "float[4] y", "a = Neg (x) c = Cast <to = 17> (a) t = Identity (c) "
               "y = Cast <to = 1> (t)"),
    "quantized": ("float[4] x", "float[4] y", "s = Constant <value = float {0.5}> () a = Relu (x) "
                  "p = Constant <value = int4 {1}> () q = QuantizeLinear (a, s, p) y = DequantizeLinear (q, s, p)"),
}  # fmt: skip
SCOPES = {
    "plain": '<ir_version: 10, opset_import: ["": 21]> g ({x}) => ({y}) {{ {body} }}',
    "If": """<ir_version: 10, opset_import: ["": 21]> g ({x}, bool k) => ({y}) {{
        y = If (k) <then_branch = p () => ({y}) {{ {body} }}, else_branch = n () => ({z}) {{ {other} }}> }}""",
    "Loop": """<ir_version: 10, opset_import: ["": 21]> g ({x}, int64 n, bool k) => ({ys}) {{
        ys = Loop (n, k) <body = b (int64 i, bool go) => (bool goes, {y}) {{ goes = Identity (go) {body} }}> }}""",
    "function": """<ir_version: 10, opset_import: ["": 21, "f": 1]> g ({x}) => ({y}) {{ y = f.F (x) }}
        <domain: "f", opset_import: ["": 21]> F (x) => (y) {{ {body} }}""",
}


def text_of(scope: str, body: str) -> str:
    x, y, nodes = BODIES[body]
    second = nodes.replace("y = ", "z = ")
    dtype = y.split("[")[0]
    return SCOPES[scope].format(x=x, y=y, z=y.replace(" y", " z"), ys=f"{dtype}[N, 4] ys", body=nodes, other=second)


def shown(result: castsmith.Result) -> tuple[list[tuple[str, str]], list[str]]:
    return [node.op_identifier()[:2] for node in all_nodes(result.model)], [d.message for d in result.diagnostics]


TARGETS = ("coreml", "onnxruntime-android", "onnxruntime-qnn", "onnxruntime-webgpu", "openvino-cpu", "tensorrt-10")


@pytest.mark.parametrize(
    ("scope", "target"),
    sampled("undeclared types", itertools.product(SCOPES, TARGETS), 8, cover=enumerate),
)
def test_inferred_types_are_as_good_as_declared_ones(scope: str, target: str):
    for body in BODIES:
        model = onnx_ir.from_onnx_text(text_of(scope, body))
        declared = model.clone()
        types = infer_element_types(declared, castsmith.PromotionRules()).types
        for value, dtype in types.items():
            if value.type is None and value.producer() is not None and not declared.functions:
                value.type = onnx_ir.TensorType(dtype)
        assert shown(castsmith.optimize(model, target=target)) == shown(castsmith.optimize(declared, target=target))


def test_a_model_that_is_left_as_it_is_declares_no_more_than_before():
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[4] x, float16[1] s) => (int32[4] y) {
        a = Cast <to = 10> (x) q = QuantizeLinear <output_dtype = 22> (a, s) b = BitShift <direction = "LEFT"> (q, q)
        y = Cast <to = 6> (b) }"""
    model = onnx_ir.from_onnx_text(text)
    before = onnx_ir.to_proto(model).SerializeToString()
    result = LowerFloat8(castsmith.load_target("openvino-cpu"))(model)
    assert result.records.refusals
    assert not result.modified
    assert onnx_ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("attributes", ["block_size = -2", "axis = 5, block_size = 2", "axis = -3, block_size = 1"])
@pytest.mark.parametrize("scale", ["float[2]", "float[2, 2]"])
def test_blocks_that_do_not_fit_are_refused(attributes: str, scale: str):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (bfloat16[2] x, {scale} s) => (float8e4m3fn[2] y) {{
        y = QuantizeLinear <output_dtype = 17, {attributes}> (x, s) }}"""
    result = castsmith.optimize(onnx_ir.from_onnx_text(text), target="coreml")
    assert any("do not fit" in refusal.reason for refusal in result.refusals)
