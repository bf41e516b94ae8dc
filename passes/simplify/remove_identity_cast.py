"""A cast to the type that its operand already has."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.table import CASTS
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import Facts


def remove_identity(node: onnx_ir.Node, facts: Facts) -> Replacement | None:
    """Use the operand instead of its cast to the type that it has."""
    chain = facts.chain(node)
    if chain is None or facts.inference.type_of(chain.source) != chain.to:
        return None
    reason = f"the value already is {type_name(chain.to)}"
    return Replacement(REMOVE_IDENTITY_CAST.code, reason, outputs=(chain.source,))


REMOVE_IDENTITY_CAST = NodeRule(
    "remove-identity-cast",
    "A cast to the type that the value already has is removed.",
    why="It changes nothing.",
    example="- y = Cast <to = float> (x)  # (float[N]) -> float[N]",
    operators=CASTS,
    apply=remove_identity,
    certified=True,
)
