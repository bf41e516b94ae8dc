"""Equal nodes before casts."""

from __future__ import annotations

import onnx_ir

from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import Facts


def merge(node: onnx_ir.Node, facts: Facts) -> Replacement | None:
    """Use the results of an earlier equal node."""
    twin = facts.equal.twin(node, facts.imports)
    if twin is None:
        return None
    reason = f"{twin.outputs[0].name} already is the same value"
    return Replacement(MERGE_EQUAL_NODES.code, reason, outputs=tuple(twin.outputs))


MERGE_EQUAL_NODES = NodeRule(
    "merge-equal-nodes",
    "Equal nodes before casts are merged, so that their casts can be merged too.",
    why="Operator, attributes and operands are equal. Never merged: random numbers, training, quantization.",
    example="- b = Abs (x); d = Cast <to = float16> (b)  where  a = Abs (x); c = Cast <to = float16> (a)",
    operators=None,
    apply=merge,
    certified=True,
)
