"""Which opset imports are in force where: a subgraph has those of the graph or function around it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir

from castsmith.ir.walks import all_nodes, graphs_in, subgraphs_of

Scope = onnx_ir.Graph | onnx_ir.Function


def imports_by_scope(model: onnx_ir.Model) -> dict[Scope, Mapping[str, int]]:
    """The opset imports of each graph and subgraph of the model, function bodies included."""
    imports: dict[Scope, Mapping[str, int]] = {model.graph: model.graph.opset_imports}
    for function in model.functions.values():
        imports[function.graph] = function.opset_imports
    for root in (model.graph, *model.functions.values()):
        for subgraph in subgraphs_of(root):
            imports[subgraph] = root.opset_imports
    return imports


def holders(model: onnx_ir.Model) -> dict[onnx_ir.Graph, onnx_ir.Node]:
    """The node that holds each subgraph of the model in one of its attributes."""
    held: dict[onnx_ir.Graph, onnx_ir.Node] = {}
    for node in all_nodes(model):
        for attribute in node.attributes.data.values():
            held.update(dict.fromkeys(graphs_in(attribute), node))
    return held
