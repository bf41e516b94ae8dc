"""What is known of the standard's operators beyond their schemas: tables, one row an operator.

`type_attributes` and `named_types` tell which attributes name element types, MOVES lists the operators that only move
elements, `input_kind` tells parameters from operands, and `restriction` gives what an operator's document says about
types beyond its type constraints. What the schemas say is read from them (`castsmith.ir.schemas`).
"""

from castsmith.ir.ops.moves import MOVES
from castsmith.ir.ops.parameters import Input, input_kind
from castsmith.ir.ops.restrictions import RESTRICTIONS, Restriction, restriction
from castsmith.ir.ops.type_attributes import TYPE_ATTRIBUTES, Role, named_types, type_attributes

__all__ = [
    "MOVES",
    "RESTRICTIONS",
    "TYPE_ATTRIBUTES",
    "Input",
    "Restriction",
    "Role",
    "input_kind",
    "named_types",
    "restriction",
    "type_attributes",
]
