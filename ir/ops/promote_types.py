"""ConvertPromoteTypes: the node and its bodies, model-local functions of Cast and Identity, so that it runs anywhere.

The node takes two operands and returns both in their common type. Source: OpenVINO, ConvertPromoteTypes-14. Its domain
is `castsmith`; attributes at their defaults are left out.

There is one function for each triple of operand types and common type. They are distinguished by overload; before IR
version 10, which has no overloads, and for calls inside functions, whose overload ONNX Runtime 1.31 loses, by name:
`ConvertPromoteTypes_int64_float_float`. Models of an IR version before 8, which has no model-local functions, get
version 8 for as long as they have ConvertPromoteTypes.
"""

from __future__ import annotations

from dataclasses import asdict

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.walks import all_nodes, nodes_of
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name

CONVERT_PROMOTE_TYPES = "ConvertPromoteTypes"
CASTSMITH_DOMAIN = "castsmith"


def is_convert_promote_types(node: onnx_ir.Node) -> bool:
    return node.domain == CASTSMITH_DOMAIN and node.op_type.partition("_")[0] == CONVERT_PROMOTE_TYPES


def rule_values(rules: PromotionRules) -> dict[str, int | str]:
    """Return the rules as attribute values."""
    return {name: value if isinstance(value, str) else int(value) for name, value in asdict(rules).items()}


def promotion_attributes(rules: PromotionRules) -> dict[str, int | str]:
    """Return the attributes of a ConvertPromoteTypes node under `rules`: those that differ from the defaults."""
    defaults = rule_values(PromotionRules())
    return {name: value for name, value in rule_values(rules).items() if value != defaults[name]}


def promotion_rules_of(node: onnx_ir.Node) -> PromotionRules:
    """Return the rules that a ConvertPromoteTypes node carries in its attributes."""
    target = node.attributes.get_int("u64_integer_promotion_target", int(DataType.FLOAT))
    return PromotionRules(
        promote_unsafe=bool(node.attributes.get_int("promote_unsafe", 0)),
        pytorch_scalar_promotion=bool(node.attributes.get_int("pytorch_scalar_promotion", 0)),
        u64_integer_promotion_target=DataType(target),
        library=node.attributes.get_string("library", "openvino") or "openvino",
        weak_scalars=bool(node.attributes.get_int("weak_scalars", 0)),
        half_constants=bool(node.attributes.get_int("half_constants", 0)),
    )


_FUNCTIONS_SINCE = 8
_WITHOUT_FUNCTIONS = frozenset(map(str, range(1, _FUNCTIONS_SINCE)))
_OVERLOADS_SINCE = 10
_OWN_VERSION = "castsmith.ir_version"
"""The key of the model's metadata with the IR version to restore."""


def give_body(model: onnx_ir.Model, node: onnx_ir.Node, lhs: DataType, rhs: DataType, *, in_function: bool) -> None:
    """Make the ConvertPromoteTypes node, whose operands have the types, a call of a function of the model."""
    common = node.outputs[0].dtype
    common = present(common, "the common type")
    if model.ir_version < _FUNCTIONS_SINCE:
        model.metadata_props[_OWN_VERSION] = str(model.ir_version)
        model.ir_version = _FUNCTIONS_SINCE
    types = "_".join(type_name(dtype) for dtype in (lhs, rhs, common))
    if model.ir_version >= _OVERLOADS_SINCE and not in_function:
        node.overload = types
    else:
        node.op_type = f"{CONVERT_PROMOTE_TYPES}_{types}"
    if node.op_identifier() not in model.functions:
        opset = opset_of(model.opset_imports, "")
        model.functions[node.op_identifier()] = _function(node.op_identifier(), (lhs, rhs), common, opset or 1)


def drop_unused_bodies(model: onnx_ir.Model) -> None:
    """Remove the functions of ConvertPromoteTypes if no call is left, and restore the IR version."""
    if all(CASTSMITH_DOMAIN not in scope.opset_imports for scope in (model.graph, *model.functions.values())):
        return
    if any(is_convert_promote_types(node) for node in all_nodes(model)):
        return
    for identifier in [i for i in model.functions if i[0] == CASTSMITH_DOMAIN and _names_promotion(i)]:
        del model.functions[identifier]
    own = model.metadata_props.pop(_OWN_VERSION, "")
    if own in _WITHOUT_FUNCTIONS and not model.functions:
        model.ir_version = int(own)
    for scope in (model.graph, *model.functions.values()):
        if all(node.domain != CASTSMITH_DOMAIN for node in nodes_of(scope)):  # others may have operators in the domain
            scope.opset_imports.pop(CASTSMITH_DOMAIN, None)


def _names_promotion(identifier: onnx_ir.OperatorIdentifier) -> bool:
    return identifier[1].partition("_")[0] == CONVERT_PROMOTE_TYPES


def _function(
    identifier: onnx_ir.OperatorIdentifier, types: tuple[DataType, DataType], common: DataType, opset: int
) -> onnx_ir.Function:
    inputs = [onnx_ir.Value(name=f"input_{index}") for index in range(2)]
    nodes: list[onnx_ir.Node] = []
    for index, (value, dtype) in enumerate(zip(inputs, types, strict=True)):
        cast = dtype != common
        made_node = onnx_ir.node("Cast", [value], {"to": int(common)}) if cast else onnx_ir.node("Identity", [value])
        made_node.outputs[0].name = f"output_{index}"
        nodes.append(made_node)
    outputs = [node.outputs[0] for node in nodes]
    domain, name, overload = identifier
    graph = onnx_ir.Graph(
        inputs, outputs, nodes=nodes, opset_imports={"": opset}, name=".".join(filter(None, identifier))
    )
    defaults = [
        onnx_ir.convenience.convert_attribute(key, value) for key, value in rule_values(PromotionRules()).items()
    ]
    return onnx_ir.Function(domain, name, overload, graph=graph, attributes=defaults)
