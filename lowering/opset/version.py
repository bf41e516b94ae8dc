"""legalize-version: Change the opset and the IR version to ones that the target accepts.

Exact: a node, in subgraphs and model-local functions too, stays if it has the same meaning under the other opset (see
`obstacles`); is rewritten in the form of that opset (`adapters`); or, if that opset lacks the operator, is expanded to
the function by which the standard defines it. Refused otherwise, naming each such node; the model then keeps its opset
and a diagnostic says that the target will not accept it.

    <ir_version: 14, opset_import: ["" : 28]>
becomes, for ONNX Runtime 1.31,
    <ir_version: 13, opset_import: ["" : 26]>
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.ir.inference import Session
from castsmith.ir.ops import opset_of
from castsmith.ir.records import Diagnostic, Records, Refusal, Rewrite, RewriteResult, Severity, Site
from castsmith.ir.rewrite_pass import SessionPass
from castsmith.ir.targets import Target
from castsmith.lowering.encodings import inferred_declared, mentioned_types
from castsmith.lowering.opset.moving import apply_moves, needs_shapes, plan_moves
from castsmith.lowering.opset.obstacles import TypeOf, move_to_opset
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES

PASS_NAME = "legalize-version"


@dataclass(frozen=True)
class LegalizeVersion(SessionPass):
    """Change the opset and the IR version to ones that the target accepts.

    Attributes:
        target: The runtime that the model is for.
    """

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        model, records = session.model, Records()
        _legalize_opset(session, self.target, records)
        _legalize_ir_version(model, self.target, records)
        for key, what in (("newest_opset", "opset"), ("newest_ir_version", "IR version")):
            if key in self.target.unknown:
                message = f"the newest {what} that {self.target.name} accepts is unknown, so the model keeps its {what}"
                site = Site(model.graph.name or "")
                records.diagnostics.append(Diagnostic("target-unknown", Severity.WARNING, site, message))
        return RewriteResult(model, bool(records.rewrites), records)


def _legalize_opset(session: Session, target: Target, records: Records) -> None:
    model = session.model
    now, newest = opset_of(model.graph.opset_imports, ""), target.newest_opset
    if now is None or now <= newest:
        return
    types = session.inference(PromotionRules()).types
    with inferred_declared(model, types, shapes=needs_shapes(model, now, newest)):
        _move_to(session, target, types, now, records)


def _move_to(session: Session, target: Target, types: TypeOf, now: int, records: Records) -> None:
    model, newest = session.model, target.newest_opset
    site = Site(model.graph.name or "")
    moves = plan_moves(model, newest, types)
    found = moves.obstacles
    if not found:
        records.rewrites += apply_moves(session, moves, PASS_NAME, newest, types)
        move_to_opset(model, newest)
        session.changed()
        reason = f"{target.name} accepts opsets up to {newest}; every node has the same meaning under it"
        records.rewrites.append(Rewrite(PASS_NAME, "opset", site, f"opset {now}", f"opset {newest}", reason))
        return
    moves.discard()
    records.refusals += [Refusal(PASS_NAME, "opset", obstacle.site, obstacle.reason) for obstacle in found]
    message = f"the model is of opset {now} and {target.name} accepts at most {newest}"
    nodes = "1 node" if len(found) == 1 else f"{len(found)} nodes"
    way_out = f"{nodes} would have a different meaning under opset {newest}; see the refusals"
    records.diagnostics.append(Diagnostic("opset-too-new", Severity.ERROR, site, message, way_out))


def _legalize_ir_version(model: onnx_ir.Model, target: Target, records: Records) -> None:
    now, newest, needed = model.ir_version, target.newest_ir_version, needed_ir_version(model)
    site = Site(model.graph.name or "")
    if needed > newest:
        message = f"the model needs IR version {needed} and {target.name} accepts at most {newest}"
        records.diagnostics.append(Diagnostic("ir-version-too-new", Severity.ERROR, site, message))
    elif now > newest:
        model.ir_version = newest
        reason = f"{target.name} accepts IR versions up to {newest}; the model needs only {needed}"
        records.rewrites.append(
            Rewrite(PASS_NAME, "ir-version", site, f"IR version {now}", f"IR version {newest}", reason)
        )


def needed_ir_version(model: onnx_ir.Model) -> int:
    """Return the oldest IR version with the features of the model: functions, overloads, element types."""
    needs = [4]
    if model.functions:
        needs.append(10 if any(identifier[2] for identifier in model.functions) else 8)
    needs += [ELEMENT_TYPES[dtype].since.ir_version for dtype in mentioned_types(model) if dtype in ELEMENT_TYPES]
    return max(needs)
