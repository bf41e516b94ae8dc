"""Walks over a model: its nodes, graphs, scopes and tensors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard, TypeVar

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.io.stored import file_of
from castsmith.numerics.errors import InternalError

T = TypeVar("T")

# Walks over all nodes and graphs, which every pass starts with, so they are kept cheap.

GRAPH_KINDS = (AttributeType.GRAPH, AttributeType.GRAPHS)
TENSOR_KINDS = (AttributeType.TENSOR, AttributeType.TENSORS)
"""The types of attributes that hold graphs, and tensors."""


def all_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    """Yield every node of the model: of the main graph, its subgraphs, and the model-local functions with theirs."""
    if not model.functions:
        return nodes_of(model.graph)
    return (node for scope in (model.graph, *model.functions.values()) for node in nodes_of(scope))


def nodes_of(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[onnx_ir.Node]:
    """Yield the nodes of the scope in order, each followed by those in its subgraphs; the graph may change."""
    for node in scope:
        yield node
        # `.data` is the dict itself; the mapping around it costs a walk of a large graph a third of its time.
        data = node.attributes.data
        if not data:
            continue
        for attribute in data.values():
            if attribute.type in GRAPH_KINDS:
                for subgraph in graphs_in(attribute):
                    yield from nodes_of(subgraph)


def all_values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """Yield every value of the model once: inputs and initializers of each scope, and node outputs."""
    for scope in (model.graph, *model.functions.values()):
        for graph in (scope, *subgraphs_of(scope)):
            held = graph.initializers.values() if isinstance(graph, onnx_ir.Graph) else ()
            yield from dict.fromkeys((*graph.inputs, *held))
        for node in nodes_of(scope):
            yield from node.outputs


def sources_first(item: T, settled: Container[T], sources: Callable[[T], Iterable[T]]) -> Iterator[tuple[T, list[T]]]:
    """Yield the unknown items on which `item`, such as a value, depends, each after its sources, and `item` last.

    No recursion, since chains are long. On a cycle, of a malformed graph, an item comes before some of its sources,
    which are yielded with it.

    Args:
        item: The item of which a fact is needed.
        settled: The items whose facts are known; the caller adds each item before the next one is taken.
        sources: Returns the items on which the fact about an item depends.
    """
    waiting, entered = [item], set[T]()
    while waiting:
        last = waiting[-1]
        if last in settled:
            waiting.pop()
            continue
        missing = [source for source in sources(last) if source not in settled]
        if missing and last not in entered:
            entered.add(last)
            waiting += missing
        else:
            yield last, missing


def held_graphs(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[tuple[onnx_ir.Node, onnx_ir.Graph]]:
    """Yield the graphs that the nodes of the scope hold, each with its node, at any depth."""
    for node in scope:
        data = node.attributes.data
        for attribute in data.values() if data else ():
            if attribute.type in GRAPH_KINDS:
                for subgraph in graphs_in(attribute):
                    yield node, subgraph
                    yield from held_graphs(subgraph)


def subgraphs_of(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[onnx_ir.Graph]:
    """Yield the graphs that the nodes of the scope hold, at any depth."""
    return (graph for _, graph in held_graphs(scope))


def graphs_in(attribute: onnx_ir.Attr) -> tuple[onnx_ir.Graph, ...]:
    """Return the graphs that the attribute of a node holds."""
    if attribute.type not in GRAPH_KINDS or attribute.is_ref():
        return ()
    # The value itself: to check it by `as_graph` takes as long as the rest of a walk.
    return (attribute.value,) if attribute.type == AttributeType.GRAPH else tuple(attribute.value)


def graphs_of(node: onnx_ir.Node) -> list[onnx_ir.Graph]:
    """Return the graphs that the node holds itself, without those inside of them."""
    return [graph for attribute in node.attributes.data.values() for graph in graphs_in(attribute)]


# Nesting of graphs, and the opset imports in force in each.

Scope = onnx_ir.Graph | onnx_ir.Function


def graph_of(node: onnx_ir.Node) -> onnx_ir.Graph:
    """Return the graph of a node that is in one. Raises InternalError for a node that was removed."""
    if node.graph is None:
        raise InternalError(f"the node {node.name or node.op_type} is in no graph")
    return node.graph


def holders(model: onnx_ir.Model) -> dict[onnx_ir.Graph, onnx_ir.Node]:
    """Return the node that holds each subgraph of the model; outer graphs come before inner ones."""
    return {graph: node for root in (model.graph, *model.functions.values()) for node, graph in held_graphs(root)}


def imports_by_scope(
    model: onnx_ir.Model, held: Mapping[onnx_ir.Graph, onnx_ir.Node] | None = None
) -> dict[Scope, Mapping[str, int]]:
    """Return the opset imports of each graph and subgraph of the model, including function bodies.

    A subgraph has those of the graph or function around it.

    Args:
        held: The `holders` of the model, if already known.
    """
    imports: dict[Scope, Mapping[str, int]] = {model.graph: model.graph.opset_imports}
    for function in model.functions.values():
        imports[function.graph] = function.opset_imports
    for graph, node in (holders(model) if held is None else held).items():
        imports[graph] = imports[graph_of(node)]
    return imports


def drop_unused_domains(model: onnx_ir.Model, domains: Iterable[str]) -> None:
    """Drop unused opset imports."""
    unused = set(domains) - {node.domain for node in all_nodes(model)}
    for scope in (model.graph, *model.functions.values()):
        for domain in unused:
            scope.opset_imports.pop(domain, None)


@dataclass(frozen=True)
class Held:
    """The place of a tensor in an attribute of a node, or in a function's default; `index` in a list of tensors."""

    owner: onnx_ir.Node | onnx_ir.Function
    name: str
    index: int | None = None


