"""Results that were computed before, so that all users in scope share one computation of a value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.walks import Scope
from castsmith.passes.core.rewriting import can_be_renamed

Results = Sequence[onnx_ir.Value]


@dataclass
class Earlier:
    """The results of the nodes visited by a walk in the order of the graph, by what determines them."""

    holders: Mapping[onnx_ir.Graph, onnx_ir.Node]
    """The node that holds each subgraph."""
    results: dict[Hashable, dict[Scope, Results]] = field(default_factory=dict[Hashable, "dict[Scope, Results]"])

    def note(self, scope: Scope, key: Hashable, results: Results) -> None:
        """Record the results of a node of the scope."""
        self.results.setdefault(key, {})[scope] = results

    def find(self, scope: Scope | None, key: Hashable) -> Results | None:
        """Return earlier results in the scope, or in the innermost one around it, that are still in the model.

        The walk visits a subgraph after all nodes before it outside, so they are always computed earlier.
        """
        by_scope = self.results.get(key)
        while by_scope and scope is not None:
            if scope in by_scope and is_in_model(by_scope[scope][0]):
                return by_scope[scope]
            holder = self.holders.get(scope) if isinstance(scope, onnx_ir.Graph) else None
            scope = None if holder is None else holder.graph
        return None


def is_in_model(value: onnx_ir.Value) -> bool:
    """True if the node that makes the value was not removed."""
    producer = value.producer()
    return producer is not None and producer.graph is not None


def hand_over(node: onnx_ir.Node, results: Results) -> bool:
    """True unless an output of the graph would need an Identity, which moves as many bytes as the node."""
    pairs = zip(node.outputs, results, strict=True)
    return all(not old.is_graph_output() or can_be_renamed(new, node) for old, new in pairs)
