"""Making single nodes with the types and names that Castsmith gives them."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.types import type_name


def cast_node(value: onnx_ir.Value, to: DataType, **attributes: int | str) -> onnx_ir.Node:
    """A Cast of `value`, its output typed and named after both; owned by no graph yet."""
    node = onnx_ir.node(
        "Cast", [value], {"to": int(to), **attributes}, name=f"castsmith_{value.name}_to_{type_name(to)}"
    )
    output = node.outputs[0]
    output.name, output.dtype, output.shape = f"{value.name}_{type_name(to)}", to, value.shape
    return node
