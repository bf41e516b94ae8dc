"""Requirements of a target to load a model: names of nodes of their own, and no attributes without effect."""

from __future__ import annotations

from dataclasses import dataclass

from castsmith.ir.codes import Rule
from castsmith.ir.naming import same_names
from castsmith.ir.ops.casts import idle_attributes
from castsmith.ir.records import Records, Rewrite, RewriteResult
from castsmith.ir.text import node_item, site_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

PASS_NAME = "legalize-version"

IDLE_ATTRIBUTE = Rule(
    "idle-attribute",
    "An attribute of a Cast that has no effect is removed.",
    why=(
        "ONNX Runtime rejects saturate = 0 in a Cast to any type but float8, and round_mode in a Cast to any type "
        "but float8e8m0."
    ),
    example="- y = Cast <to = float16, saturate = 0> (x)\n+ y = Cast <to = float16> (x)",
)
RENAME_NODE = Rule(
    "node-name",
    "A node gets a new name, because another node has the same one.",
    why="ONNX Runtime rejects graphs in which two nodes have the same name.",
    example="- cast, cast\n+ cast, cast_1",
)


@dataclass(frozen=True)
class FitLoader(SessionPass):
    """Rename nodes and remove attributes as the target requires to load the model; a conversion ends with this.

    Attributes:
        target: The runtime that the model is for.
    """

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        rewrites = fitted(session, self.target)
        return RewriteResult(session.model, bool(rewrites), Records(rewrites))


def fitted(session: Session, target: Target) -> list[Rewrite]:
    """Change what the target does not load, and return the records."""
    renamed = _renamed_nodes(session, target) if target.refuses_same_names else []
    return renamed + (_without_idle_attributes(session, target) if target.refuses_idle_attributes else [])


def _without_idle_attributes(session: Session, target: Target) -> list[Rewrite]:
    rewrites, inference = list[Rewrite](), session.inference(PromotionRules(promote_unsafe=True))
    for node in session.nodes:
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        for name in idle_attributes(node, like):
            before, reason = node_item(node, inference.types), f"{target} does not load it, and it has no effect"
            del node.attributes[name]
            after = node_item(node, inference.types)
            rewrites.append(Rewrite(PASS_NAME, IDLE_ATTRIBUTE.code, site_of(node), [before], [after], reason))
    return rewrites


def _renamed_nodes(session: Session, target: Target) -> list[Rewrite]:
    """Rename all nodes but the first of those with one name in a graph, and return the records."""
    rewrites: list[Rewrite] = []
    namer, reason = session.namer(), f"{target} does not load a graph with two nodes of one name"
    for nodes in list(same_names(session.model)):
        for node in nodes[1:]:
            site, before = site_of(node), node.name or ""
            node.name = namer.fresh(before)
            rewrites.append(Rewrite(PASS_NAME, RENAME_NODE.code, site, before, node.name, reason))
    return rewrites
