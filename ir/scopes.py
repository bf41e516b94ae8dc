"""Which opset imports are in force where: a subgraph has those of the graph or function around it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir

Scope = onnx_ir.Graph | onnx_ir.Function


def imports_by_scope(model: onnx_ir.Model) -> dict[Scope, Mapping[str, int]]:
    """The opset imports of each graph and subgraph of the model, function bodies included."""
    imports: dict[Scope, Mapping[str, int]] = {model.graph: model.graph.opset_imports}
    for function in model.functions.values():
        imports[function.graph] = function.opset_imports
    for root in (model.graph, *model.functions.values()):
        for subgraph in root.subgraphs():
            imports[subgraph] = root.opset_imports
    return imports


def holders(model: onnx_ir.Model) -> dict[onnx_ir.Graph, onnx_ir.Node]:
    """The node that holds each subgraph of the model in one of its attributes."""
    held: dict[onnx_ir.Graph, onnx_ir.Node] = {}
    for root in (model.graph, *model.functions.values()):
        for node in root.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
                    held[attribute.as_graph()] = node
                elif attribute.type == onnx_ir.AttributeType.GRAPHS and not attribute.is_ref():
                    held.update(dict.fromkeys(attribute.as_graphs(), node))
    return held
