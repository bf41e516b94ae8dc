"""Nodes with the same finding, which is reported once, at the first of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.records import Site
from castsmith.ir.text import site_of


@dataclass
class Occurrences:
    """The first place of a finding, and its nodes."""

    first: Site
    nodes: set[onnx_ir.Node] = field(default_factory=set[onnx_ir.Node])

    def more(self) -> str:
        """Return the number of nodes, if there are several."""
        return "" if len(self.nodes) == 1 else f", in {len(self.nodes)} nodes; this is the first"


def note(occurrences: dict[str, Occurrences], reason: str, node: onnx_ir.Node) -> None:
    """Add a node to those with a reason."""
    occurrences.setdefault(reason, Occurrences(site_of(node))).nodes.add(node)
