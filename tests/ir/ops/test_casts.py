"""Nodes that convert, constants that an opset cannot state, and changes of operators between opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.constants import constant_nodes, new_constant
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.casts import CastNode, cast_node, conversion, idle_attributes, read_cast, spell_casts
from castsmith.ir.ops.changes import CHANGES, changes_between
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import PromotionError


def node_of(op_type: str, count: int = 1, outputs: int = 1, **given: Any) -> onnx_ir.Node:
    attributes = [onnx_ir.from_proto(onnx.helper.make_attribute(name, value)) for name, value in given.items()]
    values = [onnx_ir.Value(name=f"x{index}") for index in range(count)]
    return onnx_ir.Node("", op_type, values, attributes, num_outputs=outputs)


_F, _I, _FNUZ = DataType.FLOAT, DataType.INT32, DataType.FLOAT8E4M3FNUZ
_TOUCHED: dict[tuple[str, int], list[tuple[dict[str, Any], tuple[Any, ...], bool]]] = {
    **{(op_type, 24): [
        ({}, (_F, _FNUZ), True), ({}, (_F, DataType.FLOAT8E5M2FNUZ), True), ({}, (_F, None), True),
        ({}, (_F, DataType.FLOAT8E4M3FN), False), ({"saturate": 0}, (_F, _FNUZ), False),
        ({"saturate": 1}, (_F, _FNUZ), True),
    ] for op_type in ("Cast", "CastLike", "QuantizeLinear")},
    **{(op_type, 13): [({}, (_F, _F), True)] for op_type in ("Softmax", "LogSoftmax", "Hardmax")},
    ("BatchNormalization", 14): [({"outputs": 2}, (_F,), True), ({"training_mode": 1}, (_F,), True), ({}, (_F,), False),
                                 ({"training_mode": 0}, (_F,), False)],
    ("RoiAlign", 16): [({}, (_F,), True), ({"coordinate_transformation_mode": "half_pixel"}, (_F,), True),
                       ({"coordinate_transformation_mode": "output_half_pixel"}, (_F,), False)],
    **{(op_type, 18): [({"reduction": mode}, (_F,), mode in ("max", "min")) for mode in ("max", "min", "add", "none")]
       + [({}, (_F,), False)] for op_type in ("ScatterElements", "ScatterND")},
    ("Pad", 19): [({"mode": "wrap"}, (_F,), True), ({"mode": "edge"}, (_F,), False), ({}, (_F,), False)],
    ("Split", 18): [({}, (_F,), True), ({"count": 2}, (_F,), False)],
    ("Resize", 18): [({"keep_aspect_ratio_policy": mode}, (_F,), mode != "stretch")
                     for mode in ("not_larger", "not_smaller", "stretch")],
    ("Resize", 19): [({"coordinate_transformation_mode": mode}, (_F,), mode == "half_pixel_symmetric")
                     for mode in ("half_pixel_symmetric", "half_pixel")],
    ("AveragePool", 19): [({"ceil_mode": 1}, (_F,), True), ({"ceil_mode": 0}, (_F,), False), ({}, (_F,), False)],
    ("AveragePool", 22): [({"ceil_mode": 1}, (_F,), True), ({}, (_F,), False)],
    ("MaxPool", 22): [({"ceil_mode": 1}, (_F,), True), ({}, (_F,), False)],
    ("Mod", 28): [({"fmod": 1}, (_I, _I), True), ({}, (_I, _I), False), ({"fmod": 1}, (_F, _F), False),
                  ({}, (_F, _F), True), ({}, (None, None), True)],
    **{(op_type, since): [({}, (_F,), True)] for op_type, since in (
        ("DFT", 20), ("GridSample", 20), ("GroupNormalization", 21), ("Attention", 24), ("Attention", 25))},
}  # fmt: skip
"""For each change of an operator: attributes, types of operands and result, and True if it affects the node."""


@pytest.mark.parametrize(("op_type", "since"), _TOUCHED, ids=str)
def test_the_nodes_that_a_change_affects(op_type: str, since: int) -> None:
    for given, types, touched in _TOUCHED[op_type, since]:
        found = changes_between(node_of(op_type, **given), types, since - 1, since)
        assert [each.since for each in found] == [since] * touched, given
        later = changes_between(node_of(op_type, **given), types, since, 30)
        assert all(each.since > since for each in later)
        assert changes_between(node_of("Abs"), types, 1, 30) == []


def test_every_change_is_tested() -> None:
    assert sorted({(each.op_type, each.since) for each in CHANGES}) == sorted(_TOUCHED)


def test_a_parameter_of_a_function_may_have_any_value() -> None:
    node = node_of("AveragePool")
    assert changes_between(node, (_F,), 1, 22) == []
    node.attributes.add(onnx_ir.RefAttr("ceil_mode", "p", onnx_ir.AttributeType.INT))
    assert [each.since for each in changes_between(node, (_F,), 1, 22)] == [19, 22]
    for (op_type, since), rows in _TOUCHED.items():
        for given, types, _ in rows:
            for name in given.keys() - {"outputs", "count"}:
                node = node_of(op_type)
                node.attributes.add(onnx_ir.RefAttr(name, "p", onnx_ir.AttributeType.INT))
                found = changes_between(node, types, since - 1, since)
                assert [each.since for each in found] == [since], (op_type, name)


def test_an_omitted_second_input_of_split() -> None:
    node = onnx_ir.Node("", "Split", [onnx_ir.Value(name="x"), None], num_outputs=2)
    assert len(changes_between(node, (_F,), 17, 18)) == 1


@pytest.mark.parametrize(("opset", "expected"), [(5, ["FLOAT16", "INT64"]), (6, [10, 7]), (21, [10, 7])])
def test_cast_1_takes_names(opset: int, expected: list[Any]) -> None:
    text = f"""<ir_version: 3, opset_import: ["" : {opset}, "d" : 1]> g (float[2] x, bool c)
        => (int64[2] y, float16[2] z) {{ y = Cast <to = 7> (x)
        z = If (c) <then_branch = t () => (float16[2] p) {{ p = Cast <to = 10> (x) }},
        else_branch = e () => (float16[2] q) {{ q = Cast <to = 10> (x) }}>
        w = Neg <to = 7> (x) v = d.Cast <to = 7> (x) }}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    for _ in range(2):
        spell_casts(model)
        casts = [node for node in model.graph.all_nodes() if node.op_type == "Cast" and not node.domain]
        assert sorted({node.attributes["to"].value for node in casts}, key=str) == expected
        others = [node for node in model.graph if node.op_type == "Neg" or node.domain]
        assert [node.attributes["to"].value for node in others] == [7, 7]


