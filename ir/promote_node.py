"""ConvertPromoteTypes as a node: two operands in, the same two out in their common type.

Source: OpenVINO, ConvertPromoteTypes-14. The node is of the domain `castsmith`; attributes at their defaults stay out.
It is a call of a model-local function, `castsmith.ir.promote_function`, whose overload names the types; before IR
version 10, which has no overloads, its own name does: `ConvertPromoteTypes_int64_float_float`.
"""

from __future__ import annotations

from dataclasses import asdict

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.promotion import PromotionRules

CONVERT_PROMOTE_TYPES = "ConvertPromoteTypes"
CASTSMITH_DOMAIN = "castsmith"


def is_convert_promote_types(node: onnx_ir.Node) -> bool:
    return node.domain == CASTSMITH_DOMAIN and node.op_type.partition("_")[0] == CONVERT_PROMOTE_TYPES


def rule_values(rules: PromotionRules) -> dict[str, int | str]:
    """The rules as the values of attributes."""
    return {name: value if isinstance(value, str) else int(value) for name, value in asdict(rules).items()}


def promotion_attributes(rules: PromotionRules) -> dict[str, int | str]:
    """The attributes of a ConvertPromoteTypes node under `rules`: those that differ from the operator's defaults."""
    defaults = rule_values(PromotionRules())
    return {name: value for name, value in rule_values(rules).items() if value != defaults[name]}


def promotion_rules_of(node: onnx_ir.Node) -> PromotionRules:
    """The rules that a ConvertPromoteTypes node carries in its attributes."""
    target = node.attributes.get_int("u64_integer_promotion_target", int(DataType.FLOAT))
    return PromotionRules(
        promote_unsafe=bool(node.attributes.get_int("promote_unsafe", 0)),
        pytorch_scalar_promotion=bool(node.attributes.get_int("pytorch_scalar_promotion", 0)),
        u64_integer_promotion_target=DataType(target),
        library=node.attributes.get_string("library", "openvino") or "openvino",
        weak_scalars=bool(node.attributes.get_int("weak_scalars", 0)),
    )
