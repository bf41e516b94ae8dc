"""Which graph stands in which, and which opset imports are in force where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir

from castsmith.ir.walks import all_nodes, held_graphs

Scope = onnx_ir.Graph | onnx_ir.Function


def holders(model: onnx_ir.Model) -> dict[onnx_ir.Graph, onnx_ir.Node]:
    """The node that holds each subgraph of the model in one of its attributes; a graph comes after those around it."""
    return {graph: node for root in (model.graph, *model.functions.values()) for node, graph in held_graphs(root)}


def imports_by_scope(
    model: onnx_ir.Model, held: Mapping[onnx_ir.Graph, onnx_ir.Node] | None = None
) -> dict[Scope, Mapping[str, int]]:
    """The opset imports of each graph and subgraph of the model, function bodies included: a subgraph has those of the
    graph or function around it.

    held: the `holders` of the model, where they are known already.
    """
    imports: dict[Scope, Mapping[str, int]] = {model.graph: model.graph.opset_imports}
    for function in model.functions.values():
        imports[function.graph] = function.opset_imports
    for graph, node in (holders(model) if held is None else held).items():
        assert node.graph is not None
        imports[graph] = imports[node.graph]
    return imports


def drop_unused_domains(model: onnx_ir.Model, domains: Iterable[str]) -> None:
    """Forget the imports of those of the domains that no node is of any more."""
    unused = set(domains) - {node.domain for node in all_nodes(model)}
    for scope in (model.graph, *model.functions.values()):
        for domain in unused:
            scope.opset_imports.pop(domain, None)
