"""What is known of the standard's operators beyond their schemas: tables, one row an operator.

`named_types` and `type_attributes` tell which attributes of a node name element types, and MOVES lists the operators
that only move elements. What the schemas themselves say is read from them (`castsmith.ir.schemas`).
"""

from castsmith.ir.ops.moves import MOVES
from castsmith.ir.ops.type_attributes import TYPE_ATTRIBUTES, Role, named_types, type_attributes

__all__ = ["MOVES", "TYPE_ATTRIBUTES", "Role", "named_types", "type_attributes"]
