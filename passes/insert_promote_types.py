"""insert-promote-types: a ConvertPromoteTypes before every operator whose operands must share a type and do not.

Which operands must share a type is read from the operator's schema: those that one type variable binds. For two
operands a ConvertPromoteTypes (OpenVINO, ConvertPromoteTypes-14) takes them in and gives them out in their common
type. For more than two, one common type of the whole set is computed and each operand is cast to it once, since
promotion is not associative. Where branches of If, or states of Loop and Scan, disagree they are cast to the widest.

Exact: it changes no operator that had a meaning. Refused: a promotion that the rules call unsafe, by an error that
names the node, its operands and the option; a pair whose ranks the rules need and nobody knows, by a refusal.

    z = Add (x, y)  # (float[N], int32[N]) -> ?
becomes
    x1, y1 = castsmith.ConvertPromoteTypes (x, y)  # (float[N], int32[N]) -> float[N], float[N]
    z = Add (x1, y1)  # (float[N], float[N]) -> float[N]
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import cast_node
from castsmith.ir.inference import Disagreement, Inference, infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.promote_node import CASTSMITH_DOMAIN, CONVERT_PROMOTE_TYPES, promotion_attributes
from castsmith.ir.records import Effect, Records, Refusal, RewriteResult
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.text import site_of
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.declared_types import convert_joined_output, follow_types

NAME = "insert-promote-types"


@dataclass(frozen=True)
class InsertPromoteTypes(onnx_ir.passes.InPlacePass):
    """Make the promotion that mixed operands imply explicit.

    promote_unsafe, pytorch_scalar_promotion, u64_integer_promotion_target: as of ConvertPromoteTypes.
    keep_output_types: a graph output that promotion widened is cast back to the type that the model declares for it;
        by default the declaration follows.
    Raises PromotionError where the rules refuse.
    """

    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DataType = DataType.FLOAT
    keep_output_types: bool = False

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        rules = PromotionRules(self.promote_unsafe, self.pytorch_scalar_promotion, self.u64_integer_promotion_target)
        inference = infer_element_types(model, rules)
        _refuse_polymorphic_functions(inference)
        namer, records = Namer(model), Records()
        for node in all_nodes(model):
            for disagreement in inference.disagreements.get(node, ()):
                _promote(disagreement, rules, namer, records)
            _convert_entering_states(node, inference, namer, records)
        for (graph, index), dtype in inference.output_conversions.items():
            records.rewrites.append(convert_joined_output(NAME, graph, index, dtype, namer))
        follow_types(NAME, model, inference, namer, records, keep_output_types=self.keep_output_types)
        for scope in (model.graph, *model.functions.values()):
            if any(node.domain == CASTSMITH_DOMAIN for node in scope.all_nodes()):
                scope.opset_imports.setdefault(CASTSMITH_DOMAIN, 1)
        return RewriteResult(model, bool(records.rewrites), records)


def _promote(disagreement: Disagreement, rules: PromotionRules, namer: Namer, records: Records) -> None:
    node = disagreement.node
    if disagreement.error is not None:
        raise _located(disagreement, disagreement.error)
    if disagreement.common is None:
        records.refusals.append(Refusal(NAME, "promote-operands", site_of(node), _undecided(disagreement)))
        return
    pair = len(disagreement.indexes) == 2 and disagreement.ruled is None
    make = _convert_pair if pair else _cast_each
    records.rewrites.append(apply_replacement(NAME, node, make(disagreement, disagreement.common, rules), namer))
    if node.outputs and disagreement.as_declared:
        node.outputs[0].dtype = disagreement.common


def _convert_pair(disagreement: Disagreement, common: DataType, rules: PromotionRules) -> Replacement:
    node = disagreement.node
    operands = [_operand(node, index) for index in disagreement.indexes]
    convert = onnx_ir.node(
        CONVERT_PROMOTE_TYPES,
        operands,
        promotion_attributes(rules),
        domain=CASTSMITH_DOMAIN,
        num_outputs=2,
        name=f"{node.name or node.op_type}_promote",
    )
    for output, operand in zip(convert.outputs, operands, strict=True):
        output.name, output.dtype, output.shape = f"{operand.name}_{type_name(common)}", common, operand.shape
    rewired = dict(zip(disagreement.indexes, convert.outputs, strict=True))
    return Replacement("promote-operands", _reason(disagreement, common), (convert,), (), rewired, effect=Effect.REPAIR)


def _cast_each(disagreement: Disagreement, common: DataType, rules: PromotionRules) -> Replacement:
    del rules
    node = disagreement.node
    casts: dict[onnx_ir.Value, onnx_ir.Node] = {}
    rewired: dict[int, onnx_ir.Value] = {}
    for index, dtype in zip(disagreement.indexes, disagreement.types, strict=True):
        operand = _operand(node, index)
        if dtype != common:
            casts.setdefault(operand, cast_node(operand, common))
            rewired[index] = casts[operand].outputs[0]
    nodes = tuple(casts.values())
    return Replacement("promote-operands", _reason(disagreement, common), nodes, (), rewired, effect=Effect.REPAIR)


def _convert_entering_states(node: onnx_ir.Node, inference: Inference, namer: Namer, records: Records) -> None:
    if node.op_type not in ("Loop", "Scan"):
        return
    for index in range(len(node.inputs)):
        dtype = inference.conversions.get((node, index))
        if dtype is not None:
            operand = _operand(node, index)
            cast = cast_node(operand, dtype)
            reason = f"the body widens this state to {type_name(dtype)}, so it has to enter as that"
            change = Replacement("widen-state", reason, (cast,), (), {index: cast.outputs[0]}, effect=Effect.REPAIR)
            records.rewrites.append(apply_replacement(NAME, node, change, namer))


def _refuse_polymorphic_functions(inference: Inference) -> None:
    """A function body has one set of types: where calls differ and operands in it disagree, no one repair fits all."""
    for function, calls in inference.signatures.items():
        mixed = next((node for node in function.all_nodes() if node in inference.disagreements), None)
        if len(calls) > 1 and mixed is not None:
            raise PromotionError(
                f"{site_of(mixed)}: the operands disagree, and the function {function.domain}.{function.name} is called"
                f" with {len(calls)} sets of types, so no one conversion fits; inline the function first."
            )


def _operand(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _located(disagreement: Disagreement, error: PromotionError) -> PromotionError:
    node = disagreement.node
    operands = " and ".join(
        f"{_operand(node, index).name} ({type_name(dtype)})"
        for index, dtype in zip(disagreement.indexes, disagreement.types, strict=True)
    )
    return PromotionError(
        f"{site_of(node)}: operands {operands}: {error}",
        lhs=error.lhs,
        rhs=error.rhs,
        rule=error.rule,
        option=error.option,
    )


def _undecided(disagreement: Disagreement) -> str:
    names = ", ".join(f"{_operand(disagreement.node, index).name}" for index in disagreement.indexes)
    types = ", ".join(type_name(dtype) for dtype in disagreement.types)
    return f"{names} have types {types}, and the rule needs to know which are scalars, but their ranks are unknown"


def _reason(disagreement: Disagreement, common: DataType) -> str:
    types = " and ".join(dict.fromkeys(type_name(dtype) for dtype in disagreement.types))
    node = disagreement.node
    if disagreement.as_declared:
        return (
            f"{node.op_type} of {types} is declared to give {type_name(common)}: its operands were meant to be promoted"
        )
    if disagreement.ruled is not None:
        ruled = type_name(disagreement.ruled)
        return (
            f"{node.op_type} needs one type for operands of {types}: {type_name(common)}, as it takes no {ruled} here"
        )
    return f"{node.op_type} needs one type for operands of {types}: {type_name(common)} by the promotion rule"
