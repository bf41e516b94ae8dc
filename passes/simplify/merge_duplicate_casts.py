"""Equal casts of one value."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.table import CASTS
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.earlier import hand_over
from castsmith.passes.simplify.facts import Facts


def merge(node: onnx_ir.Node, facts: Facts) -> Replacement | None:
    """Use the result of an earlier equal cast; remember this one if there is none."""
    chain = facts.chain(node)
    if chain is None or chain.is_round_trip:
        return None
    twin = chain.twin
    if twin is None or not hand_over(node, (twin,)):
        chain.note(node.outputs[0])
        return None
    reason = f"{twin.name} already is the same value as {type_name(chain.to)}"
    return Replacement(MERGE_DUPLICATE_CASTS.code, reason, outputs=(twin,))


MERGE_DUPLICATE_CASTS = NodeRule(
    "merge-duplicate-casts",
    "Equal casts of one value become one.",
    why="They give the same bits.",
    example="- b = Cast <to = float> (x)  where  a = Cast <to = float> (x)",
    operators=CASTS,
    apply=merge,
    certified=True,
)
