"""Facts about operators: their schemas, and a table with one row of traits per operator for what schemas do not say.

Start with `op_key(node, imports)`, the operator and its version, and `traits_of(domain, op_type)`, its row.

    schemas          types of inputs and outputs by opset: `op_formals`, `type_groups`, `opset_of`
    table            the rows; `operators` gives those that satisfy a condition, `type_attributes` and `named_types` the
                     attributes that name types, `restriction` limits that only the operator's document states;
                     MOVERS, CASTS, CONVERSIONS, LINEAR, FLOW, RUNS_GRAPHS and GIVES_BOOL are sets of operators
    traits           `Traits`, a row, and the words in it
    changes          `changes_between`: what an operator computes otherwise from an opset on
    casts            `read_cast` reads any cast node as a `CastNode`, `cast_node` makes one
    promote_types    the operator ConvertPromoteTypes
    contrib          the operators of com.microsoft: `contrib_schema`
    qonnx            the operators of QONNX: `read_trunc`, `is_quantizer`
    value_types      types of values, also nested ones, and of attributes: `set_element_type`, `naming`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.ops.casts import (
        CastNode,
        cast_node,
        cast_target,
        chain_verdict,
        conversion,
        idle_attributes,
        read_cast,
        spell_casts,
    )
    from castsmith.ir.ops.changes import CHANGES, changes_between
    from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, ContribParameter, contrib_operators, contrib_schema
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
        runs_in_qonnx,
        trunc_operands,
    )
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
        since_version,
        type_groups,
    )
    from castsmith.ir.ops.table import (
        CASTS,
        CONVERSIONS,
        FLOW,
        GIVES_BOOL,
        LINEAR,
        MOVERS,
        RUNS_GRAPHS,
        TRAITS,
        input_kind,
        named_types,
        operators,
        restriction,
        traits_of,
        type_attributes,
    )
    from castsmith.ir.ops.traits import (
        Answer,
        Conversion,
        Indices,
        Input,
        Moves,
        Restriction,
        Role,
        Rounding,
        Size,
        Traits,
    )
    from castsmith.ir.ops.value_types import (
        NUMBERS_OF_TYPES,
        Nesting,
        named_type,
        naming,
        nested_type,
        nesting_of,
        set_element_type,
        with_element_type,
    )

__all__ = [
    "CASTS",
    "CASTSMITH_DOMAIN",
    "CHANGES",
    "CONTRIB_DOMAIN",
    "CONVERSIONS",
    "CONVERT_PROMOTE_TYPES",
    "DEFAULT_DOMAINS",
    "FLOW",
    "GIVES_BOOL",
    "LINEAR",
    "MOVERS",
    "NUMBERS_OF_TYPES",
    "QONNX_DOMAINS",
    "QUANTIZERS",
    "RUNS_GRAPHS",
    "TRAITS",
    "TRUNCS",
    "Answer",
    "CastNode",
    "ContribParameter",
    "Conversion",
    "Indices",
    "Input",
    "Moves",
    "Nesting",
    "OpKey",
    "Restriction",
    "Role",
    "Rounding",
    "Size",
    "Traits",
    "TruncNode",
    "TypeGroup",
    "actual_inputs",
    "actual_outputs",
    "cast_node",
    "cast_target",
    "chain_verdict",
    "changes_between",
    "contrib_operators",
    "contrib_schema",
    "conversion",
    "drop_unused_bodies",
    "flag",
    "give_body",
    "groups_for",
    "idle_attributes",
    "input_kind",
    "input_types",
    "is_convert_promote_types",
    "is_quantizer",
    "is_trunc",
    "named_type",
    "named_types",
    "naming",
    "nested_type",
    "nesting_of",
    "op_formals",
    "op_key",
    "operators",
    "opset_of",
    "promotion_attributes",
    "promotion_rules_of",
    "read_cast",
    "read_trunc",
    "restriction",
    "runs_in_qonnx",
    "set_element_type",
    "since_version",
    "spell_casts",
    "traits_of",
    "trunc_operands",
    "type_attributes",
    "type_groups",
    "with_element_type",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "casts": (
                "CastNode",
                "cast_node",
                "cast_target",
                "chain_verdict",
                "conversion",
                "idle_attributes",
                "read_cast",
                "spell_casts",
            ),
            "changes": ("CHANGES", "changes_between"),
            "contrib": ("CONTRIB_DOMAIN", "ContribParameter", "contrib_operators", "contrib_schema"),
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
                "runs_in_qonnx",
                "trunc_operands",
            ),
            "table": (
                "CASTS",
                "CONVERSIONS",
                "FLOW",
                "GIVES_BOOL",
                "LINEAR",
                "MOVERS",
                "RUNS_GRAPHS",
                "TRAITS",
                "input_kind",
                "named_types",
                "operators",
                "restriction",
                "traits_of",
                "type_attributes",
            ),
            "traits": (
                "Answer",
                "Conversion",
                "Indices",
                "Input",
                "Moves",
                "Restriction",
                "Role",
                "Rounding",
                "Size",
                "Traits",
            ),
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
                "since_version",
                "type_groups",
            ),
            "value_types": (
                "NUMBERS_OF_TYPES",
                "Nesting",
                "named_type",
                "naming",
                "nested_type",
                "nesting_of",
                "set_element_type",
                "with_element_type",
            ),
        },
    )
