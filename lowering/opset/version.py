"""legalize-version: Change the opset and the IR version to ones that the target accepts.

Exact: a node, in subgraphs and model-local functions too, stays if it has the same meaning under the other opset (see
`obstacles`); is rewritten in the form of that opset (`adapters`); or, if that opset lacks the operator, is expanded to
the function by which the standard defines it. Refused otherwise, naming each such node; the model then keeps its opset
and a diagnostic says that the target will not accept it.

    <ir_version: 14, opset_import: ["" : 28]>
becomes, for a runtime that accepts IR version 13 and opset 26,
    <ir_version: 13, opset_import: ["" : 26]>

A model moves up to the oldest opset at which the target runs its operators (`raising`).

Where the target accepts the opset and lacks an operator in the form of it, the model moves to the newest opset at which
the target has it: ONNX Runtime 1.32 accepts opset 28, and has QuantizeLinear up to opset 27.

ONNX Runtime does not load a graph with two nodes of one name: all but the first get another one. Nor does it load a
Cast with `saturate = 0` to another type than float8: the attribute, which has no effect, is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import Rule
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Diagnostic, Records, Refusal, Rewrite, RewriteResult, Severity, Site
from castsmith.lowering.check.target import IR_VERSION_TOO_NEW, OPSET_TOO_NEW, TARGET_UNKNOWN
from castsmith.lowering.encodings.storage import inferred_declared, mentioned_types
from castsmith.lowering.opset.loading import IDLE_ATTRIBUTE, PASS_NAME, RENAME_NODE, fitted
from castsmith.lowering.opset.moving import ADAPT_OPERATOR, WRITE_OUT_OPERATOR, apply_moves, plan_moves
from castsmith.lowering.opset.obstacles import CHANGE_OPSET, TypeOf, move_to_opset, standard_nodes
from castsmith.lowering.opset.raising import FIRST_WITH_BFLOAT16, opset_needed
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

LOWER_IR_VERSION = Rule(
    "ir-version",
    "The model's IR version is lowered to one that the target accepts.",
    why="The model uses no feature of the newer version.",
    example="- IR version 14\n+ IR version 13",
)


@dataclass(frozen=True)
class LegalizeVersion(SessionPass):
    """Change the opset and the IR version to ones that the target accepts.

    Attributes:
        target: The runtime that the model is for.
    """

    codes = (
        CHANGE_OPSET,
        ADAPT_OPERATOR,
        WRITE_OUT_OPERATOR,
        IDLE_ATTRIBUTE,
        RENAME_NODE,
        LOWER_IR_VERSION,
        OPSET_TOO_NEW,
        IR_VERSION_TOO_NEW,
        TARGET_UNKNOWN,
    )

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        model, records = session.model, Records()
        _legalize_opset(session, self.target, records)
        _legalize_ir_version(model, self.target, records)
        records.rewrites += fitted(session, self.target)
        for key, what in (("newest_opset", "opset"), ("newest_ir_version", "IR version")):
            if key in self.target.unknown:
                message = f"the newest {what} that {self.target} accepts is unknown, so the model keeps its {what}"
                site = Site(model.graph.name or "")
                records.diagnostics.append(Diagnostic(TARGET_UNKNOWN.code, Severity.WARNING, site, message))
        return RewriteResult(model, bool(records.rewrites), records)


def _legalize_opset(session: Session, target: Target, records: Records) -> None:
    """Move to the newest opset at which the target has all operators, else to the newest that it accepts."""
    model = session.model
    now = opset_of(model.graph.opset_imports, "")
    requested = opset_asked(session, target)
    if now is None or (requested is not None and move_to(session, *requested, records)):
        return
    if now <= target.newest_opset and not target.dropped:
        return
    inference = session.inference(PromotionRules())
    types, newest = inference.types, min(now, target.newest_opset)
    goals = [*_with_kernels(model, target, types, newest)]
    if newest < now:
        goals.append((newest, f"{target} accepts opsets up to {newest}"))
    for to, why in goals:
        refused = len(records.refusals)
        if move_to(session, to, why, records):
            return
        falls_back = target.fallback is not None and now <= target.fallback.newest_opset
        if to == newest and newest < now and not falls_back:
            message = f"the model is of opset {now} and {target} accepts at most {to}"
            count = len(records.refusals) - refused
            nodes = "1 node" if count == 1 else f"{count} nodes"
            way_out = f"{nodes} would have a different meaning under opset {to}; see the skipped changes"
            site = Site(model.graph.name or "")
            records.diagnostics.append(Diagnostic(OPSET_TOO_NEW.code, Severity.ERROR, site, message, way_out))


def opset_asked(session: Session, target: Target | None, precision: DataType | None = None) -> tuple[int, str] | None:
    """Return the oldest newer opset at which the target runs the operators of a model without functions, and why.

    Args:
        session: The model.
        target: The runtime that it is for.
        precision: The type to which it will be converted, which the opset must have.
    """
    model, now = session.model, opset_of(session.model.graph.opset_imports, "")
    if now is None or model.functions:
        return None
    to, why = (now, "")
    if target is not None:
        to, why = opset_needed(model, target, session.inference(PromotionRules()).types, now)
    if precision == DataType.BFLOAT16 and to < FIRST_WITH_BFLOAT16:
        to, why = FIRST_WITH_BFLOAT16, f"opset {FIRST_WITH_BFLOAT16} is the first with bfloat16"
    return (to, why) if to > now else None


def move_to(session: Session, to: int, why: str, records: Records) -> bool:
    """Move the model to another opset; False if a node has no form there, which is recorded."""
    model, inference = session.model, session.inference(PromotionRules())
    types = inference.types
    with inferred_declared(model, types, shapes=Shapes(model, inference)):
        moves = plan_moves(model, to, types)
        if not moves.obstacles:
            records.rewrites += apply_moves(session, moves, PASS_NAME, types)
            reason = f"{why}; every node has the same meaning under it"
            records.rewrites.append(move_to_opset(model, to, PASS_NAME, reason))
            session.changed()
            return True
    moves.discard()
    records.refusals += [
        Refusal(PASS_NAME, CHANGE_OPSET.code, obstacle.site, obstacle.reason) for obstacle in moves.obstacles
    ]
    return False


@dataclass(frozen=True)
class RaiseOpset(SessionPass):
    """Move a model to the newer opset that `opset_asked` returns; a conversion begins with this.

    Attributes:
        to: The opset.
        why: Why the model needs it.
    """

    to: int
    why: str

    def rewrite(self, session: Session) -> RewriteResult:
        records = Records()
        move_to(session, self.to, self.why, records)
        return RewriteResult(session.model, bool(records.rewrites), records)


def _with_kernels(model: onnx_ir.Model, target: Target, types: TypeOf, newest: int) -> Iterator[tuple[int, str]]:
    """Yield the opset at which the target has the operators that it lacks at the newest, if there are such."""
    last: dict[int, str] = {}
    for node, _ in standard_nodes(model):
        dtypes = [types.get(value, value.dtype) for value in (*node.inputs, *node.outputs) if value is not None]
        opset = target.drops(node.op_type, dtypes, newest)
        if opset is not None:
            last.setdefault(opset, f"{target} has {node.op_type} up to opset {opset} only")
    if last:
        yield min(last.items())


def _legalize_ir_version(model: onnx_ir.Model, target: Target, records: Records) -> None:
    now, newest, needed = model.ir_version, target.newest_ir_version, needed_ir_version(model)
    site = Site(model.graph.name or "")
    if needed > newest:
        message = f"the model needs IR version {needed} and {target} accepts at most {newest}"
        records.diagnostics.append(Diagnostic(IR_VERSION_TOO_NEW.code, Severity.ERROR, site, message))
    elif now > newest:
        model.ir_version = newest
        reason = f"{target} accepts IR versions up to {newest}; the model needs only {needed}"
        records.rewrites.append(
            Rewrite(PASS_NAME, LOWER_IR_VERSION.code, site, f"IR version {now}", f"IR version {newest}", reason)
        )


def needed_ir_version(model: onnx_ir.Model) -> int:
    """Return the oldest IR version with the features of the model: functions, overloads, element types."""
    needs = [4]
    if model.functions:
        needs.append(10 if any(identifier[2] for identifier in model.functions) else 8)
    needs += [ELEMENT_TYPES[dtype].since.ir_version for dtype in mentioned_types(model) if dtype in ELEMENT_TYPES]
    return max(needs)
