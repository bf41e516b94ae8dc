"""Casts made so far, so that one Cast of a value to a type serves all who want it where it can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import CastNode
from castsmith.ir.inference import Inference
from castsmith.ir.rewriting import Replacement
from castsmith.numerics.opsets import Policy, policy_for
from castsmith.numerics.types import type_name

Scope = onnx_ir.Graph | onnx_ir.Function
_Key = tuple[onnx_ir.Value, DataType, Policy]


@dataclass
class CastTable:
    """The Casts that a walk in the order of the graph has met; settings that the target type ignores do not count."""

    held: Mapping[onnx_ir.Graph, onnx_ir.Node]
    """The node that holds each subgraph."""
    made: dict[_Key, dict[Scope, onnx_ir.Value]] = field(default_factory=dict[_Key, dict[Scope, onnx_ir.Value]])

    def note(self, scope: Scope, source: onnx_ir.Value, meaning: CastNode, opset: int, result: onnx_ir.Value) -> None:
        """Remember that `result` is what the cast of `source` gives in `scope`."""
        self.made.setdefault(_key(source, meaning, opset), {})[scope] = result

    def find(self, scope: Scope | None, source: onnx_ir.Value, meaning: CastNode, opset: int) -> onnx_ir.Value | None:
        """What an earlier Cast in the scope, or in one around it, made of `source` by the same conversion.

        The walk comes to a subgraph after all that stands before it outside, so whatever is found there is computed
        before it.
        """
        found = self.made.get(_key(source, meaning, opset))
        while found and scope is not None:
            if scope in found and _stands(found[scope]):
                return found[scope]
            holder = self.held.get(scope) if isinstance(scope, onnx_ir.Graph) else None
            scope = None if holder is None else holder.graph
        return None


def called_with_several_types(inference: Inference) -> set[Scope]:
    """The bodies, with their subgraphs, of functions whose values have no one type."""
    functions = [function for function, calls in inference.signatures.items() if len(calls) > 1]
    return {scope for function in functions for scope in (function.graph, *function.subgraphs())}


def merge_with(node: onnx_ir.Node, twin: onnx_ir.Value | None, to: DataType) -> Replacement | None:
    """Use `twin`, the result of another Cast, in place of what `node` gives; None where there is nothing to gain."""
    if twin is None:
        return None
    producer = twin.producer()
    hands_over = producer is not None and producer.graph is node.graph and not twin.is_graph_output()
    # A graph output that cannot take over the name of its twin would need an Identity, which moves as many bytes.
    if node.outputs[0].is_graph_output() and not hands_over:
        return None
    reason = f"{twin.name} is the same value as {type_name(to)} already"
    return Replacement("merge-duplicate-casts", reason, outputs=(twin,))


def _stands(value: onnx_ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is not None


def _key(source: onnx_ir.Value, meaning: CastNode, opset: int) -> _Key:
    assert meaning.to is not None
    return (
        source,
        meaning.to,
        policy_for(meaning.to, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=opset),
    )
