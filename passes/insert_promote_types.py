"""insert-promote-types: a ConvertPromoteTypes before every operator whose operands must share a type and do not.

Which operands must share a type is read from the operator's schema: those that one type variable binds. For two
operands a ConvertPromoteTypes (OpenVINO, ConvertPromoteTypes-14) takes them in and gives them out in their common
type. For more than two, one common type of the whole set is computed and each operand is cast to it once, since
promotion is not associative. Where branches of If, or states of Loop and Scan, disagree they are cast to the widest.
A type that the operator does not take at this opset becomes the next wider one that it takes (`castsmith.ir.legality`).

Exact: it changes no operator that had a meaning. Refused: a promotion that the rules call unsafe, by an error that
names the node, its operands and the option; a pair whose ranks the rules need and nobody knows, by a refusal; a type
that the operator does not take, nor any that holds it, by a diagnostic that names the opset which would allow it.

    z = Add (x, y)  # (float[N], int32[N]) -> ?
becomes
    x1, y1 = castsmith.ConvertPromoteTypes (x, y)  # (float[N], int32[N]) -> float[N], float[N]
    z = Add (x1, y1)  # (float[N], float[N]) -> float[N]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.kept_types import Following
from castsmith.ir.naming import Namer
from castsmith.ir.order import require_order
from castsmith.ir.passing import RewritePass
from castsmith.ir.promote_node import CASTSMITH_DOMAIN
from castsmith.ir.records import Effect, Records, RewriteResult
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.sequences import conversion
from castsmith.ir.walks import nodes_of
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.declared_types import convert_joined_output, follow_types
from castsmith.passes.promote_operands import Work, promote
from castsmith.passes.specialise_functions import specialise_functions

NAME = "insert-promote-types"


@dataclass(frozen=True)
class InsertPromoteTypes(RewritePass):
    """Make the promotion that mixed operands imply explicit.

    promote_unsafe, pytorch_scalar_promotion, u64_integer_promotion_target: as of ConvertPromoteTypes.
    library, weak_scalars: as of PromotionRules.
    keep_output_types: a graph output that promotion widened is cast back to the type that the model declares for it;
        by default the declaration follows.
    Raises PromotionError where the rules refuse, OrderError where nodes do not stand in the order in which they run.
    """

    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DataType = DataType.FLOAT
    library: str = "openvino"
    weak_scalars: bool = False
    keep_output_types: bool = False

    def requires(self, model: onnx_ir.Model) -> None:
        super().requires(model)
        require_order(model)

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        records, rules = Records(), self.rules()
        inference = specialise_functions(NAME, model, rules, records)
        inside = {graph for f in model.functions.values() for graph in (f.graph, *f.subgraphs())}
        work = Work(NAME, model, rules, inference, Namer(model), records, inside)
        _repair_nodes(work)
        scopes = imports_by_scope(model) if inference.output_conversions else {}
        for (graph, index), dtype in inference.output_conversions.items():
            records.rewrites.append(convert_joined_output(NAME, graph, index, dtype, work.namer, scopes[graph]))
        follow_types(NAME, model, inference, work.namer, records, keep_output_types=self.keep_output_types)
        _import_domain(model)
        kept = None if records.rewrites else Following(inference, {}).handed_on()
        return RewriteResult(model, bool(records.rewrites), records, kept)

    def rules(self) -> PromotionRules:
        return PromotionRules(
            self.promote_unsafe,
            self.pytorch_scalar_promotion,
            self.u64_integer_promotion_target,
            self.library,
            self.weak_scalars,
        )


def _import_domain(model: onnx_ir.Model) -> None:
    """Where a function needs the domain the main graph does too: runtimes inline the one into the other."""
    scopes = (model.graph, *model.functions.values())
    needing = [scope for scope in scopes if any(node.domain == CASTSMITH_DOMAIN for node in nodes_of(scope))]
    for scope in {model.graph: None, **dict.fromkeys(needing)} if needing else ():
        scope.opset_imports.setdefault(CASTSMITH_DOMAIN, 1)


def _repair_nodes(work: Work) -> None:
    inference = work.inference
    marked = {*inference.disagreements, *inference.illegal, *(node for node, _ in inference.conversions)}
    if not marked:
        return
    scopes = imports_by_scope(work.model)
    for node in [node for node in all_nodes(work.model) if node in marked]:
        assert node.graph is not None
        imports = scopes[node.graph]
        for found in (*inference.disagreements.get(node, ()), *inference.illegal.get(node, ())):
            promote(found, imports, work)
        for index in range(len(node.inputs)):
            _convert_entering_state(node, index, imports, work)


def _convert_entering_state(node: onnx_ir.Node, index: int, imports: Mapping[str, int], work: Work) -> None:
    dtype, operand = work.inference.conversions.get((node, index)), node.inputs[index]
    if dtype is None or operand is None:
        return
    cast = conversion(operand, dtype, imports)
    reason = f"the body widens this state to {type_name(dtype)}, so it has to enter as that"
    change = Replacement("widen-state", reason, (cast,), (), {index: cast.outputs[0]}, effect=Effect.REPAIR)
    work.records.rewrites.append(apply_replacement(NAME, node, change, work.namer))
