"""insert-promote-types: Insert a ConvertPromoteTypes before every operator whose operands must share a type and do not.

The operands that must share a type are those that one type variable of the operator's schema binds. For two
operands a ConvertPromoteTypes (OpenVINO, ConvertPromoteTypes-14) takes them and returns them in their common
type. For more than two, one common type of the whole set is computed and each operand is cast to it once, since
promotion is not associative. If branches of If, or states of Loop and Scan, disagree they are cast to the widest.
A type that the operator does not support at this opset becomes the next wider one that it supports
(`castsmith.analysis.inference.disagreement`).

Exact: it changes no operator that was valid. Refused: an unsafe promotion, by an error that
names the node, its operands and the option; a pair whose ranks the rules need and that are unknown, by a refusal; a
type without a wider type that the operator supports, by a diagnostic that names the opset which would allow it.

    z = Add (x, y)  # (float[N], int32[N]) -> ?
becomes
    x1, y1 = castsmith.ConvertPromoteTypes (x, y)  # (float[N], int32[N]) -> float[N], float[N]
    z = Add (x1, y1)  # (float[N], float[N]) -> float[N]
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.calls import Signature, free_identifier, signature_text
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import conversion
from castsmith.ir.ops.promote_types import CASTSMITH_DOMAIN
from castsmith.ir.records import Effect, Records, Rewrite, RewriteResult
from castsmith.ir.text import Types, node_item, site_of
from castsmith.ir.validation import require_order
from castsmith.ir.walks import all_nodes, graph_of, nodes_of
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.options import shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.passes.promote.declared import (
    DECLARE_TYPES,
    KEEP_OUTPUT_TYPE,
    NAME,
    OUTPUT_TYPE_FOLLOWS,
    WIDEN_JOINED_OUTPUT,
    convert_joined_output,
    follow_types,
)
from castsmith.passes.promote.operands import (
    BOOLEAN_ARITHMETIC,
    PROMOTE_OPERANDS,
    RESTORE_TYPE,
    SUM_IN_PAIRS,
    TYPE_NOT_ALLOWED,
    Work,
    promote,
)

# A function's body has one set of types, so if its operands disagree no single conversion fits all calls. A call with
# other types gets a copy of the function under another name. Functions that need no conversion are unchanged.


WIDEN_STATE = Rule(
    "widen-state",
    "The initial state of a Loop or Scan is cast to the type that the body widens it to.",
    why="A state has one type in all iterations.",
    example="initial state int64, next state float: the initial state is cast to float",
    safety=(Effect.REPAIR,),
)
SPECIALISE_FUNCTION = Rule(
    "specialise-function",
    "A call gets a copy of the function for its argument types.",
    why="A function body has one set of types, and this call needs others.",
    example="y = local.f (x)  becomes  y = local.f_int64 (x)",
)


def specialise_functions(
    pass_name: str, session: Session, rules: PromotionRules, records: Records, types: Container[DataType] = ()
) -> Inference:
    """Copy functions until each that needs conversions is called with one set of types; return the inference.

    Args:
        types: Functions that are called with one of these types are copied too.
    """
    while True:
        inference = session.inference(rules)
        wanted = inference.calls.to_specialise(types)
        if not wanted:
            return inference
        specialized: dict[onnx_ir.Function, dict[Signature, onnx_ir.OperatorIdentifier]] = {}
        for node, (function, signature) in wanted.items():
            copies = specialized.setdefault(function, {})
            if not copies:
                copies[signature] = function.identifier()
            elif signature not in copies:
                copies[signature] = _copy(session.model, function, signature)
            if copies[signature] != function.identifier():
                records.rewrites.append(_call(pass_name, node, copies[signature], inference.types))
        session.changed()


def _copy(model: onnx_ir.Model, function: onnx_ir.Function, signature: Signature) -> onnx_ir.OperatorIdentifier:
    identifier = free_identifier(model.functions, function.identifier(), signature_text(signature))
    copy = function.clone()
    copy.domain, copy.name, copy.overload = identifier
    copy.graph.name = ".".join(filter(None, identifier))
    model.functions[identifier] = copy
    return identifier


def _call(pass_name: str, node: onnx_ir.Node, identifier: onnx_ir.OperatorIdentifier, types: Types) -> Rewrite:
    before, site = node_item(node, types), site_of(node)
    copy = ".".join(filter(None, identifier))
    reason = f"{node.op_type} is also called with other types, so this call gets the copy {copy}"
    _, node.op_type, node.overload = identifier
    return Rewrite(pass_name, SPECIALISE_FUNCTION.code, site, before, node_item(node, types), reason, Effect.BIT_EXACT)


@dataclass(frozen=True)
class InsertPromoteTypes(SessionPass):
    """Make the promotion that mixed operands imply explicit.

    Attributes:
        promote_unsafe: As in PromotionRules.
        pytorch_scalar_promotion: As in PromotionRules.
        u64_integer_promotion_target: As in PromotionRules.
        library: As in PromotionRules.
        weak_scalars: As in PromotionRules.
        half_constants: As in PromotionRules.
        keep_output_types: Cast a graph output that promotion widened back to its declared type; by default the
            declaration follows.

    Raises:
        PromotionError: The rules refuse a promotion.
        OrderError: Nodes are out of order.
    """

    codes = (
        PROMOTE_OPERANDS,
        BOOLEAN_ARITHMETIC,
        SUM_IN_PAIRS,
        RESTORE_TYPE,
        WIDEN_STATE,
        WIDEN_JOINED_OUTPUT,
        KEEP_OUTPUT_TYPE,
        DECLARE_TYPES,
        SPECIALISE_FUNCTION,
        TYPE_NOT_ALLOWED,
        OUTPUT_TYPE_FOLLOWS,
    )

    promote_unsafe: bool = PromotionRules.promote_unsafe
    pytorch_scalar_promotion: bool = PromotionRules.pytorch_scalar_promotion
    u64_integer_promotion_target: DataType = PromotionRules.u64_integer_promotion_target
    library: str = PromotionRules.library
    weak_scalars: bool = PromotionRules.weak_scalars
    half_constants: bool = PromotionRules.half_constants
    keep_output_types: bool = shared("keep_output_types")

    def requires(self, model: onnx_ir.Model) -> None:
        super().requires(model)
        require_order(all_nodes(model))

    def requires_in(self, session: Session) -> None:
        super().requires(session.model)
        session.require_order()

    def rewrite(self, session: Session) -> RewriteResult:
        model, records, rules = session.model, Records(), self.rules()
        inference = specialise_functions(NAME, session, rules, records)
        inside = {graph for f in model.functions.values() for graph in (f.graph, *f.subgraphs())}
        work = Work(session, rules, inference, session.namer(), records, inside)
        _repair_nodes(work)
        for (graph, index), dtype in inference.output_conversions.items():
            imports = session.imports[graph]
            records.rewrites.append(convert_joined_output(graph, index, dtype, work.namer, imports, inference.types))
        follow_types(model, inference, work.namer, records, keep_output_types=self.keep_output_types)
        if CASTSMITH_DOMAIN in session.survey.domains:
            _import_domain(model)
        return RewriteResult(model, bool(records.rewrites), records)

    def rules(self) -> PromotionRules:
        return PromotionRules(
            self.promote_unsafe,
            self.pytorch_scalar_promotion,
            self.u64_integer_promotion_target,
            self.library,
            self.weak_scalars,
            self.half_constants,
        )


def _import_domain(model: onnx_ir.Model) -> None:
    """Import a domain in the main graph if a function needs it: runtimes inline the function there."""
    scopes = (model.graph, *model.functions.values())
    needing = [scope for scope in scopes if any(node.domain == CASTSMITH_DOMAIN for node in nodes_of(scope))]
    for scope in {model.graph: None, **dict.fromkeys(needing)}:
        scope.opset_imports.setdefault(CASTSMITH_DOMAIN, 1)


def _repair_nodes(work: Work) -> None:
    inference = work.inference
    marked = {*inference.disagreements, *inference.illegal, *(node for node, _ in inference.conversions)}
    scopes = work.session.imports
    for node in [node for node in work.session.nodes if node in marked]:
        imports = scopes[graph_of(node)]
        for disagreement in (*inference.disagreements.get(node, ()), *inference.illegal.get(node, ())):
            promote(disagreement, imports, work)
        for index in range(len(node.inputs)):
            _convert_entering_state(node, index, imports, work)


def _convert_entering_state(node: onnx_ir.Node, index: int, imports: Mapping[str, int], work: Work) -> None:
    dtype = work.inference.conversions.get((node, index))
    if dtype is None:
        return
    cast = conversion(present(node.inputs[index], "the initial state"), dtype, imports)
    reason = f"the body widens this state to {type_name(dtype)}, so its initial value is cast"
    change = Replacement(WIDEN_STATE.code, reason, (cast,), (), {index: cast.outputs[0]}, effect=Effect.REPAIR)
    work.records.rewrites.append(work.applied(node, change))