@pytest.mark.parametrize("kind", ["int", "string"])
def test_a_type_that_is_a_parameter_of_the_function_is_not_spelled(kind: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 5, "d" : 1]> g (float[2] x) => (float[2] y)
        {{ y = d.f <to = 1> (x) }}
        <domain: "d", opset_import: ["" : 5]> f <to> (a) => (b)
        {{ b = Cast <to: {kind} = @to> (a) c = Cast <to = 7> (a) d = Cast <to = "int32"> (a) }}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    spell_casts(model)
    (function,) = model.functions.values()
    parameter, number, word = (node.attributes["to"] for node in function)
    assert (parameter.ref_attr_name, parameter.value, number.value, word.value) == ("to", None, "INT64", "int32")


def sequence() -> onnx_ir.Value:
    return onnx_ir.Value(name="s", type=onnx_ir.SequenceType(onnx_ir.TensorType(DataType.FLOAT)))


def test_a_sequence_is_converted_element_by_element() -> None:
    node = conversion(sequence(), DataType.FLOAT16, {"": 17})
    assert (node.op_type, node.name, node.inputs[0].name if node.inputs[0] else "") == (
        "SequenceMap", "castsmith_s_to_float16", "s",
    )  # fmt: skip
    assert (node.outputs[0].name, str(node.outputs[0].type)) == ("s_float16", "Sequence(Tensor(FLOAT16))")
    body = node.attributes["body"].as_graph()
    assert (body.name, body.inputs[0].name, body.inputs[0].dtype) == ("s_to_float16", "s_element", DataType.FLOAT)
    (inner,) = body
    assert (inner.op_type, inner.attributes["to"].value, inner.inputs[0]) == ("Cast", 10, body.inputs[0])
    assert list(body.outputs) == list(inner.outputs)
    with pytest.raises(PromotionError, match=r"^the sequence s must be cast to float16, .*: raise the opset to 17 or"):
        conversion(sequence(), DataType.FLOAT16, {"": 16})


def test_the_schema_shows_what_is_a_sequence() -> None:
    made = onnx_ir.Node("", "SequenceConstruct", [onnx_ir.Value(name="x")], num_outputs=1).outputs[0]
    made.name = "s"
    assert conversion(made, DataType.FLOAT16, {"": 17}).op_type == "SequenceMap"
    assert not conversion(made, DataType.FLOAT16, {"": 17}).attributes["body"].as_graph().inputs[0].type
    plain = onnx_ir.Node("", "Neg", [onnx_ir.Value(name="x")], num_outputs=1).outputs[0]
    assert conversion(plain, DataType.FLOAT16, {"": 17}).op_type == "Cast"
    other = onnx_ir.Node("f", "n", [onnx_ir.Value(name="x")], num_outputs=1).outputs[0]
    assert conversion(other, DataType.FLOAT16, {"": 17}).op_type == "Cast"
    assert conversion(onnx_ir.Value(name="x"), DataType.FLOAT16, {"": 17}).op_type == "Cast"


