"""A chain of casts that one cast, or none, replaces exactly."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Refusal
from castsmith.ir.text import site_of
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import NAME, Facts


def collapse(node: onnx_ir.Node, facts: Facts) -> Replacement | Refusal | None:
    """Cast from the start of the chain, or use that if it has the type; or say why the casts before must stay."""
    chain = facts.chain(node)
    if chain is None:
        return None
    origin = chain.origin
    if chain.is_round_trip:
        reason = f"the round trip through {origin.types_between} is exact{origin.because}"
        return Replacement(COLLAPSE_CHAIN.code, reason, outputs=(origin.value,))
    if chain.stays or chain.obstacle is not None:
        return None
    if origin.path:
        reason = f"going through {origin.types_between} gives the same as one cast{origin.because}"
        return chain.one_cast(COLLAPSE_CHAIN.code, reason)
    if node.op_type == "CastLike" or origin.refused is None:
        return None
    return Refusal(NAME, COLLAPSE_CHAIN.code, site_of(node), *origin.refused)


COLLAPSE_CHAIN = NodeRule(
    "collapse-chain",
    "A chain of casts becomes one cast. Skipped, with an example value, if the result could differ.",
    why="The intermediate type holds every value, or its rounding never changes the final result.",
    example="- a = Cast <to = double> (x)\n- y = Cast <to = float16> (a)\n+ y = Cast <to = float16> (x)",
    advice="If it is skipped, the chain changes values. Remove it in the model if that rounding is unintended.",
    operators=CASTS,
    apply=collapse,
)
