"""Questions about graphs that comparing them asks."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.schemas import DEFAULT_DOMAINS

Scope = onnx_ir.Graph | onnx_ir.Function


def computing_nodes(scope: Scope) -> list[onnx_ir.Node]:
    """The nodes of the scope, without those that only hold a constant: an initializer is as good."""
    return [node for node in scope if not _holds_constant(node)]


def _holds_constant(node: onnx_ir.Node) -> bool:
    return node.op_type == "Constant" and constant_tensor(node.outputs[0]) is not None


def operator_key(node: onnx_ir.Node) -> tuple[str, str, str]:
    domain, op_type, overload = node.op_identifier()
    return "" if domain in DEFAULT_DOMAINS else domain, op_type, overload


def operands(node: onnx_ir.Node) -> list[onnx_ir.Value | None]:
    """The inputs, without absent ones at the end."""
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def captured(node: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """All values that the subgraphs of the node use, its own among them."""
    for graph in subgraphs(node):
        for inner in graph.all_nodes():
            yield from (value for value in inner.inputs if value is not None)
        yield from graph.outputs


def subgraphs(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif attribute.type == onnx_ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def from_outside(graph: onnx_ir.Graph) -> set[onnx_ir.Value]:
    """What the graph uses of the graphs around it, constants apart."""
    nodes = list(graph.all_nodes())
    made = {value for node in nodes for value in node.outputs}
    used = {value for node in nodes for value in node.inputs if value is not None} | set(graph.outputs)
    return {value for value in used - made if constant_tensor(value) is None}
