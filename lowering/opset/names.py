"""Names of nodes, for targets that do not load a graph with two nodes of one name."""

from __future__ import annotations

from dataclasses import dataclass

from castsmith.ir.inference import Session
from castsmith.ir.naming import same_names
from castsmith.ir.records import Records, Rewrite, RewriteResult
from castsmith.ir.rewrite_pass import SessionPass
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of

PASS_NAME = "legalize-version"


@dataclass(frozen=True)
class RenameNodes(SessionPass):
    """Give each node of a graph a name of its own, if the target requires it; a conversion ends with this.

    Attributes:
        target: The runtime that the model is for.
    """

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        rewrites = renamed_nodes(session, self.target) if self.target.refuses_same_names else []
        return RewriteResult(session.model, bool(rewrites), Records(rewrites))


def renamed_nodes(session: Session, target: Target) -> list[Rewrite]:
    """Rename all nodes but the first of those with one name in a graph, and return the records."""
    found: list[Rewrite] = []
    namer, reason = session.namer(), f"{target.name} does not load a graph with two nodes of one name"
    for nodes in list(same_names(session.model)):
        for node in nodes[1:]:
            site, before = site_of(node), node.name or ""
            node.name = namer.fresh(before)
            found.append(Rewrite(PASS_NAME, "node-name", site, before, node.name, reason))
    return found
