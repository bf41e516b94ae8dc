"""What is known of the standard's operators beyond their schemas: tables, one row an operator.

`type_attributes` and `named_types` tell which attributes name element types, MOVES lists the operators that only move
elements, `input_kind` tells parameters from operands, and `restriction` gives what an operator's document says about
types beyond its type constraints. What the schemas say is read from them (`castsmith.ir.ops.schemas`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.ops.attributes import TYPE_ATTRIBUTES, Role, named_types, type_attributes
    from castsmith.ir.ops.casts import CastNode, cast_node, cast_target, chain_verdict, conversion, read_cast
    from castsmith.ir.ops.moves import MOVES
    from castsmith.ir.ops.parameters import Input, input_kind
    from castsmith.ir.ops.promote_types import (
        CASTSMITH_DOMAIN,
        CONVERT_PROMOTE_TYPES,
        drop_unused_bodies,
        give_body,
        is_convert_promote_types,
        promotion_attributes,
        promotion_rules_of,
    )
    from castsmith.ir.ops.qonnx import (
        QONNX_DOMAINS,
        QUANTIZERS,
        TRUNCS,
        TruncNode,
        flag,
        is_quantizer,
        is_trunc,
        read_trunc,
        trunc_operands,
    )
    from castsmith.ir.ops.restrictions import RESTRICTIONS, Restriction, restriction
    from castsmith.ir.ops.schemas import (
        DEFAULT_DOMAINS,
        OpKey,
        TypeGroup,
        actual_inputs,
        actual_outputs,
        groups_for,
        input_types,
        op_formals,
        op_key,
        opset_of,
        type_groups,
    )
    from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES, named_type, set_element_type

__all__ = [
    "CASTSMITH_DOMAIN",
    "CONVERT_PROMOTE_TYPES",
    "DEFAULT_DOMAINS",
    "MOVES",
    "NUMBERS_OF_TYPES",
    "QONNX_DOMAINS",
    "QUANTIZERS",
    "RESTRICTIONS",
    "TRUNCS",
    "TYPE_ATTRIBUTES",
    "CastNode",
    "Input",
    "OpKey",
    "Restriction",
    "Role",
    "TruncNode",
    "TypeGroup",
    "actual_inputs",
    "actual_outputs",
    "cast_node",
    "cast_target",
    "chain_verdict",
    "conversion",
    "drop_unused_bodies",
    "flag",
    "give_body",
    "groups_for",
    "input_kind",
    "input_types",
    "is_convert_promote_types",
    "is_quantizer",
    "is_trunc",
    "named_type",
    "named_types",
    "op_formals",
    "op_key",
    "opset_of",
    "promotion_attributes",
    "promotion_rules_of",
    "read_cast",
    "read_trunc",
    "restriction",
    "set_element_type",
    "trunc_operands",
    "type_attributes",
    "type_groups",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "attributes": ("Role", "TYPE_ATTRIBUTES", "named_types", "type_attributes"),
            "casts": ("CastNode", "cast_node", "cast_target", "chain_verdict", "conversion", "read_cast"),
            "moves": ("MOVES",),
            "parameters": ("Input", "input_kind"),
            "promote_types": (
                "CASTSMITH_DOMAIN",
                "CONVERT_PROMOTE_TYPES",
                "drop_unused_bodies",
                "give_body",
                "is_convert_promote_types",
                "promotion_attributes",
                "promotion_rules_of",
            ),
            "qonnx": (
                "QONNX_DOMAINS",
                "QUANTIZERS",
                "TRUNCS",
                "TruncNode",
                "flag",
                "is_quantizer",
                "is_trunc",
                "read_trunc",
                "trunc_operands",
            ),
            "restrictions": ("RESTRICTIONS", "Restriction", "restriction"),
            "schemas": (
                "DEFAULT_DOMAINS",
                "OpKey",
                "TypeGroup",
                "actual_inputs",
                "actual_outputs",
                "groups_for",
                "input_types",
                "op_formals",
                "op_key",
                "opset_of",
                "type_groups",
            ),
            "value_types": ("NUMBERS_OF_TYPES", "named_type", "set_element_type"),
        },
    )
