"""How nodes are put before and behind a node."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir

from castsmith.ir.naming import Namer
from castsmith.passes.core.rewriting import name_node

NAME = "rescale"
"""The pass."""


def put_before(node: onnx_ir.Node, nodes: Iterable[onnx_ir.Node], namer: Namer) -> None:
    """Put new nodes before a node."""
    for new in nodes:
        name_node(new, namer)
        node.prepend(new)


def put_behind(node: onnx_ir.Node, operator: str, operand: onnx_ir.Value, namer: Namer) -> onnx_ir.Node:
    """Put a node of the operator behind the first result, whose name and users it takes; return it."""
    value, behind = node.outputs[0], onnx_ir.node(operator, [operand, operand])
    name_node(behind, namer)
    new = behind.outputs[0]
    new.name, value.name = value.name, namer.fresh(f"{value.name}_scaled")
    new.type, new.shape = value.type, value.shape
    value.replace_all_uses_with(new, replace_graph_outputs=True)
    behind.replace_input_with(0, value)
    node.append(behind)
    return behind
