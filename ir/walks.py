"""Walking all nodes and graphs of a model: what every pass does first, so it is kept cheap."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir
from onnx_ir import AttributeType

_HOLDING = (AttributeType.GRAPH, AttributeType.GRAPHS)


def all_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    """Every node of the model: the main graph, its subgraphs, and the model-local functions with theirs."""
    if not model.functions:
        return nodes_of(model.graph)
    return (node for scope in (model.graph, *model.functions.values()) for node in nodes_of(scope))


def nodes_of(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[onnx_ir.Node]:
    """The nodes of the scope in order, each followed by those in its subgraphs. The graph may change meanwhile."""
    for node in scope:
        yield node
        # `.data` is the dict itself; the mapping around it costs a walk of a large graph a third of its time.
        for attribute in node.attributes.data.values():
            if attribute.type in _HOLDING:
                for subgraph in graphs_in(attribute):
                    yield from nodes_of(subgraph)


def all_values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """Every value of the model: inputs and initializers of each scope, and what nodes give. Some come twice."""
    for scope in (model.graph, *model.functions.values()):
        for graph in (scope, *subgraphs_of(scope)):
            yield from graph.inputs
            if isinstance(graph, onnx_ir.Graph):
                yield from graph.initializers.values()
        for node in nodes_of(scope):
            yield from node.outputs


def held_graphs(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[tuple[onnx_ir.Node, onnx_ir.Graph]]:
    """The graphs that the nodes of the scope hold, each with its node, and those that their nodes do, and so on."""
    for node in scope:
        for attribute in node.attributes.data.values():
            if attribute.type in _HOLDING:
                for subgraph in graphs_in(attribute):
                    yield node, subgraph
                    yield from held_graphs(subgraph)


def subgraphs_of(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[onnx_ir.Graph]:
    """The graphs that the nodes of the scope hold, and those that their nodes do, and so on."""
    return (graph for _, graph in held_graphs(scope))


def graphs_in(attribute: onnx_ir.Attr) -> tuple[onnx_ir.Graph, ...]:
    """The graphs that the attribute of a node holds."""
    if attribute.type not in _HOLDING or attribute.is_ref():
        return ()
    return (attribute.as_graph(),) if attribute.type == AttributeType.GRAPH else tuple(attribute.as_graphs())
