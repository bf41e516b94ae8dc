"""A CastLike whose type is known."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.records import Refusal
from castsmith.ir.text import site_of
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import NAME, Facts


def to_cast(node: onnx_ir.Node, facts: Facts) -> Replacement | Refusal | None:
    """Replace the CastLike by a Cast, if the opset has one."""
    chain = facts.chain(node)
    if chain is None or chain.stays:
        return None
    if chain.obstacle is not None:
        return Refusal(NAME, CASTLIKE_TO_CAST.code, site_of(node), chain.obstacle)
    reason = f"the type of the second operand is known: {type_name(chain.to)}"
    return chain.one_cast(CASTLIKE_TO_CAST.code, reason)


CASTLIKE_TO_CAST = NodeRule(
    "castlike-to-cast",
    "A CastLike becomes a Cast.",
    why="The type of its second operand is known.",
    example="- y = CastLike (x, t)  # (float[N], float16[M])\n+ y = Cast <to = float16> (x)",
    operators=frozenset({"CastLike"}),
    apply=to_cast,
    certified=True,
)
