"""widen-floats: Compute operators on float16 or bfloat16 in float if the target has no kernel for them.

If the target supports the type but lacks the operator, the operands are cast to float and the result back: the
operator's result in float, rounded once. For +, -, *, / and square root that is the result in the type itself, since
float has more than twice its precision and two bits; for others, whose last bits the standard leaves to runtimes, it is
the usual meaning. If the target lacks the type, its values become floats and each result is rounded in place.

    y = Add (a, b)
becomes
    a_float = Cast <to = float> (a), b_float = Cast <to = float> (b), s = Add (a_float, b_float)
    y = Cast <to = bfloat16> (s)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import FindingCode, Outcome, Rule
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import op_formals, opset_of, with_formals
from castsmith.ir.ops.table import CASTS, LINEAR, RUNS_GRAPHS, operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.records import Diagnostic, Effect, Records, Refusal, RewriteResult, Severity
from castsmith.ir.text import site_of
from castsmith.lowering.builder import ReplacementBuilder, as_replacement, computed_in
from castsmith.lowering.check.pairs import divided_in_float
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE
from castsmith.lowering.encodings.storage import mentioned_types, retyped_attributes
from castsmith.lowering.float8.needs import TYPE_NOT_IN_TARGET, fails_when_run
from castsmith.lowering.inlining import INLINE_FUNCTIONS, inline_or_refuse, takes_a_type
from castsmith.lowering.interface import WIDE, WIDEN_INTERFACE, widen_interface
from castsmith.lowering.operators.scene import Lower, Scene, lower_nodes
from castsmith.lowering.widen.storage import WIDEN_STORAGE, effect_in_float, widen_storage, widened_tensor
from castsmith.lowering.widen.transposes import CAST_BEFORE_TRANSPOSE, cast_before_transpose
from castsmith.lowering.widen.unify import UNIFY_OPERANDS, unify_operands
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES, HALF_TYPES, type_name
from castsmith.passes.core.options import Interface, shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

NO_KERNEL = FindingCode(
    "no-kernel",
    "The target has no kernel for an operator, and no exact replacement exists.",
    why="The result would not run.",
    example="Loop on bfloat16",
    advice="Change the operator or its type in the model.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never for this target: it rejects the model.",
)
WIDEN_OPERATOR = Rule(
    "widen",
    (
        "An operator on float16 or bfloat16 computes in float, because the target has no kernel for it. "
        "Some are skipped."
    ),
    why="The result in float, rounded once, is the result in that type.",
    example="- y = Add (a, b)  # bfloat16\n+ y = Cast <to = bfloat16> (Add (a_float, b_float))",
    advice="If it is skipped, change the operator or its type in the model.",
    safety=(Effect.BIT_EXACT, Effect.IN_WIDER_TYPE, Effect.AS_DEFINED),
)


def _inline_ambiguous(session: Session, records: Records) -> None:
    """Inline the functions whose types depend on the call: one call may need widening and another not."""
    inference = session.inference(PromotionRules())
    names = {
        name
        for name, function in session.model.functions.items()
        if len(inference.signatures.get(function, ())) > 1 or any(map(takes_a_type, function.all_nodes()))
    }
    inline_or_refuse(session, names, NAME, records)


def _casts(scene: Scene, codes: DataType, *, quantizes: bool) -> bool:
    """True if the target casts codes to float, and float to codes if that is asked for, as the standard says."""
    target, opset, float_ = scene.target, scene.opset, DataType.FLOAT
    wrong = (
        target.wrong_cast(*types, saturate=saturates, opset=opset)
        for types in ((codes, float_), (float_, codes))[: 1 + quantizes]
        for saturates in (True, False)
    )
    return target.has_kernel("Cast", codes, opset) and not any(wrong)


NAME = "widen-floats"
_FIRST_OF_BLOCKS = 21
"""The first opset in which QuantizeLinear and DequantizeLinear take blocks."""
_HOLDERS = RUNS_GRAPHS | operators(lambda row: row.moves in (Moves.PACK, Moves.UNPACK, Moves.CONTENT))
"""Operators that pass values on unchanged, and whose kernels do not depend on the element type."""


@dataclass(frozen=True)
class WidenFloats(SessionPass):
    """Compute operators on float16 or bfloat16 in float if the target has no kernel for them.

    Attributes:
        target: The runtime that the model is for.
        interface: `stored` keeps the graph inputs and outputs of a type that the target has, `wide` makes them float.
            Those
            of a type that it lacks become float in any case.
        emit_functions: Make each rounding in place one model-local function.
    """

    codes = (
        INLINE_FUNCTIONS,
        WIDEN_OPERATOR,
        UNIFY_OPERANDS,
        WIDEN_STORAGE,
        CAST_BEFORE_TRANSPOSE,
        WIDEN_INTERFACE,
        ROUND_IN_PLACE,
        NO_KERNEL,
        TYPE_NOT_IN_TARGET,
    )

    target: Target
    interface: Interface = shared("interface")
    emit_functions: bool = shared("emit_functions")

    def rewrite(self, session: Session) -> RewriteResult:
        records = Records()
        unify_operands(session, self.target, records)
        if {DataType.UNDEFINED, *HALF_TYPES} & mentioned_types(session.model):
            self._widen(session, records)
        elif (opset_of(session.model.graph.opset_imports, "") or 0) > self.target.newest_opset:
            self._lower(session, _linear, records)
        records.rewrites += cast_before_transpose(session, self.target, NAME)
        return RewriteResult(session.model, bool(records.rewrites), records)

    def _widen(self, session: Session, records: Records) -> None:
        records.rewrites += widen_interface(session, NAME, HALF_TYPES if self.interface == WIDE else ())
        _inline_ambiguous(session, records)
        self._lower(session, _linear, records)
        self._lower(session, _widened, records)
        for dtype in HALF_TYPES:
            if dtype in self.target.lacks:
                widen_storage(session, self.target, dtype, records, emit_functions=self.emit_functions)

    def _lower(self, session: Session, lower: Lower, records: Records) -> None:
        outcome = lower_nodes(session, NAME, self.target, lower).records
        for refusal in outcome.refusals:
            message = f"{refusal.reason}, and {self.target} has no kernel for it"
            outcome.diagnostics.append(Diagnostic(NO_KERNEL.code, Severity.ERROR, refusal.site, message))
        records.extend(outcome)


def _types_in_use(node: onnx_ir.Node, scene: Scene) -> set[DataType | None]:
    return {scene.type_of(value) for value in (*node.inputs, *node.outputs)}


def _lacking(node: onnx_ir.Node, scene: Scene) -> list[DataType]:
    """Return the half types of the node that the target supports but has no kernel of the node for."""
    target, opset = scene.target, scene.opset
    in_use = _types_in_use(node, scene) - target.lacks
    newest = min(opset, target.newest_opset)
    return [
        dtype
        for dtype in HALF_TYPES
        if dtype in in_use
        and not (
            target.has_kernel(node.op_type, dtype, opset)
            and _has_type(node, dtype, scene, newest)
            and not fails_when_run(node, dtype, target)
        )
    ]


def _has_type(node: onnx_ir.Node, dtype: DataType, scene: Scene, opset: int) -> bool:
    """False if the operator of the opset does not allow the type at the place where the node has it."""
    key = ("", node.op_type, opset)
    return op_formals(*key) is None or all(
        formal is None or not formal.allowed or dtype in formal.allowed
        for value, formal in with_formals(node, key)
        if scene.type_of(value) == dtype
    )


# QuantizeLinear and DequantizeLinear of float16 and bfloat16 in float, with each rounding of the schema.


def _linear(node: onnx_ir.Node, scene: Scene) -> Replacement | Refusal | None:
    """Expand QuantizeLinear and DequantizeLinear, which round in the middle, step by step."""
    if node.op_type not in LINEAR:
        return None
    target, opset, in_use = scene.target, scene.opset, _types_in_use(node, scene)
    quantizes = node.op_type == "QuantizeLinear"
    codes = scene.type_of(node.outputs[0] if quantizes else node.inputs[0])
    divided = divided_in_float(node, scene.type_of, target, opset)
    lacking = [dtype for dtype in HALF_TYPES if dtype in in_use & target.lacks] or _lacking(node, scene)
    lacking = lacking or ([divided] if divided else _of_newer_form(node, codes, scene))
    if not lacking:
        return None
    why = f"{target} has no {node.op_type} of {type_name(lacking[0])} at opset {min(opset, target.newest_opset)}"
    if divided:
        why = f"{target} does not round the quotient to {type_name(lacking[0])}"
    try:
        if codes is None or (codes in CODED_TYPES and not _casts(scene, codes, quantizes=quantizes)):
            types = [type_name(lacking[0]), "?" if codes is None else type_name(codes)]
            source, to = types if quantizes else types[::-1]
            raise ModelError(f"{node.op_type} of {source} to {to}")
        build, y = scene.written_out(node)
    except ModelError as error:
        return Refusal(NAME, WIDEN_OPERATOR.code, site_of(node), str(error))
    return as_replacement(build, WIDEN_OPERATOR.code, f"{why}: in float, step by step", y)


def _of_newer_form(node: onnx_ir.Node, codes: DataType | None, scene: Scene) -> list[DataType]:
    """Return the quantized type, of 8 or 16 bits, if the newest opset of the target does not take it or its blocks."""
    newest = scene.target.newest_opset
    if scene.opset <= newest or codes is None or codes in (*CODED_TYPES, *scene.target.lacks):
        return []
    blocked = newest < _FIRST_OF_BLOCKS and node.attributes.get_int("block_size", 0) != 0
    return [codes] if blocked or not _has_type(node, codes, scene, newest) else []


def _widened(node: onnx_ir.Node, scene: Scene) -> Replacement | Refusal | None:
    """Return the node in float, if the target has no kernel of a half type for it."""
    # A quantizer that `_linear` refused rounds in the middle, so one rounding at the end is not the same. A cast by way
    # of float needs the same cast in the end.
    lacking = [] if node.op_type in (*_HOLDERS, *LINEAR, *CASTS) else _lacking(node, scene)
    if not lacking:
        return None
    dtype = lacking[0]
    if obstacle := _obstacle(node, dtype, scene):
        return Refusal(NAME, WIDEN_OPERATOR.code, site_of(node), obstacle)
    build = ReplacementBuilder(node)
    outputs = computed_in(
        build,
        DataType.FLOAT,
        retyped_attributes(node, (dtype,), DataType.FLOAT, widened_tensor),
        lambda _, value: build.cast(value, DataType.FLOAT) if scene.type_of(value) == dtype else value,
        lambda old: dtype if scene.type_of(old) == dtype else None,
    )
    reason = f"{scene.lacks(node, dtype)}: in float, rounded once"
    return as_replacement(build, WIDEN_OPERATOR.code, reason, *outputs, effect=effect_in_float(node))


def _obstacle(node: onnx_ir.Node, dtype: DataType, scene: Scene) -> str | None:
    target, opset = scene.target, scene.opset
    if not target.has_kernel("Cast", dtype, opset):
        return f"{target} lacks Cast of {type_name(dtype)} too"
    if not target.has_kernel(node.op_type, DataType.FLOAT, opset):
        return f"{target} lacks {node.op_type} of float too"
    return None
