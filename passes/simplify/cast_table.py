"""Casts made so far, so that all users in scope share one Cast of a value to a type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.casts import CastNode
from castsmith.ir.walks import Scope
from castsmith.numerics.cast.settings import Policy, policy_for

_Key = tuple[onnx_ir.Value, DataType, Policy]


@dataclass
class CastTable:
    """The Casts visited by a walk in the order of the graph; settings that the target type ignores do not count."""

    held: Mapping[onnx_ir.Graph, onnx_ir.Node]
    """The node that holds each subgraph."""
    casts: dict[_Key, dict[Scope, onnx_ir.Value]] = field(default_factory=dict[_Key, dict[Scope, onnx_ir.Value]])

    def note(self, scope: Scope, source: onnx_ir.Value, meaning: CastNode, opset: int, result: onnx_ir.Value) -> None:
        """Record `result` as the cast of `source` in `scope`."""
        self.casts.setdefault(_key(source, meaning, opset), {})[scope] = result

    def find(self, scope: Scope | None, source: onnx_ir.Value, meaning: CastNode, opset: int) -> onnx_ir.Value | None:
        """Return the result of an earlier equal cast of `source` in the scope, or in one around it.

        The walk visits a subgraph after all nodes before it outside, so the result is always computed earlier.
        """
        casts = self.casts.get(_key(source, meaning, opset))
        while casts and scope is not None:
            if scope in casts and _stands(casts[scope]):
                return casts[scope]
            holder = self.held.get(scope) if isinstance(scope, onnx_ir.Graph) else None
            scope = None if holder is None else holder.graph
        return None


def _stands(value: onnx_ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is not None


def _key(source: onnx_ir.Value, meaning: CastNode, opset: int) -> _Key:
    return (
        source,
        meaning.target,
        policy_for(meaning.target, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=opset),
    )
