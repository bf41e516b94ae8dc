"""lower-float8: Store float8 and all types below 8 bits as uint8 codes, and expand operators that compute with them.

Done for each type that the target lacks, has no kernel of for a node of the model, or computes wrongly, and
for those that share a node with one; all values of the type become codes, graph inputs and outputs too (their names
stay). Operators that only move elements act on the codes. Cast, CastLike, QuantizeLinear, DequantizeLinear, IsNaN and
IsInf expand, exactly as the schema of the model's opset says; without BitCast (opset 26) a NaN loses its sign.
Refused, with all types as they were: any other operator on them, casts from and to string, nodes of unknown types.

    c = Cast <to = float8e4m3fn> (x)
    y = Cast <to = float> (c)
becomes
    bits = BitCast <to = uint32> (x), ... rounding in integers ..., c = Cast <to = uint8> (code)
    y = Gather (float8e4m3fn_to_float, Cast <to = int32> (c))
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, Records, Refusal, RewriteResult, Severity, Site
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.encodings.choose import DOUBLE_IS_FLOAT
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE
from castsmith.lowering.encodings.storage import PACKED, inferred_declared, mentioned_types
from castsmith.lowering.float8.apply import MOVE_CODES, STORE_AS_CODES, apply_plan, leftover
from castsmith.lowering.float8.functions import Functions, functions_with_codes
from castsmith.lowering.float8.needs import (
    TYPE_NOT_IN_TARGET,
    Types,
    other_types_that_target_lacks,
    reasons_to_lower,
)
from castsmith.lowering.float8.plan import LOWER_OPERATOR, NAME, is_at_risk, make_plan, wrap_expansions
from castsmith.lowering.inlining import INLINE_FUNCTIONS, inline_or_refuse
from castsmith.lowering.interface import WIDE, WIDEN_INTERFACE, widen_interface
from castsmith.lowering.opset.obstacles import CHANGE_OPSET
from castsmith.numerics.errors import require
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES
from castsmith.passes.core.options import Encoding, Interface, Storage, choice_info, flag_info, option, shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

FLOAT8_NOT_LOWERED = FindingCode(
    "float8-not-lowered",
    "A node needs a float8 type that the target does not support, and cannot be replaced exactly.",
    why="A partly lowered model would not load, so nothing is lowered.",
    example="MatMul on float8e4m3fn",
    advice="Pass --explain to see which nodes were skipped, and change them.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never for this target: it rejects the model.",
)
SEQUENCE_AT_RISK = FindingCode(
    "sequence-at-risk",
    "The target may compute a replacement incorrectly.",
    why="Its optimizer may change the arithmetic, for example by reassociating constants.",
    example="the target contracts multiplication and addition",
    advice="Turn that optimization off, and run castsmith verify.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="manual",
    silence="If castsmith verify finds no difference on the device.",
)


@dataclass(frozen=True)
class LowerFloat8(SessionPass):
    """Store float8 and all types below 8 bits that the target lacks as uint8 codes.

    Attributes:
        target: The runtime that the model is for.
        sequence: The encoding: `table` (the fastest, 8 or 16 KiB more for each type that is encoded and 32 or 64 for
            each that is rounded in place), `bitcast` (no tables), `ladder` (no BitCast), or `auto`: table if
            the target has BitCast and the model is at, or can be moved to, its opset, else ladder.
        always: Lower even what the target supports itself.
        emit_functions: Make each encoding one model-local function.
        interface: `stored` makes graph inputs and outputs codes, `wide` makes them floats, or bytes for integers.
        storage: `packed` keeps large weights of 4 and 2 bits packed, which the graph unpacks, `byte` one code in each
            byte.
    """

    codes = (
        LOWER_OPERATOR,
        MOVE_CODES,
        STORE_AS_CODES,
        INLINE_FUNCTIONS,
        CHANGE_OPSET,
        WIDEN_INTERFACE,
        ROUND_IN_PLACE,
        FLOAT8_NOT_LOWERED,
        SEQUENCE_AT_RISK,
        TYPE_NOT_IN_TARGET,
    )

    target: Target
    sequence: Encoding = option("auto", choice_info("encoding of conversions", Encoding))
    always: bool = option(False, flag_info("lower even supported types and operators"))
    emit_functions: bool = shared("emit_functions")
    interface: Interface = shared("interface")
    storage: Storage = shared("storage")

    def rewrite(self, session: Session) -> RewriteResult:
        model, records = session.model, Records()
        opset = opset_of(model.graph.opset_imports, "")
        if opset is not None and {DataType.UNDEFINED, *CODED_TYPES, *self.target.lacks} & mentioned_types(model):
            types = session.inference(PromotionRules()).types
            names = functions_with_codes(model, types, self._reasons(model, types, opset) or CODED_TYPES)
            if inline_or_refuse(session, names, NAME, records):
                inference = session.inference(PromotionRules())
                shapes = Shapes(model, inference) if _needs_shapes(model) else None
                with inferred_declared(model, inference.types, shapes=shapes):
                    self._lower(session, inference.types, opset, records)
            else:
                reasons = self._reasons(model, types, opset).values()
                records.diagnostics += [_not_lowered(records.refusals, reason) for reason in [*reasons][:1]]
        return RewriteResult(model, bool(records.rewrites), records)

    def _lower(self, session: Session, types: Types, opset: int, records: Records) -> None:
        """Lower a model in which no function handles codes, with declared types for all values that can have one."""
        model = session.model
        records.diagnostics += other_types_that_target_lacks(model, self.target, types)
        reasons = self._reasons(model, types, opset)
        if self.interface == WIDE:
            records.rewrites += widen_interface(session, NAME, reasons)
        plan = make_plan(session, self.target, frozenset(reasons), self.sequence, opset)
        if is_at_risk(plan, model, self.target):
            message = f"{self.target} may change the result of the encoding: {self.target.hazards[DOUBLE_IS_FLOAT]}"
            site = Site(model.graph.name or "")
            records.diagnostics.append(Diagnostic(SEQUENCE_AT_RISK.code, Severity.WARNING, site, message))
        if plan.refusals:
            records.refusals += plan.refusals
            records.diagnostics.append(_not_lowered(plan.refusals, next(iter(reasons.values()))))
            plan.discard()
        elif reasons:
            if self.emit_functions:
                wrap_expansions(plan, Functions(model, plan.new_opset or opset))
            apply_plan(session, plan, reasons, records, self.target, pack=self.storage == PACKED)
            require(not leftover(model, reasons), "lower-float8 left values of a type that it lowers")

    def _reasons(self, model: onnx_ir.Model, types: Types, opset: int) -> dict[DataType, str]:
        """Return the types to lower, each with the reason."""
        reasons = reasons_to_lower(model, self.target, types, opset)
        if self.always:
            in_use = {types.get(value, value.dtype) for value in all_values(model)}
            requested = "the option `always` requests it"
            reasons |= {dtype: requested for dtype in CODED_TYPES if dtype in in_use and dtype not in reasons}
        return reasons


def _needs_shapes(model: onnx_ir.Model) -> bool:
    """True if a quantization has operands of unknown rank, which its granularity depends on."""
    linear = (node for node in all_nodes(model) if node.op_type in LINEAR)
    return any(value is not None and value.shape is None for node in linear for value in node.inputs[:2])


def _not_lowered(refusals: list[Refusal], reason: str) -> Diagnostic:
    first, others = refusals[0], len(refusals) - 1
    message = f"the values must become codes, because {reason}, but {first.reason}"
    if others:
        message += f"; {others} more node{'s' if others > 1 else ''} cannot be replaced"
    return Diagnostic(FLOAT8_NOT_LOWERED.code, Severity.ERROR, first.site, message)
