"""ConvertPromoteTypes as a node: two operands in, the same two out in their common type.

Source: OpenVINO, ConvertPromoteTypes-14. The node is of the domain `castsmith`; attributes at their defaults stay out.
"""

from __future__ import annotations

from dataclasses import asdict

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.promotion import PromotionRules

CONVERT_PROMOTE_TYPES = "ConvertPromoteTypes"
CASTSMITH_DOMAIN = "castsmith"


def is_convert_promote_types(node: onnx_ir.Node) -> bool:
    return (node.domain, node.op_type) == (CASTSMITH_DOMAIN, CONVERT_PROMOTE_TYPES)


def promotion_attributes(rules: PromotionRules) -> dict[str, int]:
    """The attributes of a ConvertPromoteTypes node under `rules`: those that differ from the operator's defaults."""
    return {name: int(value) for name, value in asdict(rules).items() if value != getattr(PromotionRules(), name)}


def promotion_rules_of(node: onnx_ir.Node) -> PromotionRules:
    """The rules that a ConvertPromoteTypes node carries in its attributes."""
    target = node.attributes.get_int("u64_integer_promotion_target", int(DataType.FLOAT))
    return PromotionRules(
        promote_unsafe=bool(node.attributes.get_int("promote_unsafe", 0)),
        pytorch_scalar_promotion=bool(node.attributes.get_int("pytorch_scalar_promotion", 0)),
        u64_integer_promotion_target=DataType(target),
    )
