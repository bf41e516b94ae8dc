"""What the rules of `check` know of a model and its target, and findings that are told once for many nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import rank_of
from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import Scope, all_nodes, imports_by_scope
from castsmith.targets.target import Target


@dataclass(frozen=True)
class Scene:
    """A model, the types of its values, and the target."""

    model: onnx_ir.Model
    inference: Inference
    target: Target

    @cached_property
    def imports(self) -> dict[Scope, Mapping[str, int]]:
        """The opset imports of each graph."""
        return imports_by_scope(self.model)

    @cached_property
    def ranges(self) -> Ranges:
        """The integers that values can be."""
        return Ranges(self.inference)

    @cached_property
    def nodes(self) -> list[onnx_ir.Node]:
        """All nodes, those of subgraphs and functions too."""
        return list(all_nodes(self.model))

    @cached_property
    def own(self) -> list[onnx_ir.Node]:
        """The nodes that call no function of the model."""
        return [node for node in self.nodes if node.op_identifier() not in self.model.functions]

    @cached_property
    def standard(self) -> list[onnx_ir.Node]:
        """The nodes of the standard's operators."""
        return [node for node in self.own if node.domain in DEFAULT_DOMAINS]

    @property
    def site(self) -> Site:
        """The place of what concerns the whole model."""
        return Site(self.model.graph.name or "")

    @property
    def lowering(self) -> str:
        """The call that lowers a model to the target, as Python code; the command line shows its own options."""
        return f"`optimize(target={str(self.target)!r})`"

    def opset(self, node: onnx_ir.Node, domain: str = "") -> int | None:
        """Return the opset of a domain in the scope of the node; None if it is not imported."""
        return None if node.graph is None else opset_of(self.imports[node.graph], domain)

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None:
        """Return the element type of a value; None if it is absent or unknown."""
        return self.inference.type_of(value)

    def rank(self, node: onnx_ir.Node, index: int) -> int | None:
        """Return the rank of an input; None if it is absent or unknown."""
        return rank_of(node.inputs[index], self.inference.ranks) if index < len(node.inputs) else None


def unused_nodes(model: onnx_ir.Model) -> set[onnx_ir.Node]:
    """Return the nodes on which no output depends."""
    unused = set[onnx_ir.Node]()
    for node in reversed(list(all_nodes(model))):
        if not any(value.is_graph_output() or {*value.consumers()} - unused for value in node.outputs):
            unused.add(node)
    return unused


Rule = Callable[[Scene], Iterator[Diagnostic]]


def once(code: FindingCode, severity: Severity, node: onnx_ir.Node, message: str, way_out: str) -> Diagnostic:
    """Return a finding that `merged` tells at the first of the nodes with the same message."""
    return Diagnostic(code.code, severity, site_of(node), message, way_out, subject=message)


def merged(findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the findings; one for each message of those made by `once`, with the number of nodes."""
    told = list(findings)
    counts = Counter((finding.code, finding.message) for finding in told if finding.subject == finding.message)
    for finding in told:
        if finding.subject != finding.message:
            yield finding
        elif count := counts.pop((finding.code, finding.message), 0):
            more = "" if count == 1 else f", in {count} nodes; this is the first"
            yield replace(finding, message=finding.message + more)
