"""Operators of vendors and of QONNX that are replaced, and at which opset, beside those refused one step from them."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.lowering.quantized.tables import LOWERINGS
from castsmith.targets.target import Target

TARGET = Target("t", "", newest_opset=25, newest_ir_version=12)
EXACT, DEFINED = castsmith.Effect.BIT_EXACT, castsmith.Effect.AS_DEFINED


def lowered(body: str, opset: int, more: str = "") -> castsmith.Result:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"needs an onnx that knows opset {opset}")
    imports = ", ".join(f'"{domain}" : 1' for domain in ("trt", "com.microsoft", "local", "finn.custom_op.general"))
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "qonnx.custom_op.general" : 2, {imports}]> {body} {more}'
    passes = ["lower-custom", "lower-trunc", "lower-quant"]
    return castsmith.optimize(onnx.parser.parse_model(text), target=TARGET, passes=passes)


FP8 = "float8e4m3fn"
X, Y = "(float[2,32] x, float s)", f"({FP8}[2,32] y)"
NEEDS: dict[str, tuple[str, int, castsmith.Effect]] = {
    "trt.TRT_FP8QuantizeLinear": (f"{X} => {Y} {{ y = OP (x, s) }}", 21, EXACT),
    "trt.TRT_FP8DequantizeLinear": (f"({FP8}[2,32] x, float s) => (float[2,32] y) {{ y = OP (x, s) }}", 21, EXACT),
    "trt.TRT_INT4QuantizeLinear": (f"{X} => (int4[2,32] y) {{ y = OP (x, s) }}", 21, EXACT),
    "trt.TRT_INT4DequantizeLinear": ("(int4[2,32] x, float s) => (float[2,32] y) { y = OP (x, s) }", 21, EXACT),
    "trt.DequantizeLinear": ("(int8[2,32] x, float s) => (float[2,32] y) { y = OP (x, s) }", 23, EXACT),
    "trt.TRT_FP4DynamicQuantize": (f"{X} => (float4e2m1[2,32] y, {FP8}[2,2] z) {{ y, z = OP (x, s) }}", 23, DEFINED),
    "com.microsoft.QuantizeLinear": (f"{X} => (uint8[2,32] y) {{ y = OP (x, s) }}", 20, EXACT),
    "com.microsoft.DequantizeLinear": ("(uint8[2,32] x, float s) => (float[2,32] y) { y = OP (x, s) }", 20, EXACT),
    "com.microsoft.MatMulNBits": (
        "(float[2,32] a, uint8[4,2,8] b, float[4,2] s) => (float[2,4] y) { y = OP <K = 32, N = 4, block_size = 16>"
        " (a, b, s) }", 20, DEFINED
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOWERINGS)
def test_each_operator_raises_the_opset_to_the_oldest_that_it_needs(name: str) -> None:
    """From opset 20, and never back from a newer one."""
    body, needed, effect = NEEDS[name]
    result = lowered(f"g {body.replace('OP', name)}", 20)
    assert result.refusals == []
    assert result.model.opset_imports[""] == needed
    assert [(each.rule, each.effect) for each in result.rewrites] == [
        *([("opset", EXACT)] if needed > 20 else []), ("lower-custom", effect),
    ]  # fmt: skip
    assert {node.domain for node in result.model.graph} == {""}
    if needed > 20:
        assert lowered(f"g {body.replace('OP', name)}", needed).model.opset_imports[""] == needed
        assert lowered(f"g {body.replace('OP', name)}", needed + 1).model.opset_imports[""] == needed + 1


QL, DL = "com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear"
RANK = "(float[k] x0, int64[m] h, float[2] s)"
NBITS = "(float[2,32] a, uint8[4,2,8] b, float[4,2] s) => (float[2,4] y) { y = com.microsoft.MatMulNBits <K = 32, N = 4"
ONE_OF = "expected one of float8e4m3fn, int4, int8, float4e2m1"
QUANT = """({0}[2] x, float b0) => ({0}[2] y) <float s = {{0.5}}, float z = {{0}}, float b = {{4}}> {{
    y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, {1}) }}"""
KINDS = "expected floating-point numbers of at least 16 bits or integers of at least 8"
FLOATQUANT = """(float[2] x) => (float[2] y) <float s = {{0.5}}, float e = {{{}}}, float m = {{{}}}, float b = {{{}}},
    float most = {{8}}> {{ y = qonnx.custom_op.general.FloatQuant <has_inf = 0, has_nan = 0, has_subnormal = 1,
    saturation = {}, rounding_mode = "{}"> (x, s, e, m, b, most) }}"""
FP4 = "trt.TRT_FP4DynamicQuantize"
FP4_Y = f"(float4e2m1[2,32] y, {FP8}[2,2] z)"
CALL = """(float[2,32] x, float s) => (float8e4m3fn[2,32] y) { y = local.f <a = 1> (x, s) }
    <domain: "local", opset_import: ["" : 21, "trt" : 1]> f <a> (u, v) => (w) {
        w = trt.TRT_FP8QuantizeLinear <axis : int = @a> (u, v) }"""

ROWS: list[tuple[int, str, str]] = [
    # Operands.
    (21, f"(int32[2] x, float s) => ({FP8}[2] y) {{ y = trt.TRT_FP8QuantizeLinear (x, s) }}",
     "input 0 of TRT_FP8QuantizeLinear is int32, expected float, float16 or bfloat16"),
    (21, f"(float[2] x) => ({FP8}[2] y) {{ y = trt.TRT_FP8QuantizeLinear (x) }}",
     "input 1 of TRT_FP8QuantizeLinear is missing"),
    (21, "(float[2] x, float s) => (float[2] y) { a = local.Other (x) y = trt.DequantizeLinear (a, s) }",
     "the element type of a is unknown"),
    (24, "(int8[2,32] x, float s) => (float[2,32] y) { y = trt.TRT_FP8DequantizeLinear (x, s) }",
     "x is int8, expected float8e4m3fn or constant bytes of it"),
    (21, CALL, "an attribute is a parameter of the enclosing function"),
    *((24, f"({name}[2,32] x, float16 s) => (float16[2,32] y) {{ y = trt.DequantizeLinear (x, s) }}",
       f"input 0 of DequantizeLinear is {name}, {ONE_OF}" if name in ("float8e8m0", "uint8", "float") else "")
      for name in (FP8, "int4", "int8", "float4e2m1", "float8e8m0", "uint8", "float")),
    # Scales that are computed.
    (24, f"{X} => {FP4_Y} {{ y, z = {FP4} <scale_type = 1> (x, s) }}",
     "only scales of float8e4m3fn have a replacement"),
    (24, f"{X} => {FP4_Y} {{ y, z = {FP4} <scale_type = 17> (x, s) }}", ""),
    (24, f"(float[n,32] x, float s) => {FP4_Y} {{ y, z = {FP4} <axis = 0> (x, s) }}",
     "blocks of an axis that is not the last need a known shape"),
    (24, f"(float[n,32] x, float s) => {FP4_Y} {{ y, z = {FP4} <axis = 1> (x, s) }}", ""),
    (24, f"(float[k] x0, int64[m] h, float s) => {FP4_Y} {{ x = Reshape (x0, h) y, z = {FP4} <axis = 1> (x, s) }}",
     "blocks of an axis that is not the last need a known shape"),
    (24, f"{X} => {FP4_Y} {{ y, z = {FP4} <axis = 2> (x, s) }}", "axis 2 is not one of the 2 of the input"),
    (24, f"{X} => {FP4_Y} {{ y, z = {FP4} <axis = -3> (x, s) }}", "axis -3 is not one of the 2 of the input"),
    (24, f"{X} => {FP4_Y} {{ y, z = {FP4} <axis = -2> (x, s) }}", "axis 0 of length 2 has no blocks of 16"),
    # Opsets, by the type: raised where needed.
    *((opset, f"(float[2] x, float s, {name} z) => ({name}[2] y) {{ y = {QL} (x, s, z) }}", "")
      for opset, name in (
          (10, "uint8"), (11, "uint16"), (11, "int8"), (20, "int4"), (21, "int4"), (20, FP8), (21, FP8))),
    *((opset, f"({name}[2] x, float s, {name} z) => (float[2] y) {{ y = {DL} (x, s, z) }}", "")
      for opset, name in (
          (10, "uint8"), (10, "uint16"), (12, "int32"), (13, "int32"), (20, "int4"), (21, "int4"))),
    (20, f"{RANK} => (uint16[2,32] y) <uint16[2] z = {{1, 2}}>"
     f" {{ x = Reshape (x0, h) y = {QL} <axis = 0> (x, s, z) }}", ""),
    (20, f"{RANK} => (uint16[2,32] y) <uint16 z = {{1}}, float t = {{2}}> {{ x = Reshape (x0, h) y = {QL} (x, t, z) }}",
     ""),
    # MatMulNBits.
    (10, f"{NBITS}, block_size = 16> (a, b, s) }}", "MatMulNBits needs opset 11: raise the opset from 10"),
    (11, f"{NBITS}, block_size = 16> (a, b, s) }}", ""),
    (11, f"{NBITS}, block_size = 0> (a, b, s) }}", "attribute block_size of MatMulNBits is missing or not positive"),
    (11, f"{NBITS}, block_size = -16> (a, b, s) }}", "attribute block_size of MatMulNBits is missing or not positive"),
    (11, f"{NBITS}> (a, b, s) }}", "attribute block_size of MatMulNBits is missing or not positive"),
    (11, f"{NBITS}, bits = 5, block_size = 16> (a, b, s) }}", "weights of 5 bits have no replacement"),
    # Quant.
    *((21, QUANT.format(name, "b"), "" if good else f"input 0 is {name}, {KINDS}")
      for name, good in (("float16", 1), ("bfloat16", 1), ("double", 1), ("int8", 1), ("uint8", 1), ("int64", 1),
                         ("int4", 0), ("bool", 0), ("string", 0), (FP8, 0))),
    (21, QUANT.format("float", "b0"), "bitwidth must be one constant number"),
    (21, QUANT.format("float", "b").replace("float b = {4}", "float[2] b = {4, 4}"),
     "bitwidth must be one constant number"),
    (21, QUANT.format("float", "b").replace("float b = {4}", "float[1] b = {4}"), ""),
    (10, QUANT.format("float", "b"), "rounding needs Round: raise the opset from 10 to 11"),
    (11, QUANT.format("float", "b"), ""),
    (21, "(uint8[2] x, uint8 s) => (uint8[2] y) { y = qonnx.custom_op.general.BipolarQuant (x, s) }",
     "uint8 has no -1"),
    (21, "(int8[2] x, int8 s) => (int8[2] y) { y = qonnx.custom_op.general.BipolarQuant (x, s) }", ""),
    # FloatQuant: exponent bits, mantissa bits, bias, saturation, rounding mode.
    *((21, FLOATQUANT.format(*numbers), reason) for numbers, reason in (
        ((4, 15, 7, 1, "ROUND"), ""),
        ((4, 16, 7, 1, "ROUND"), "a format of 4.0 exponent and 16.0 mantissa bits has no exact replacement"),
        ((4, 2.5, 7, 1, "ROUND"), "a format of 4.0 exponent and 2.5 mantissa bits has no exact replacement"),
        ((4, 3, 7.5, 1, "ROUND"), "a format of 4.0 exponent and 3.0 mantissa bits has no exact replacement"),
        ((8, 3, 127, 1, "ROUND"), ""),
        ((9, 3, 127, 1, "ROUND"), "an exponent of 9.0 bits with bias 127.0 exceeds the range of float"),
        ((8, 3, 128, 1, "ROUND"), "an exponent of 8.0 bits with bias 128.0 exceeds the range of float"),
        ((8, 3, -128, 1, "ROUND"), "an exponent of 8.0 bits with bias -128.0 exceeds the range of float"),
        ((1, 3, 1, 1, "ROUND"), ""),
        ((0, 3, 1, 1, "ROUND"), "an exponent of 0.0 bits with bias 1.0 exceeds the range of float"),
        ((4, 3, 7, 0, "ROUND"), "without saturation the format has neither infinity nor NaN to overflow to"),
        ((4, 0, 7, 1, "ROUND"), ""),
        ((4, 0, 7, 1, "FLOOR"),
         "without mantissa bits, QONNX's FLOOR of numbers beyond the format's range may give 0"),
        ((4, 1, 7, 1, "FLOOR"), ""),
        ((8, 3, 101, 1, "FLOOR"), ""),
        ((8, 3, 102, 1, "FLOOR"),
         "with bias 102.0, the 2**-126 that QONNX adds before its logarithm changes the result of FLOOR"),
        ((8, 3, 102, 1, "HALF_UP"), ""),
    )),
    (21, FLOATQUANT.format(4, 3, 7, 1, "ROUND").replace("float[2]", "double[2]"),
     "only operands of type float have an exact replacement"),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "body", "reason"), ROWS)
def test_a_node_is_replaced_or_refused_with_the_reason(opset: int, body: str, reason: str) -> None:
    result = lowered(f"g {body}", opset)
    custom = [each for each in result.model.graph.all_nodes() if each.domain not in ("", "local")]
    assert [each.reason for each in result.refusals] == ([reason] if reason else [])
    if not reason:
        assert custom == []
        onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)


@pytest.mark.parametrize(("level", "told"), [(0, False), (3, False), (4, True)])
def test_the_level_that_rounds_inputs_is_told(level: int, told: bool) -> None:
    (rewrite,) = lowered(f"g {NBITS}, block_size = 16, accuracy_level = {level}> (a, b, s) }}", 21).rewrites
    plain = "the weights dequantized as the operator states, and MatMul"
    more = "; accuracy_level 4 allows a kernel to round the input to int8, which MatMul does not"
    assert rewrite.reason == plain + more * told


@pytest.mark.parametrize(
    ("opset", "inputs", "output", "node", "reason"),
    [
        (10, "float[2] x, float s, uint8 z", "uint8", f"{QL} (x, s, z)", "Round needs opset 11"),
        (12, "float[2] x, float s, int4 z", "int4", f"{QL} (x, s, z)", "int4 needs opset 21"),
        (12, "int32[2] x, float s, int32 z", "float", f"{DL} (x, s, z)", "DequantizeLinear of int32 needs opset 13"),
        (12, "int4[2] x, float s, int4 z", "float", f"{DL} (x, s, z)", "DequantizeLinear of int4 needs opset 21"),
    ],
)
def test_what_an_opset_that_stays_lacks(opset: int, inputs: str, output: str, node: str, reason: str) -> None:
    """ReduceSum keeps the opset: its axes became an input."""
    body = f"({inputs}, float[2] m) => ({output}[2] y, float[1] n) {{ y = {node} n = ReduceSum <axes = [0]> (m) }}"
    obstacle, refused = lowered(f"g {body}", opset).refusals
    assert obstacle.rule == "opset"
    assert refused.reason == f"{reason}: raise the opset from {opset}"


def test_the_node_that_keeps_the_opset_is_told() -> None:
    body = "y = trt.TRT_FP8QuantizeLinear (x, s) {} z = ReduceSum <axes = [0]> (x)"
    text = f"{X} => ({FP8}[2,32] y, float[1,32] z) {{ {body} }}"
    for name, place in (("", "z"), ("[m]", "m")):
        found = lowered("g " + text.replace("{}", name, 1), 12).refusals
        assert found[0].reason.startswith(
            f"the replacement needs opset 21, but g: {place} (ReduceSum): ReduceSum of opset 13 has no"
        )
