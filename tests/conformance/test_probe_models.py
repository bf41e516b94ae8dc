"""The models with which a runtime is probed: each is valid, and of the opset and the type."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.defs
import onnx.parser
import onnx.shape_inference
import pytest
from onnx_ir import DataType

from castsmith.conformance.probe_models import TEXTS, contrib_model, model_text, versions

FLOAT, INT8 = DataType.FLOAT, DataType.INT8


def _parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(text)
    return model


def _is_valid(op: str, dtype: DataType, opset: int, ir_version: int = 13) -> bool:
    try:
        onnx.checker.check_model(_parsed(model_text(op, dtype, opset, ir_version)), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


_DEPRECATED = {"Scatter", "Upsample"}


def test_each_operator_has_a_model_that_is_valid_for_a_type_of_its_own() -> None:
    """At its newest opset; deprecated operators are refused by onnx, and MeanVarianceNormalization by its inference."""
    types = (FLOAT, DataType.INT32, DataType.INT64, DataType.BOOL, DataType.STRING, INT8, DataType.UINT8)
    newest = onnx.defs.onnx_opset_version()
    invalid = {
        op
        for op in TEXTS
        if not any(opsets and _is_valid(op, t, opsets[-1]) for t in types for opsets in [list(versions(op, t, newest))])
    }
    assert invalid <= {*_DEPRECATED, "MeanVarianceNormalization"}


_OLDER = {
    "Cast": (6, "NAME"), "Constant": (6, "g"), "Reshape": (5, "shape ="), "Tile": (6, "T[1] n"), "Gemm": (11, "z, z)"),
    "Clip": (11, "min ="), "Split": (13, "split ="), "Slice": (10, "starts ="), "Squeeze": (13, "axes ="),
    "Unsqueeze": (13, "axes ="), "Pad": (11, "pads ="), "ReduceSum": (13, "axes ="), "TopK": (10, "k ="),
    "BatchNormalization": (6, "consumed_inputs"), "Upsample": (9, "scales ="), "Resize": (11, "x, s"),
}  # fmt: skip
"""The opset in which the operator takes other inputs."""


def test_older_operators_have_models_of_their_own() -> None:
    for op, (opset, _) in _OLDER.items():
        before, after = (model_text(op, FLOAT, number, 3).partition("\n")[2] for number in (opset - 1, max(opset, 7)))
        assert before != after, op
        assert model_text(op, FLOAT, opset, 3).partition("\n")[2] == after or op in ("Pad", "Upsample", "Cast")
        if op not in _DEPRECATED:
            assert _is_valid(op, FLOAT, max(opset, 7), 10), op
            assert _is_valid(op, FLOAT, opset - 1, 10), op
    assert "paddings" in model_text("Pad", FLOAT, 1, 3)
    assert "height_scale" in model_text("Upsample", FLOAT, 6, 3)


def test_the_text_of_a_model() -> None:
    rows = {
        ("Relu", FLOAT): "agraph (float[2,2] x) => (float[A,B] y) { y = Relu (x) }",
        ("Mod", FLOAT): "agraph (float[2,2] x, float[2,2] z) => (float[A,B] y) { y = Mod <fmod = 1> (x, z) }",
        ("Mod", DataType.FLOAT16): "agraph (float16[2,2] x, float16[2,2] z) => (float16[A,B] y)"
        " { y = Mod <fmod = 1> (x, z) }",
        ("Mod", INT8): "agraph (int8[2,2] x, int8[2,2] z) => (int8[A,B] y) { y = Mod (x, z) }",
        ("QuantizeLinear", FLOAT): "agraph (float[2] x, float s, uint8 z) => (uint8[2] y)"
        " { y = QuantizeLinear (x, s, z) }",
        (
            "QuantizeLinear",
            INT8,
        ): "agraph (float[2] x, float s, int8 z) => (int8[2] y) { y = QuantizeLinear (x, s, z) }",
        ("DequantizeLinear", DataType.FLOAT16): "agraph (uint8[2] x, float16 s, uint8 z) => (float16[2] y)"
        " { y = DequantizeLinear (x, s, z) }",
        ("BitCast", FLOAT): "agraph (float[2] x) => (int32[2] y) { y = BitCast <to = 6> (x) }",
        ("BitCast", DataType.FLOAT16): "agraph (float16[2] x) => (uint16[2] y) { y = BitCast <to = 4> (x) }",
        ("BitCast", DataType.DOUBLE): "agraph (double[2] x) => (int64[2] y) { y = BitCast <to = 7> (x) }",
        ("BitCast", INT8): "agraph (int8[2] x) => (uint8[2] y) { y = BitCast <to = 2> (x) }",
        ("Cast", INT8): "agraph (float[2] x) => (int8[2] c, float[2] y)"
        " { c = Cast <to = 3> (x) y = Cast <to = 1> (c) }",
    }
    for (op, dtype), text in rows.items():
        assert model_text(op, dtype, 26, 12) == f'<ir_version: 12, opset_import: ["" : 26]>\n{text}'
    assert '<to = "INT8">' in model_text("Cast", INT8, 5, 3)


@pytest.mark.parametrize(
    ("op", "dtype", "newest", "expected"),
    [
        ("Add", FLOAT, 28, [*range(1, 8), 13, 14]),
        ("Add", DataType.BFLOAT16, 28, [13, 14]),
        ("Add", DataType.BFLOAT16, 13, [13]),
        ("Add", DataType.STRING, 28, []),
        ("BitCast", INT8, 26, [26]),
        ("BitCast", INT8, 25, []),
        ("Relu", FLOAT, 15, [*range(1, 8), 13, 14, 15]),  # written out in other operators: each opset
        ("LayerNormalization", FLOAT, 9, [*range(1, 10)]),  # ONNX Runtime has it in each
        ("GroupNormalization", FLOAT, 22, [18, 19, 20, 21, 22]),
    ],
)
def test_the_opsets_to_probe(op: str, dtype: DataType, newest: int, expected: list[int]) -> None:
    assert list(versions(op, dtype, newest)) == expected


def test_models_of_the_operators_of_onnx_runtime() -> None:
    model = onnx.ModelProto.FromString(contrib_model("MatMulNBits", DataType.FLOAT16, 13, 8))
    (node,) = model.graph.node
    assert (node.op_type, node.domain, list(node.input), list(node.output)) == (
        "MatMulNBits", "com.microsoft", ["i0", "i1", "i2"], ["y"],
    )  # fmt: skip
    assert {attribute.name: attribute.i for attribute in node.attribute} == {"K": 32, "N": 32, "block_size": 32}
    kinds = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    assert kinds == [10, 2, 10, 10]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 13, "com.microsoft": 1}
    assert model.ir_version == 8
    assert contrib_model("MatMulNBits", DataType.STRING, 13, 8) == b""
    assert contrib_model("None", FLOAT, 13, 8) == b""
    fused = onnx.ModelProto.FromString(contrib_model("FusedGemm", FLOAT, 9, 8)).graph.node[0]
    assert [(attribute.name, attribute.s) for attribute in fused.attribute] == [("activation", b"Relu")]
    added = onnx.ModelProto.FromString(contrib_model("QLinearAdd", INT8, 9, 8)).graph  # the zero points may be left out
    assert [*added.node[0].input] == ["i0", "i1", "", "i3", "i4", "", "i6"]
    assert [value.name for value in added.input] == ["i0", "i1", "i3", "i4", "i6"]
    assert contrib_model("BeamSearch", FLOAT, 13, 8) == b""  # it needs graphs
    for op, dtype, is_modelled in (  # a required input takes one of two types at least
        ("BiasAdd", DataType.FLOAT16, True), ("QLinearAdd", INT8, True), ("QLinearAdd", DataType.INT16, False),
        ("MatMulBnb4", DataType.UINT8, False), ("DequantizeBFP", DataType.UINT8, False),
    ):  # fmt: skip
        assert bool(contrib_model(op, dtype, 13, 8)) is is_modelled, op


def test_each_operator_of_the_standard_has_a_model() -> None:
    """But for one that reads files of images, and one whose pool, an attribute, decides its types."""
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    assert names - TEXTS.keys() == {"ImageDecoder", "TfIdfVectorizer"}
