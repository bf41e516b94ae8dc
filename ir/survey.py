"""The nodes of a model, found in one walk and listed by operator, so that a pass looks only at those it may change.

A walk reads every node from memory, which takes longer than what most passes do with it. So the passes of a run share
one survey as long as the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.walks import GRAPH_KINDS, TENSOR_KINDS, graphs_in, tensor_of

_HOLDING = (*GRAPH_KINDS, *TENSOR_KINDS)


@dataclass(slots=True)
class Survey:
    """The nodes of a model at one moment.

    Attributes:
        roots: The main graph, and the functions.
        nodes: All nodes in order, each followed by those of its subgraphs, as in `castsmith.ir.walks.all_nodes`.
        holders: The node that holds each subgraph; outer graphs come before inner ones.
        with_tensors: The nodes that hold tensors in attributes.
        domains: The domains of the nodes, beside the default one.
    """

    roots: Sequence[onnx_ir.Graph | onnx_ir.Function]
    nodes: list[onnx_ir.Node] = field(default_factory=list[onnx_ir.Node])
    holders: dict[onnx_ir.Graph, onnx_ir.Node] = field(default_factory=dict[onnx_ir.Graph, onnx_ir.Node])
    with_tensors: list[onnx_ir.Node] = field(default_factory=list[onnx_ir.Node])
    domains: set[str] = field(default_factory=set[str])
    _places: dict[str, list[int]] = field(default_factory=dict[str, list[int]], compare=False)
    """The positions in `nodes` by operator, whatever its domain."""

    def of(self, operators: Container[str]) -> list[onnx_ir.Node]:
        """Return the nodes of these operators, of any domain, in order."""
        places_found, nodes = [places for operator, places in self._places.items() if operator in operators], self.nodes
        return [
            nodes[place]
            for place in (places_found[0] if len(places_found) == 1 else sorted(chain.from_iterable(places_found)))
        ]

    def count_casts(self) -> int:
        """Return the number of the standard's casts."""
        return sum(node.domain in DEFAULT_DOMAINS for node in self.of(CASTS))

    def graphs(self) -> Iterator[onnx_ir.Graph]:
        """Yield the graphs that have initializers: the main graph and all subgraphs."""
        yield from (root for root in self.roots if isinstance(root, onnx_ir.Graph))
        yield from self.holders

    def constants(self) -> Iterator[onnx_ir.TensorProtocol]:
        """Yield all tensors of the model, in initializers and attributes."""
        for graph in self.graphs():
            tensors = (value.const_value for value in graph.initializers.values())
            yield from (tensor for tensor in tensors if tensor is not None)
        functions = (root for root in self.roots if isinstance(root, onnx_ir.Function))
        for owner in (*functions, *self.with_tensors):
            for attribute in owner.attributes.data.values():
                yield from _tensors_in(attribute)

    def constant_bytes(self) -> int:
        """Return the bytes of all tensors of the model."""
        return sum(tensor.nbytes for tensor in self.constants())

    def add(self, node: onnx_ir.Node) -> Sequence[onnx_ir.Attr]:
        """Add a node at the end; return its attributes that hold graphs."""
        self.add_plain(node)
        holding = [attribute for attribute in node.attributes.data.values() if attribute.type in _HOLDING]
        if any(attribute.type in TENSOR_KINDS for attribute in holding):
            self.with_tensors.append(node)
        return [attribute for attribute in holding if attribute.type in GRAPH_KINDS]

    def add_plain(self, node: onnx_ir.Node) -> None:
        """Add a node that holds neither graphs nor tensors at the end."""
        operator, places = node.op_type, self._places
        if operator in places:
            places[operator].append(len(self.nodes))
        else:
            places[operator] = [len(self.nodes)]
        self.nodes.append(node)
        if node.domain:
            self.domains.add(node.domain)


def survey(model: onnx_ir.Model) -> Survey:
    """Return the nodes of the model as they are now."""
    nodes = Survey((model.graph, *model.functions.values()))
    for root in nodes.roots:
        _add_nodes(root, nodes)
    return nodes


def _add_nodes(scope: onnx_ir.Graph | onnx_ir.Function, result: Survey) -> None:
    for node in scope:
        holding = False
        data = node.attributes.data
        for attribute in data.values() if data else ():
            if attribute.type in _HOLDING:
                holding = True
        if not holding:  # as mostly
            result.add_plain(node)
            continue
        for attribute in result.add(node):
            for graph in graphs_in(attribute):
                result.holders[graph] = node
                _add_nodes(graph, result)


def _tensors_in(attribute: onnx_ir.Attr) -> Sequence[onnx_ir.TensorProtocol]:
    if attribute.type not in TENSOR_KINDS or attribute.is_ref() or attribute.value is None:
        return ()
    return (tensor_of(attribute),) if attribute.type == AttributeType.TENSOR else attribute.as_tensors()
