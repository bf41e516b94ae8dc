"""The nodes of a model, found in one walk and listed by operator, so that a pass looks only at those it may change.

A walk reads every node from memory, which takes longer than what most passes do with it. So the passes of a run share
one survey as long as the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import chain

import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.walks import graphs_in


@dataclass(slots=True)
class Survey:
    """The nodes of a model at one moment.

    Attributes:
        roots: The main graph, and the functions.
        nodes: All nodes in order, each followed by those of its subgraphs, as in `castsmith.ir.walks.all_nodes`.
        holders: The node that holds each subgraph; outer graphs come before inner ones.
        domains: The domains of the nodes, beside the default one.
    """

    roots: Sequence[onnx_ir.Graph | onnx_ir.Function]
    nodes: list[onnx_ir.Node] = field(default_factory=list[onnx_ir.Node])
    holders: dict[onnx_ir.Graph, onnx_ir.Node] = field(default_factory=dict[onnx_ir.Graph, onnx_ir.Node])
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

    def add(self, scope: onnx_ir.Graph | onnx_ir.Function) -> None:
        """Add the nodes of the scope, each followed by those of its subgraphs."""
        for node in scope:
            self._places.setdefault(node.op_type, []).append(len(self.nodes))
            self.nodes.append(node)
            if node.domain:
                self.domains.add(node.domain)
            for attribute in node.attributes.data.values() if node.attributes.data else ():
                for graph in graphs_in(attribute):
                    self.holders[graph] = node
                    self.add(graph)


def survey(model: onnx_ir.Model) -> Survey:
    """Return the nodes of the model as they are now."""
    nodes = Survey((model.graph, *model.functions.values()))
    for root in nodes.roots:
        nodes.add(root)
    return nodes
