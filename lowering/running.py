"""One run of passes: a session, the records of all passes in it, provenance, and what is left in the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir.passes import PassBase

from castsmith.ir.ops.qonnx import TRUNCS
from castsmith.ir.records import Diagnostic, Records, RewriteResult, Severity
from castsmith.lowering.registry import name_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewrite_pass import RewritePass, SessionPass, note_provenance
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

if TYPE_CHECKING:
    from castsmith.lowering.certificate import Certifier


@dataclass
class Run:
    """A run of passes over one model.

    Attributes:
        session: The model, the facts about it, and the records so far.
        provenance: Note in the metadata of new nodes which rule made them.
        progress: Called with the name of each pass before it runs.
        certifier: Notes what each pass made of the model.
    """

    session: Session
    provenance: bool
    progress: Callable[[str], None] | None
    certifier: Certifier | None = None
    _known: set[onnx_ir.Node] = field(init=False)
    """The nodes that have their provenance, or are of the model itself."""

    def __post_init__(self) -> None:
        self._known = set(self.session.nodes) if self.provenance else set()

    @property
    def records(self) -> Records:
        return self.session.records

    def apply(self, rewrite_pass: PassBase) -> RewriteResult:
        """Run a pass on the model of the session, and record what it did."""
        session, name = self.session, name_of(rewrite_pass)
        if self.progress is not None:
            self.progress(name)
        result = _result_of(rewrite_pass, name, session)
        session.record(result.records)
        if self.certifier is not None and result.modified:
            self.certifier.step(name, session.model, result.records.rewrites)
        if self.provenance and result.modified:
            note_provenance(session.model, session.nodes, self._known, result.records.rewrites)
        return result


def _result_of(rewrite_pass: PassBase, name: str, session: Session) -> RewriteResult:
    """Run a pass of Castsmith in the session, or a foreign pass, which may change anything, on its model."""
    if isinstance(rewrite_pass, SessionPass):
        return rewrite_pass.run(session)
    if isinstance(rewrite_pass, RewritePass):
        result = rewrite_pass(session.model)
    else:
        from castsmith.passes.managers import run_recorded

        result = run_recorded(rewrite_pass, session.model, name)
    session.changed(result.model)
    return result


def leftovers(session: Session, rules: PromotionRules, target: Target | None) -> list[Diagnostic]:
    """Return the errors of the model of the session, for any runtime or for the target, that no pass reported."""
    from castsmith.lowering.check.trunc import trunc_findings
    from castsmith.lowering.check.types import result_findings, undecided_findings

    inference, reported = session.inference(rules), session.records.diagnostics
    sites = {(finding.code, finding.site) for finding in reported}
    nodes, imports = session.nodes, session.imports
    findings = (
        *undecided_findings(inference, rules),
        *result_findings(nodes, imports, inference),
        *trunc_findings(session.nodes_of(TRUNCS), imports),
    )
    errors = [
        finding
        for finding in findings
        if finding.severity is Severity.ERROR and (finding.code, finding.site) not in sites
    ]
    if target is not None:
        from castsmith.lowering.check.target import unreported_errors

        errors += unreported_errors(session.model, inference, target, [*reported, *errors])
    return errors
