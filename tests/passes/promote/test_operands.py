"""Restrictions of types in operators' documents beyond the type constraints, and inputs that are not operands."""

from __future__ import annotations

from itertools import product

import onnx.defs
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.ops.table import input_kind
from castsmith.ir.ops.traits import Input
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes import InsertPromoteTypes
from tests.sampling import sampled


def _model(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {body}')


def _types(result: onnx_ir.Model, op_type: str) -> list[DataType | None]:
    (node,) = (node for node in result.graph if node.op_type == op_type)
    return [None if value is None else value.dtype for value in node.inputs]


@pytest.mark.parametrize("opset", [10, 13, 21, 27])
@pytest.mark.parametrize("other", ["float", "float16", "double"])
def test_mod_of_integers_does_not_become_one_of_floats(opset: int, other: str) -> None:
    for promotion in ("torch", "numpy", "jax", "tensorflow"):
        with pytest.raises(PromotionError, match=r"fmod = 0 it is of integers.*\(opset 28 allows it\)"):
            optimize(_model(f"(int32[4] x, {other}[4] z) => (y) {{ y = Mod (x, z) }}", opset), promotion=promotion)


def test_mod_is_promoted_where_its_document_allows_it() -> None:
    for opset, attributes in ((10, "<fmod = 1>"), (27, "<fmod = 1>"), (28, "")):
        model = _model(f"(int16[4] x, float[4] z) => (y) {{ y = Mod {attributes} (x, z) }}", opset)
        assert _types(optimize(model).model, "Mod") == [DataType.FLOAT] * 2
    model = _model("(int16[4] x, int32[4] z) => (y) { y = Mod (x, z) }", 13)
    assert _types(optimize(model).model, "Mod") == [DataType.INT32] * 2


def test_indices_of_no_supported_type_are_named_by_their_place() -> None:
    model = _model("(float[4] x, float[2] i, float[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }", 21)
    (found,) = optimize(model).diagnostics
    says = "ScatterElements of opset 21 supports neither float as input 1 nor a type that holds it (no opset does)"
    assert says in found.message


def test_int32_has_no_zero_point() -> None:
    body = "(uint8[4] x, int8[4] z, float[4] s) => (float[4] y) { y = DequantizeLinear <axis = 0> (x, s, z) }"
    with pytest.raises(PromotionError, match=r"int32 has no zero point \(opset 21 allows it\)"):
        optimize(_model(body, 13), promotion="numpy")
    types = _types(optimize(_model(body, 21), promotion="numpy").model, "DequantizeLinear")
    assert types == [DataType.INT16, DataType.FLOAT, DataType.INT16]


def test_the_operand_of_a_bitcast_keeps_its_width() -> None:
    model = _model("(float6e2m3[4] x) => (uint8[4] y) { y = BitCast <to = 2> (x) }", 26)
    result = optimize(model)
    assert "BitCast" in {node.op_type for node in result.model.graph}
    assert not any(node.op_type == "Cast" for node in result.model.graph)
    assert [each.code for each in result.diagnostics] == ["type-not-allowed"]


def test_a_mask_of_attention_has_the_type_of_the_query() -> None:
    body = "(float16[1,2,3,4] q, {}[3,3] m) => (y) {{ y = Attention (q, q, q, m) }}"
    model = optimize(_model(body.format("float"), 23), promotion="torch").model
    assert _types(model, "Attention") == [DataType.FLOAT, DataType.FLOAT, DataType.FLOAT16, DataType.FLOAT]
    for mask in ("bool", "float16"):
        assert not optimize(_model(body.format(mask), 23)).rewrites


def _parameters() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        for index, formal in enumerate(schema.inputs if schema.domain == "" else ()):
            if input_kind("", schema.name, index) is not Input.OPERAND:
                found.setdefault(schema.name, set()).add(formal.name)
    return found


def test_the_inputs_that_are_no_operands() -> None:
    linear = {"x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point"}
    assert _parameters() == {
        "BatchNormalization": {"scale"},
        "ConvInteger": {"x_zero_point", "w_zero_point"},
        "DequantizeLinear": {"x_scale", "x_zero_point"},
        "GroupNormalization": {"scale"},
        "InstanceNormalization": {"scale"},
        "LayerNormalization": {"Scale"},
        "MatMulInteger": {"a_zero_point", "b_zero_point"},
        "Pad": {"constant_value"},
        "QLinearConv": linear,
        "QLinearMatMul": {"a_scale", "a_zero_point", "b_scale", "b_zero_point", "y_scale", "y_zero_point"},
        "QuantizeLinear": {"y_scale", "y_zero_point"},
        "RMSNormalization": {"scale"},
        "SequenceConstruct": {"inputs"},
        "SequenceInsert": {"input_sequence", "tensor", "position"},
    }


PARAMETERS = {
    "DequantizeLinear": "(uint8[4] x, int8 z, float s) => (y) { y = DequantizeLinear (x, s, z) }",
    "DequantizeLinear constant": "(uint8[4] x, float s) => (y) <int8 z = {-3}> { y = DequantizeLinear (x, s, z) }",
    "QuantizeLinear": "(float16[4] x, float s, uint8 z) => (y) { y = QuantizeLinear (x, s, z) }",
    "MatMulInteger": "(uint8[4,4] x, int8[4,4] w, int8 z) => (y) { y = MatMulInteger (x, w, z) }",
    "MatMulInteger b": "(uint8[4,4] x, uint8[4,4] w, int8 z, uint8 a) => (y) { y = MatMulInteger (x, w, a, z) }",
    "ConvInteger": "(uint8[1,1,4,4] x, int8[1,1,2,2] w, int8 z) => (y) { y = ConvInteger (x, w, z) }",
    "QLinearMatMul": "(uint8[4,4] x, float s, int8 z, uint8 o) => (y) { y = QLinearMatMul (x, s, z, x, s, o, s, o) }",
    "QLinearMatMul scale": "(uint8[4,4] x, float s, uint8 z, float16 h) => (y)"
    " { y = QLinearMatMul (x, s, z, x, h, z, s, z) }",
    "QLinearConv": "(uint8[1,1,4,4] x, float s, int8 z, uint8 o) => (y) { y = QLinearConv (x, s, z, x, s, o, s, o) }",
    "Pad": "(uint8[4] x, int64[2] p, int8 z) => (y) { y = Pad (x, p, z) }",
    "Pad constant": "(float16[4] x, int64[2] p) => (y) <float z = {0.1}> { y = Pad (x, p, z) }",
    "SequenceConstruct": "(uint8[4] x, int8 z) => (y) { s = SequenceConstruct (x, z) i = Constant <value_int = 0> ()"
    " y = SequenceAt (s, i) }",
    "SequenceInsert": "(seq(uint8[4]) x, int8 z) => (y) { s = SequenceInsert (x, z) i = Constant <value_int = 0> ()"
    " y = SequenceAt (s, i) }",
}


REFUSED = ("MatMulInteger", "MatMulInteger b", "ConvInteger", "QLinearMatMul", "QLinearConv")
REFUSED_AT = {19: (*REFUSED, "DequantizeLinear", "DequantizeLinear constant"), 21: REFUSED}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("opset", REFUSED_AT)
def test_no_rank_makes_a_scalar_of_a_parameter(name: str, opset: int) -> None:
    """PyTorch's rule would cast it to the type of the tensor beside it, which does not hold its values."""
    if name in REFUSED_AT[opset]:
        with pytest.raises(PromotionError, match=name.split()[0]):
            optimize(_model(PARAMETERS[name], opset), promotion="torch")
        return
    result = optimize(_model(PARAMETERS[name], opset), promotion="torch")
    for node in result.model.graph.all_nodes():
        if node.op_type == "Cast":
            source, to = node.inputs[0], node.outputs[0]
            assert source is not None
            assert source.dtype is not None
            assert to.dtype is not None
            assert embeds(source.dtype, to.dtype)


def test_a_filling_that_the_tensor_holds_does_not_widen_it() -> None:
    model = _model("(float[4] x, int64[2] p) => (y) <double z = {0.5}> { y = Pad (x, p, z) }", 21)
    assert _types(optimize(model, promotion="torch").model, "Pad")[::2] == [DataType.FLOAT] * 2


def test_castlike_to_a_type_that_only_cast_takes_rounds_once() -> None:
    body = "(float[1] x) => (float6e2m3[1] y) <float6e2m3[1] t = {0}> { y = CastLike (x, t) }"
    model = optimize(_model(body, 28)).model
    (node,) = model.graph
    assert (node.op_type, node.attributes["to"].as_int()) == ("Cast", int(DataType.FLOAT6E2M3))
    for text in ("(float[1] x, int4[1] t)", "(int4[1] x, float[1] t)"):
        with pytest.raises(
            PromotionError, match=r"CastLike.*Cast of opset 19 does not support int4 \(opset 21 allows it\)"
        ):
            optimize(_model(f"{text} => (y) {{ y = CastLike (x, t) }}", 19))


IF = """(bool c, {0}[4] x, float[4] z) => (float[4] y) {{ y = If (c)
    <then_branch = t () => ({0}[4] a) {{ a = Identity (x) }}, else_branch = e () => (float[4] b) {{ b = Identity (z) }}>
    }}"""
LOOP = """(int64 n, bool c, float[4] x, {0}[4] s) => (float[4] y) {{ y = Loop (n, c, x)
    <body = b (int64 i, bool d, float[4] v) => (bool e, {0}[4] w) {{ e = Identity (d) w = Identity (s) }}> }}"""
CASTING = {
    "operands": "(float[4] x, {0}[4] z) => (float[4] y) {{ y = Add (x, z) }}",
    "illegal": "({0}[4] x) => ({0}[4] y) {{ y = Relu (x) }}",
    "if": IF,
    "loop": LOOP,
    "kept": "(float[4] x) => ({0}[4] y) {{ y = Relu (x) }}",
}
"""Places where promotion casts: operands, unsupported types, branches, states and graph outputs."""


@pytest.mark.parametrize("where", CASTING)
@pytest.mark.parametrize(("name", "first"), [("bfloat16", 13), ("float8e5m2", 19), ("int4", 21), ("uint2", 25)])
def test_no_cast_is_inserted_that_the_opset_does_not_have(where: str, name: str, first: int) -> None:
    """One opset before Cast takes the type there is a sentence that says which one to raise to."""
    model = _model(CASTING[where].format(name), first - 1)
    said = ""
    try:
        result = optimize(model, promotion=PromotionRules(promote_unsafe=True), keep_output_types=True)
        assert not any(node.op_type == "Cast" for node in result.model.graph.all_nodes())
        said = " ".join(each.message for each in result.diagnostics)
    except PromotionError as error:
        said = str(error)
    assert f"Cast of opset {first - 1} does not support {name} (opset {first} allows it)" in said


def test_the_weak_scalar_of_a_pad_is_typed_by_the_pass_alone() -> None:
    model = onnx_ir.from_proto(_model("(uint8[4] x, int64[2] p, int8 z) => (y) { y = Pad (x, p, z) }", 21))
    result = InsertPromoteTypes(True, pytorch_scalar_promotion=True, library="torch", weak_scalars=True)(model)
    assert not any(node.domain == "castsmith" for node in result.model.graph)


NAMED = {
    "MatMulInteger": "({0}[2,2] a, {0}[2,2] b, {1} z) => (y) {{ y = MatMulInteger (a, b, z) }}",
    "MatMulInteger of b": "({0}[2,2] a, {0}[2,2] b, {1} z) => (y) {{ y = MatMulInteger (a, b, , z) }}",
    "ConvInteger": "({0}[1,1,3,3] a, {0}[1,1,2,2] b, {1} z) => (y) {{ y = ConvInteger (a, b, z) }}",
    "DequantizeLinear": "({0}[2] a, float s, {1} z) => (y) {{ y = DequantizeLinear (a, s, z) }}",
    "Mod": "({0}[2] a, {1}[2] b) => (y) {{ y = Mod (a, b) }}",
    "Add": "({0}[2] a, {1}[2] b) => (y) {{ y = Add (a, b) }}",
    "BitwiseAnd": "({0}[2] a, {1}[2] b) => (y) {{ y = BitwiseAnd (a, b) }}",
    "Where": "(bool[2] c, {0}[2] a, {1}[2] b) => (y) {{ y = Where (c, a, b) }}",
    "Max": "({0}[2] a, {1}[2] b) => (y) {{ y = Max (a, b) }}",
    "Gemm": "({0}[2,2] a, {1}[2,2] b) => (y) {{ y = Gemm (a, b) }}",
}


def _refusal(model: onnx.ModelProto, rules: PromotionRules) -> PromotionError | None:
    try:
        optimize(model, promotion=rules)
    except PromotionError as error:
        return error
    return None


@pytest.mark.parametrize("name", NAMED)
def test_a_refusal_names_an_option_only_if_that_option_is_enough(name: str) -> None:
    refused = 0
    pairs = [("uint8", "int8"), ("int64", "float"), ("int4", "uint8"), ("float16", "bfloat16"), ("uint64", "int8")]
    for pair, opset in sampled(f"operands refused [{name}]", product(pairs, (12, 18, 21)), 15, cover=enumerate):
        model = _model(NAMED[name].format(*pair), opset)
        findings = " ".join(found.help for found in castsmith.check(model) if found.code == "mixed-operand-types")
        safe, unsafe = _refusal(model, PromotionRules()), _refusal(model, PromotionRules(promote_unsafe=True))
        if safe is not None:
            refused += 1
            assert ("promote_unsafe" in str(safe)) == (unsafe is None), (pair, opset)
            assert ("promote_unsafe=True" in findings) == (unsafe is None), (pair, opset)
    assert refused


CONTRADICTED = {
    "BitCast to float needs an operand of 32 bits, not of 64": (
        26,
        "(int64[2] x) => (float[2] y) { y = BitCast <to = 1> (x) }",
    ),
    "QuantizeLinear to int8 by its output_dtype needs a zero point of that type": (
        23,
        "(float[2] x, float s, uint8 z) => (int8[2] y) { y = QuantizeLinear <output_dtype = 3> (x, s, z) }",
    ),
    "If of opset 21 needs bool, not int32": (
        21,
        "(int32 c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Abs (x) },"
        " else_branch = e () => (float[2] b) { b = Neg (x) }> }",
    ),
    "Loop of opset 21 needs int64, not float": (
        21,
        "(float n, bool c, float[2] x) => (float[2] y) { y = Loop (n, c, x) <body = b (int64 i, bool d, float[2] v)"
        " => (bool e, float[2] w) { e = Identity (d) w = Abs (v) }> }",
    ),
}


@pytest.mark.parametrize("reason", CONTRADICTED)
def test_what_no_cast_sets_right_is_said(reason: str) -> None:
    """An attribute or the operator's text fixes the type: `check` and `optimize` name both, and nothing is written."""
    opset, body = CONTRADICTED[reason]
    model = _model(body, opset)
    result = optimize(model)
    for found in (castsmith.check(model), result.diagnostics):
        assert "type-not-allowed" in {each.code for each in found if reason in each.message}
    assert not any(node.op_type == "Cast" for node in result.model.graph.all_nodes())
