"""Traits that hold of some nodes only: by attributes, inputs and outputs; types that attributes name; restrictions."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.helper
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.ops.table import input_kind, named_types, restriction, traits_of
from castsmith.ir.ops.traits import Input


def node_of(op_type: str, count: int = 1, outputs: int = 1, domain: str = "", **given: Any) -> onnx_ir.Node:
    attributes = [onnx_ir.from_proto(onnx.helper.make_attribute(name, value)) for name, value in given.items()]
    values = [onnx_ir.Value(name=f"x{index}") for index in range(count)]
    return onnx_ir.Node(domain, op_type, values, attributes, num_outputs=outputs)


@pytest.mark.parametrize(
    ("op_type", "given", "expected"),
    [
        ("ScatterElements", {}, True), ("ScatterElements", {"reduction": "none"}, True),
        ("ScatterElements", {"reduction": "add"}, False), ("ScatterND", {"reduction": "max"}, False),
        ("Scatter", {"reduction": "mul"}, False), ("TensorScatter", {}, True),
        ("Pad", {}, True), ("Pad", {"value": 0.0}, True),
        ("Pad", {"value": 1.5}, False), ("Pad", {"value": -0.5}, False),
        ("Resize", {}, True), ("Resize", {"mode": "nearest"}, True), ("Resize", {"mode": "linear"}, False),
        ("Resize", {"coordinate_transformation_mode": "tf_crop_and_resize"}, False),
        ("Resize", {"coordinate_transformation_mode": "asymmetric"}, True), ("Upsample", {"mode": "linear"}, False),
        ("Dropout", {"count": 1}, True), ("Dropout", {"count": 2}, True), ("Dropout", {"count": 3}, False),
        ("Dropout", {"outputs": 2}, False), ("Dropout", {"is_test": 1}, False),
        ("MaxPool", {"outputs": 1}, True), ("MaxPool", {"outputs": 2}, False),
        ("Identity", {}, True), ("Reshape", {"count": 2}, True),
    ],
)  # fmt: skip
def test_nodes_of_which_a_row_holds(op_type: str, given: dict[str, Any], expected: bool) -> None:
    assert traits_of("", op_type).holds(node_of(op_type, **given)) is expected


@pytest.mark.parametrize(
    ("op_type", "domain", "given", "opset", "words"),
    [
        ("DequantizeLinear", "", {"count": 3}, 21, "int32 has no zero point"),
        ("DequantizeLinear", "", {"count": 2}, 21, None),
        ("Mod", "", {}, 10, "with fmod = 0"), ("Mod", "", {}, 27, "with fmod = 0"), ("Mod", "", {}, 28, None),
        ("Mod", "", {"fmod": 1}, 27, None), ("Mod", "", {"fmod": 0}, 27, "with fmod = 0"), ("Mod", "", {}, 9, None),
        ("BitCast", "", {}, 26, "the same width"),
        ("TfIdfVectorizer", "", {"pool_strings": ["a"]}, 9, "pool_strings"),
        ("TfIdfVectorizer", "", {"pool_int64s": [1]}, 9, "pool_int64s"),
        ("TfIdfVectorizer", "", {}, 9, None),
        ("LabelEncoder", "ai.onnx.ml", {"keys_strings": ["a"]}, 2, "keys are strings"),
        ("LabelEncoder", "ai.onnx.ml", {"keys_int64s": [1]}, 2, "keys are int64"),
        ("LabelEncoder", "ai.onnx.ml", {"keys_floats": [1.0]}, 2, "keys are float"),
        ("LabelEncoder", "ai.onnx.ml", {"keys_floats": [1.0]}, 1, None),
        ("Add", "", {}, 21, None),
    ],
)  # fmt: skip
def test_restrictions(op_type: str, domain: str, given: dict[str, Any], opset: int, words: str | None) -> None:
    found = restriction(node_of(op_type, domain=domain, **given), opset)
    assert (found is None) is (words is None)
    assert found is None or words is None or words in found.because


def test_types_that_restrictions_leave() -> None:
    allowed = {
        (DataType.FLOAT, DataType.INT32, DataType.STRING): {
            "DequantizeLinear": (True, False, True), "Mod": (False, True, False), "BitCast": (False, False, False),
            "pool_strings": (False, False, True), "pool_int64s": (False, True, False),
        },
    }  # fmt: skip
    for types, rows in allowed.items():
        for name, expected in rows.items():
            given: dict[str, Any] = {"pool_strings": {"pool_strings": ["a"]}, "pool_int64s": {"pool_int64s": [1]}}.get(
                name, {}
            )
            node = node_of("TfIdfVectorizer" if given else name, count=3, **given)
            found = restriction(node, 26)
            assert found is not None
            assert tuple(dtype in found.allowed for dtype in types) == expected, name
    unset = onnx_ir.Node("", "DequantizeLinear", [onnx_ir.Value(name="x"), onnx_ir.Value(name="s"), None])
    assert restriction(unset, 21) is None


@pytest.mark.parametrize(
    ("op_type", "domain", "given", "expected"),
    [
        ("Cast", "", {"to": 10}, {"to": DataType.FLOAT16}), ("Cast", "", {}, {}), ("Cast", "", {"to": 0}, {}),
        ("Cast", "", {"to": 99}, {}), ("Cast", "", {"to": "FLOAT"}, {"to": DataType.FLOAT}),
        ("CastLike", "", {"to": 10}, {}),
        ("BitCast", "", {"to": 1}, {"to": DataType.FLOAT}),
        ("QuantizeLinear", "", {"output_dtype": 17, "precision": 1},
         {"output_dtype": DataType.FLOAT8E4M3FN, "precision": DataType.FLOAT}),
        ("DequantizeLinear", "", {"output_dtype": 10}, {"output_dtype": DataType.FLOAT16}),
        ("LayerNormalization", "", {"stash_type": 1}, {"stash_type": DataType.FLOAT}),
        ("RMSNormalization", "", {"stash_type": 11}, {"stash_type": DataType.DOUBLE}),
        ("GroupNormalization", "", {"stash_type": 1}, {"stash_type": DataType.FLOAT}),
        ("Range", "", {"stash_type": 1}, {"stash_type": DataType.FLOAT}),
        ("Attention", "", {"softmax_precision": 1}, {"softmax_precision": DataType.FLOAT}),
        ("FlexAttention", "ai.onnx.preview", {"softmax_precision": 1}, {"softmax_precision": DataType.FLOAT}),
        ("RandomNormal", "", {"dtype": 10}, {"dtype": DataType.FLOAT16}),
        ("Bernoulli", "", {"dtype": 7}, {"dtype": DataType.INT64}),
        ("EyeLike", "", {"dtype": 7}, {"dtype": DataType.INT64}),
        ("Multinomial", "", {"dtype": 7}, {"dtype": DataType.INT64}),
        ("SequenceEmpty", "", {"dtype": 7}, {"dtype": DataType.INT64}),
        ("HannWindow", "", {"output_datatype": 11}, {"output_datatype": DataType.DOUBLE}),
        ("MelWeightMatrix", "", {"output_datatype": 11}, {"output_datatype": DataType.DOUBLE}),
        ("Add", "", {"dtype": 7}, {}),
    ],
)  # fmt: skip
def test_types_that_attributes_name(op_type: str, domain: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert named_types(node_of(op_type, domain=domain, **given)) == expected


def test_a_parameter_names_no_type_yet() -> None:
    node = node_of("Cast")
    node.attributes.add(onnx_ir.RefAttr("to", "p", onnx_ir.AttributeType.INT))
    assert named_types(node) == {"to": None}


_STORED, _QUANTIZATION, _OPERAND = Input.STORED, Input.QUANTIZATION, Input.OPERAND


@pytest.mark.parametrize(
    ("op_type", "kinds"),
    [
        ("Pad", (_OPERAND, _OPERAND, _STORED)), ("SequenceConstruct", (_STORED, _STORED)),
        ("SequenceInsert", (_STORED, _STORED)), ("SequenceErase", (_OPERAND, _OPERAND)),
        ("QuantizeLinear", (_OPERAND, _QUANTIZATION, _QUANTIZATION)),
        ("DequantizeLinear", (_OPERAND, _QUANTIZATION, _QUANTIZATION)),
        ("QLinearConv", (_OPERAND, _QUANTIZATION, _QUANTIZATION, _OPERAND, *[_QUANTIZATION] * 4, _OPERAND)),
        ("QLinearMatMul", (_OPERAND, _QUANTIZATION, _QUANTIZATION, _OPERAND, *[_QUANTIZATION] * 4)),
        ("ConvInteger", (_OPERAND, _OPERAND, _QUANTIZATION, _QUANTIZATION)),
        ("MatMulInteger", (_OPERAND, _OPERAND, _QUANTIZATION, _QUANTIZATION)),
        ("LayerNormalization", (_OPERAND, _QUANTIZATION, _OPERAND)),
        ("RMSNormalization", (_OPERAND, _QUANTIZATION)), ("GroupNormalization", (_OPERAND, _QUANTIZATION, _OPERAND)),
        ("BatchNormalization", (_OPERAND, _QUANTIZATION, _OPERAND, _OPERAND)),
        ("InstanceNormalization", (_OPERAND, _QUANTIZATION, _OPERAND)), ("Add", (_OPERAND, _OPERAND)),
    ],
)  # fmt: skip
def test_kinds_of_inputs(op_type: str, kinds: tuple[Input, ...]) -> None:
    assert tuple(input_kind("", op_type, index) for index in range(len(kinds))) == kinds
    assert input_kind("ai.onnx", op_type, 0) is kinds[0]


def test_operators_whose_traits_no_execution_shows() -> None:
    """Sums of products, revised operators, and attributes that came later: what a cast to an older opset asks."""
    assert {op_type for op_type in _ALL if traits_of("", op_type).products} == {
        "Attention", "Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul", "GRU", "LSTM", "RNN",
    }  # fmt: skip
    assert {op_type for op_type in _ALL if traits_of("", op_type).random} == {
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    }  # fmt: skip
    assert {op_type for op_type in _ALL if traits_of("", op_type).typed_by_input} == {
        "Bernoulli", "RandomNormalLike", "RandomUniformLike", "EyeLike", "DequantizeLinear",
    }  # fmt: skip
    assert {op_type for op_type in _ALL if traits_of("", op_type).revised} == {
        "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "OneHot", "PRelu", "Mod",
        "BatchNormalization", "ConvTranspose",
    }  # fmt: skip
    assert {op_type: traits_of("", op_type).on_bool for op_type in _ALL if traits_of("", op_type).on_bool} == {
        "Add": "Or", "Mul": "And", "Max": "Or", "Min": "And", "Sum": "Or",
    }  # fmt: skip
    assert {op_type: traits_of("", op_type).in_pairs for op_type in _ALL if traits_of("", op_type).in_pairs} == {
        "Sum": "Add"
    }
    assert {op_type for op_type in _ALL if traits_of("", op_type).never_scalar} == {
        "Unsqueeze", "Concat", "Shape", "NonZero",
    }  # fmt: skip
    assert {op_type: traits_of("", op_type).later for op_type in _ALL if traits_of("", op_type).later} == {
        "Reshape": ("allowzero",), "DepthToSpace": ("mode",), "Shape": ("start", "end"),
        "MaxPool": ("ceil_mode", "storage_order"), "AveragePool": ("ceil_mode",), "ArgMax": ("select_last_index",),
        "ArgMin": ("select_last_index",), **dict.fromkeys(("GRU", "LSTM", "RNN"), ("layout",)),
    }  # fmt: skip


_ALL = sorted({schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""})
