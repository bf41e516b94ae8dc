"""Nodes with the same finding, which is reported once, at the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.codes import FindingCode
from castsmith.ir.records import Diagnostic, Severity, Site
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


def noted(
    occurrences: Mapping[str, Occurrences], code: FindingCode, severity: Severity, way_out: str
) -> Iterator[Diagnostic]:
    """Yield a finding for each reason, at the first of its nodes."""
    for reason, nodes in occurrences.items():
        yield Diagnostic(code.code, severity, nodes.first, reason + nodes.more(), way_out, reason)
