"""ConvertPromoteTypes: its functions and the IR version, as they come and go with the calls."""

from __future__ import annotations

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.ops.promote_types import (
    drop_unused_bodies,
    give_body,
    is_convert_promote_types,
    promotion_attributes,
    promotion_rules_of,
    rule_values,
)
from castsmith.numerics.promotion.rules import PromotionRules

INT, FLOAT = DataType.INT32, DataType.FLOAT


@pytest.mark.parametrize(
    ("domain", "name", "expected"),
    [
        ("castsmith", "ConvertPromoteTypes", True),
        ("castsmith", "ConvertPromoteTypes_int32_float_float", True),
        ("castsmith", "ConvertPromoteTypesToo", False),
        ("castsmith", "Own", False),
        ("", "ConvertPromoteTypes", False),
        ("other", "ConvertPromoteTypes_int32_float_float", False),
    ],
)
def test_which_nodes_promote(domain: str, name: str, expected: bool) -> None:
    assert is_convert_promote_types(onnx_ir.Node(domain, name, [])) is expected


def test_rules_are_attributes() -> None:
    """Numbers and text; only those that differ from the defaults."""
    values = rule_values(PromotionRules())
    assert {name: type(value) for name, value in values.items()} == {
        **dict.fromkeys(values, int),
        "library": str,
    }
    assert promotion_attributes(PromotionRules()) == {}
    rules = PromotionRules(promote_unsafe=True, u64_integer_promotion_target=DataType.DOUBLE)
    assert promotion_attributes(rules) == {"promote_unsafe": 1, "u64_integer_promotion_target": 11}
    node = onnx_ir.node("ConvertPromoteTypes", [], promotion_attributes(rules), domain="castsmith")
    assert promotion_rules_of(node) == rules


def model_of(ir_version: int) -> onnx_ir.Model:
    """A model with two calls, of int32 and float, and of float and int32, that have no body yet."""
    model = onnx_ir.from_onnx_text(f"""<ir_version: {ir_version}, opset_import: ["": 15, "castsmith": 1]>
        g (int32[2] i, float[2] x) => (float[2] y) {{
            a, b = castsmith.ConvertPromoteTypes (i, x)
            c, d = castsmith.ConvertPromoteTypes (x, i)
            y = Add (a, c) }}""")
    for node in model.graph:
        for value in node.outputs:
            value.dtype = FLOAT
    return model


def give_bodies(model: onnx_ir.Model, *, in_function: bool = False) -> None:
    first, second, _ = model.graph
    give_body(model, first, INT, FLOAT, in_function=in_function)
    give_body(model, second, FLOAT, INT, in_function=in_function)


@pytest.mark.parametrize(("ir_version", "in_function", "overloads"), [
    (7, False, False), (8, False, False), (9, False, False), (10, False, True), (10, True, False), (11, False, True),
])  # fmt: skip
def test_calls_of_one_kind_share_a_function(ir_version: int, in_function: bool, overloads: bool) -> None:
    model = model_of(ir_version)
    give_bodies(model, in_function=in_function)
    kinds = ("int32_float_float", "float_int32_float")
    name = "ConvertPromoteTypes"
    called = [("castsmith", name, kind) if overloads else ("castsmith", f"{name}_{kind}", "") for kind in kinds]
    assert [node.op_identifier() for node in model.graph][:2] == [*model.functions] == called
    assert [[node.op_type for node in function] for function in model.functions.values()] == [
        ["Cast", "Identity"],
        ["Identity", "Cast"],
    ]
    assert {function.opset_imports[""] for function in model.functions.values()} == {15}
    bodies = [*model.functions.values()]
    other = onnx_ir.node("ConvertPromoteTypes", model.graph[0].inputs, domain="castsmith", num_outputs=2)
    for value in other.outputs:
        value.dtype = FLOAT
    give_body(model, other, INT, FLOAT, in_function=in_function)
    assert other.op_identifier() == called[0]
    assert all(a is b for a, b in zip(model.functions.values(), bodies, strict=True))


@pytest.mark.parametrize(("ir_version", "own", "after"), [(7, False, 7), (7, True, 8), (8, False, 8), (10, True, 10)])
def test_functions_go_with_the_last_call(ir_version: int, own: bool, after: int) -> None:
    """own: The model has a function of its own in the domain, so it keeps the version that knows functions."""
    model = model_of(ir_version)
    give_bodies(model)
    assert model.ir_version == max(8, ir_version)
    bodies = set(model.functions)
    if own:
        body = onnx_ir.Graph([], [], nodes=[], opset_imports={"": 15}, name="own")
        model.functions["castsmith", "Own", ""] = onnx_ir.Function("castsmith", "Own", graph=body, attributes=[])
    first, second, add = model.graph
    add.replace_input_with(0, model.graph.inputs[1])
    model.graph.remove(first, safe=True)
    drop_unused_bodies(model)
    assert bodies <= set(model.functions)  # one call is left
    add.replace_input_with(1, model.graph.inputs[1])
    model.graph.remove(second, safe=True)
    drop_unused_bodies(model)
    assert [*model.functions] == [("castsmith", "Own", "")] * own
    assert model.ir_version == after
    assert dict(model.graph.opset_imports) == {"": 15}
    assert not model.metadata_props


def test_what_else_is_in_the_domain_keeps_its_import() -> None:
    model = model_of(10)
    model.graph.append(onnx_ir.node("Own", [model.graph.inputs[0]], domain="castsmith"))
    first, second, add, _ = model.graph
    for index in range(2):
        add.replace_input_with(index, model.graph.inputs[1])
    model.graph.remove((first, second), safe=True)
    drop_unused_bodies(model)
    assert dict(model.graph.opset_imports) == {"": 15, "castsmith": 1}