Place = onnx_ir.Value | Held
"""Place of a tensor: an initializer or an attribute."""


def all_tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    """Yield initializers of all graphs, and tensors in the attributes of nodes, including functions."""
    return (tensor for _, tensor in tensor_places(model))


def constant_bytes(model: onnx_ir.Model) -> int:
    """Return the bytes of all tensors of the model."""
    return sum(tensor.nbytes for tensor in all_tensors(model))


def is_external(tensor: onnx_ir.TensorProtocol) -> TypeGuard[onnx_ir.ExternalTensor]:
    """True if the data of the tensor is in a data file."""
    # isinstance takes a microsecond for tensors of other classes than the one asked for, as their base is a protocol.
    return type(tensor) is not onnx_ir.serde.TensorProtoTensor and isinstance(tensor, onnx_ir.ExternalTensor)


def files_read(model: onnx_ir.Model) -> set[Path]:
    """Return the data files of the model's tensors, links resolved."""
    return {file_of(tensor) for tensor in all_tensors(model) if is_external(tensor)}


def tensor_places(model: onnx_ir.Model) -> Iterator[tuple[Place, onnx_ir.TensorProtocol]]:
    """Yield every tensor of the model with its place. Tensors may be replaced meanwhile."""
    for graph in list(graphs_with_initializers(model)):
        for value in list(graph.initializers.values()):
            if value.const_value is not None:
                yield value, value.const_value
    owners: list[onnx_ir.Function | onnx_ir.Node] = [*model.functions.values(), *all_nodes(model)]
    for owner in owners:
        data = owner.attributes.data
        for name, attribute in list(data.items()) if data else ():
            several = attribute.type == AttributeType.TENSORS
            yield from ((Held(owner, name, i if several else None), t) for i, t in enumerate(tensors_in(attribute)))


def tensor_of(attribute: onnx_ir.Attr) -> onnx_ir.TensorProtocol:
    """Return the tensor in an attribute of type TENSOR, without the check of `as_tensor`, which takes 0.1 ms each."""
    return attribute.value


def tensors_in(attribute: onnx_ir.Attr) -> Sequence[onnx_ir.TensorProtocol]:
    """Return the tensors that the attribute of a node holds."""
    if attribute.type not in TENSOR_KINDS or attribute.is_ref() or attribute.value is None:
        return ()
    return (tensor_of(attribute),) if attribute.type == AttributeType.TENSOR else attribute.as_tensors()


def put_tensor(place: Place, tensor: onnx_ir.TensorProtocol) -> None:
    """Put the tensor in the place."""
    if not isinstance(place, Held):
        place.const_value = tensor
        return
    attributes = place.owner.attributes
    before = attributes[place.name]
    if place.index is None:
        attributes[place.name] = onnx_ir.AttrTensor(place.name, tensor, doc_string=before.doc_string)
    else:
        tensors = list(before.as_tensors())
        tensors[place.index] = tensor
        attributes[place.name] = onnx_ir.AttrTensors(place.name, tensors, doc_string=before.doc_string)


def graphs_with_initializers(model: onnx_ir.Model) -> Iterator[onnx_ir.Graph]:
    """Yield the main graph and every subgraph, including those inside model-local functions."""
    yield model.graph
    for scope in (model.graph, *model.functions.values()):
        yield from subgraphs_of(scope)


def bind_parameters(node: onnx_ir.Node, values: dict[str, onnx_ir.Attr]) -> None:
    """Replace the parameters of the function by the arguments of the call; an omitted argument stays absent."""
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            value = values.get(attribute.ref_attr_name or "")
            if value is None:
                del node.attributes[name]
            else:
                node.attributes[name] = onnx_ir.Attr(name, value.type, value.value)


def opset_obstacle(model: onnx_ir.Model, names: Iterable[onnx_ir.OperatorIdentifier]) -> str | None:
    """Return the opset for which these functions cannot be inlined, since the model imports another; None if none."""
    imports = dict(model.opset_imports)
    for name in sorted(names):
        for domain, opset in model.functions[name].opset_imports.items():
            if imports.setdefault(domain, opset) != opset:
                what = f"opset {opset} of {domain or 'ai.onnx'}, but the model imports opset {imports[domain]}"
                return f"function {name[0]}::{name[1]} imports {what}"
    return None


MOST_INLINED = 1 << 17
"""Largest number of nodes after inlining functions at each call; larger models are not inlined."""


def nodes_once_inlined(model: onnx_ir.Model, names: Container[onnx_ir.OperatorIdentifier]) -> int:
    """Count the nodes that the main graph has once all calls of these functions are inlined.

    Functions that call others twice double it with each level. Calls nest, so this recurses; how deep they may nest is
    checked when a model is loaded.
    """
    opsets: dict[onnx_ir.OperatorIdentifier, int] = {}

    def count(scope: onnx_ir.Graph | onnx_ir.Function) -> int:
        total = 0
        for node in nodes_of(scope):
            called = node.op_identifier()
            if called in names and called in model.functions and called not in opsets:
                opsets[called] = count(model.functions[called])
            total += opsets.get(called, 1)
        return total

    return count(model.graph)
