"""resolve-promote-types: Replace ConvertPromoteTypes by the Casts that are needed, if any.

Exact: it is the definition of the operator. Refused: unknown types, since no Cast can be chosen for them.

    x1, y1 = castsmith.ConvertPromoteTypes (x, y)  # (float[N], int32[N]) -> float[N], float[N]
    z = Add (x1, y1)
becomes
    y_float = Cast <to = float> (y)
    z = Add (x, y_float)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import cast_node
from castsmith.ir.ops.promote_types import drop_unused_bodies, is_convert_promote_types
from castsmith.ir.records import Refusal, RewriteResult
from castsmith.ir.text import site_of
from castsmith.ir.walks import Scope, graph_of
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewrite_pass import DROP_UNUSED, SessionPass
from castsmith.passes.core.rewriting import Replacement, replace_nodes
from castsmith.passes.core.session import Session

NAME = "resolve-promote-types"


RESOLVE_PROMOTION = Rule(
    "resolve-promotion",
    "A ConvertPromoteTypes becomes the equivalent Casts. Skipped if the type of an operand is unknown.",
    why="No runtime has the operator; every runtime has Cast.",
    example="- x1, y1 = castsmith.ConvertPromoteTypes (x, y)\n+ y1 = Cast <to = float> (y)",
    advice="If it is skipped, declare the types of the model's inputs.",
)


@dataclass(frozen=True)
class ResolvePromoteTypes(SessionPass):
    """Replace each ConvertPromoteTypes by the equivalent Casts; a graph shares one Cast of a value to a type."""

    codes = (
        DROP_UNUSED,
        RESOLVE_PROMOTION,
    )

    def rewrite(self, session: Session) -> RewriteResult:
        if not any(map(is_convert_promote_types, session.nodes)):
            drop_unused_bodies(session.model)
            return RewriteResult(session.model, modified=False)
        inference = session.inference(PromotionRules(promote_unsafe=True))
        casts: dict[tuple[Scope, onnx_ir.Value, DataType], onnx_ir.Value] = {}
        result = replace_nodes(session, NAME, lambda node: resolve(node, inference, casts), types=inference.types)
        drop_unused_bodies(session.model)
        return result


def resolve(
    node: onnx_ir.Node, inference: Inference, casts_made: dict[tuple[Scope, onnx_ir.Value, DataType], onnx_ir.Value]
) -> Replacement | Refusal | None:
    """Return the Casts for one ConvertPromoteTypes; `casts_made` has the Casts of each graph, to share them."""
    if not is_convert_promote_types(node):
        return None
    common = inference.type_of(node.outputs[0])
    if common is None:
        return Refusal(NAME, RESOLVE_PROMOTION.code, site_of(node), "the type of an operand is unknown")
    casts: list[onnx_ir.Node] = []
    results: list[onnx_ir.Value] = []
    for operand in (present(value, "the operand") for value in node.inputs):
        key = (graph_of(node), operand, common)
        if inference.type_of(operand) == common:
            casts_made[key] = operand
        elif key not in casts_made:
            casts.append(cast_node(operand, common))
            casts_made[key] = casts[-1].outputs[0]
        results.append(casts_made[key])
    reason = f"the common type is {type_name(common)}; {len(casts)} of 2 operands need a Cast"
    return Replacement(RESOLVE_PROMOTION.code, reason, tuple(casts), outputs=tuple(results))