def test_types_that_a_cast_lacks_are_named() -> None:
    value = onnx_ir.Value(name="v", type=onnx_ir.TensorType(DataType.FLOAT))
    with pytest.raises(PromotionError, match=r"^v must be cast to bfloat16: "):
        conversion(value, DataType.BFLOAT16, {"": 12})
    assert conversion(value, DataType.BFLOAT16, {"": 13}).op_type == "Cast"


def test_a_cast_states_what_is_not_a_default() -> None:
    value = onnx_ir.Value(name="v", type=onnx_ir.TensorType(DataType.FLOAT), shape=onnx_ir.Shape([2]))
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"saturate": True, "round_mode": "up"}, {}),
        ({"saturate": False}, {"saturate": 0}),
        ({"round_mode": "down"}, {"round_mode": "down"}),
        ({"saturate": False, "round_mode": "nearest"}, {"saturate": 0, "round_mode": "nearest"}),
    ]
    for given, written in cases:
        node = cast_node(value, DataType.FLOAT8E8M0, **given)
        assert {name: each.value for name, each in node.attributes.items()} == {"to": 24, **written}
        meaning = CastNode(DataType.FLOAT8E8M0, given.get("saturate", True), given.get("round_mode", "up"))
        assert read_cast(node) == meaning
        (output,) = node.outputs
        assert (node.name, output.name, output.dtype, output.shape) == (
            "castsmith_v_to_float8e8m0", "v_float8e8m0", DataType.FLOAT8E8M0, value.shape,
        )  # fmt: skip


def test_the_attributes_that_have_no_effect_on_the_type() -> None:
    cases: list[tuple[int, dict[str, Any], list[str]]] = [
        (17, {"saturate": 0}, []), (1, {"saturate": 0}, ["saturate"]), (24, {"saturate": 0}, []),
        (24, {"round_mode": "down"}, []), (17, {"round_mode": "down"}, ["round_mode"]),
        (10, {"saturate": 0, "round_mode": "down"}, ["saturate", "round_mode"]), (10, {"saturate": 1}, []),
    ]  # fmt: skip
    for to, given, expected in cases:
        assert idle_attributes(node_of("Cast", to=to, **given)) == expected, (to, given)
        like = DataType(to)
        assert idle_attributes(node_of("CastLike", 2, **given), like) == expected, (to, given)
    assert idle_attributes(node_of("CastLike", 2, saturate=0)) == []
    assert idle_attributes(node_of("Neg", saturate=0)) == []


def constant(dtype: DataType, *numbers: float) -> onnx_ir.Value:
    return new_constant("k", onnx_ir.tensor(cast(np.array(numbers, np.float64), dtype), dtype=dtype, name="k"))


@pytest.mark.parametrize(
    ("dtype", "opset", "held"),
    [
        (DataType.FLOAT, 8, None), (DataType.FLOAT16, 8, None), (DataType.INT64, 8, DataType.FLOAT),
        (DataType.INT64, 9, None), (DataType.DOUBLE, 8, None), (DataType.FLOAT6E2M3, 28, DataType.FLOAT),
    ],
)  # fmt: skip
def test_constants_that_an_opset_states_in_another_type(dtype: DataType, opset: int, held: DataType | None) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip("needs a newer onnx")
    value = constant(dtype, 1, -2)
    nodes = constant_nodes(value, opset)
    assert value.const_value is None
    assert [node.op_type for node in nodes] == (["Constant"] if held is None else ["Constant", "Cast"])
    tensor = nodes[0].attributes["value"].as_tensor()
    assert (tensor.dtype, tensor.numpy().astype(np.float64).tolist()) == (held or dtype, [1, -2])
    assert nodes[-1].outputs[0] is value
    if held is not None:
        assert nodes[1].attributes["to"].value == int(dtype)
        assert nodes[1].inputs[0] is nodes[0].outputs[0]
        assert nodes[0].outputs[0].name == f"k_{'float' if held == DataType.FLOAT else 'double'}"


def test_a_constant_that_no_type_holds_is_refused() -> None:
    for number, held in ((2**24, DataType.FLOAT), (2**24 + 1, DataType.DOUBLE), (2**53 + 1, None)):
        value = new_constant("k", onnx_ir.tensor(np.array([number]), name="k"))
        if held is not None:
            assert constant_nodes(value, 8)[0].attributes["value"].as_tensor().dtype == held
            continue
        with pytest.raises(
            ModelError, match=r"^opset 8 cannot express the constant k of int64, which its Constant does"
        ):
            constant_nodes(value, 8)
        assert value.const_value is not None
    texts = new_constant("k", onnx_ir.tensor(np.array(["a"], object), dtype=DataType.STRING, name="k"))
    with pytest.raises(ModelError, match=r"^opset 8 cannot express the constant k of string"):
        constant_nodes(texts, 8)
