"""Repair of one node whose operands disagree or are unsupported: the nodes inserted before, after or instead of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import Disagreement
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome, Rule
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import cast_node, conversion, saturates_back
from castsmith.ir.ops.promote_types import CASTSMITH_DOMAIN, CONVERT_PROMOTE_TYPES, give_body, promotion_attributes
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.value_types import set_element_type
from castsmith.ir.records import Diagnostic, Effect, Item, NodeItem, Records, Refusal, Rewrite, Severity
from castsmith.ir.text import located, node_item, node_items, operands_text, site_of
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement, apply_replacement
from castsmith.passes.core.session import Session
from castsmith.passes.promote.declared import NAME

TYPE_NOT_ALLOWED = FindingCode(
    "type-not-allowed",
    "An operator does not support a type at the model's opset.",
    why=("Every runtime rejects it. If a wider type holds every value, optimize computes in that type."),
    example="y = Relu (x)  # (uint64[N]) -> uint64[N]",
    advice="Run optimize. If it cannot help, raise the opset, or cast the operand in the model.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If your runtime supports more types than the standard.",
)
PROMOTE_OPERANDS = Rule(
    "promote-operands",
    "Operands of different types are cast to their common type. Skipped if that depends on an unknown rank.",
    why="ONNX requires one type; the promotion rules decide which.",
    example=(
        "- z = Add (x, y)  # (float[N], int64[N])\n+ x1, y1 = castsmith.ConvertPromoteTypes (x, y)\n+ z = Add (x1, y1)"
    ),
    advice="Check that the common type is the intended one; the promotion options choose others.",
    safety=(Effect.REPAIR,),
)
BOOLEAN_ARITHMETIC = Rule(
    "boolean-arithmetic",
    "Arithmetic on bool becomes logic: addition is Or, multiplication is And.",
    why="ONNX has no arithmetic on bool, and the libraries define it as logic.",
    example="- z = Mul (a, b)  # (bool[N], bool[N])\n+ z = And (a, b)",
    safety=(Effect.REPAIR,),
)
SUM_IN_PAIRS = Rule(
    "sum-in-pairs",
    "A Sum of integers becomes a chain of Add.",
    why="Sum supports floating-point values only, and Add gives the same sum of integers.",
    example="- y = Sum (a, b, c)  # (int32[N], int32[N], int32[N])\n+ d = Add (a, b)\n+ y = Add (d, c)",
    safety=(Effect.REPAIR,),
)
RESTORE_TYPE = Rule(
    "restore-type",
    "A result is cast back to the type of the operands, which the operator does not support.",
    why="The operator was run in a wider type that holds every operand.",
    example="+ y = Cast <to = int16> (y_wide)",
    advice="A newer opset may support the type.",
    safety=(Effect.REPAIR,),
)


@dataclass(frozen=True)
class Work:
    """Facts that the repair of a node needs."""

    session: Session
    rules: PromotionRules
    inference: Inference
    namer: Namer
    records: Records
    function_graphs: set[onnx_ir.Graph]
    """The graphs of functions, and the subgraphs in them."""

    def applied(self, node: onnx_ir.Node, change: Replacement) -> Rewrite:
        """Change the graph, and return the record, with the types that the results have now."""
        types = self.inference.types
        names = {value.name: type_name(types[value]) for value in node.outputs if value in types}
        record = apply_replacement(self.session, NAME, node, change, self.namer, types)
        return replace(record, made=tuple(_with_types(item, names) for item in record.made))


def _with_types(item: Item, names: Mapping[str | None, str]) -> Item:
    """Return the item with the element types by name: what the model declares is corrected later."""
    if not isinstance(item, NodeItem):
        return item
    outputs = (replace(value, element=names.get(value.name, value.element)) for value in item.outputs)
    return replace(item, outputs=tuple(outputs))


def promote(disagreement: Disagreement, imports: Mapping[str, int], work: Work) -> None:
    """Repair the operands, or return the reason for a refusal. Raises PromotionError if the rules refuse."""
    node = disagreement.node
    if disagreement.error is not None:
        _refuse(disagreement, work)
    elif disagreement.common is None:
        work.records.refusals.append(Refusal(NAME, PROMOTE_OPERANDS.code, site_of(node), _undecided(disagreement)))
    elif disagreement.as_cast:
        change = _as_cast(disagreement, disagreement.common, imports)
        work.records.rewrites.append(work.applied(node, change))
    elif disagreement.pairwise is not None:
        _make_pairs(disagreement, disagreement.pairwise, disagreement.common, imports, work)
    else:
        _convert(disagreement, disagreement.common, imports, work)


def _refuse(disagreement: Disagreement, work: Work) -> None:
    error = present(disagreement.error, "the reason of the refusal")
    if disagreement.mixed:
        raise located(site_of(disagreement.node), "operands", _operands(disagreement), error)
    message = ": ".join(filter(None, (operands_text(_operands(disagreement)[:1]), str(error))))
    way_out = "cast the operand in the model"
    diagnostic = Diagnostic(TYPE_NOT_ALLOWED.code, Severity.ERROR, site_of(disagreement.node), message, way_out)
    work.records.diagnostics.append(diagnostic)


def _convert(disagreement: Disagreement, common: DataType, imports: Mapping[str, int], work: Work) -> None:
    node = disagreement.node
    by_rank = work.rules.pytorch_scalar_promotion or work.rules.weak_scalars or work.rules.half_constants
    as_operands = node.op_type != "SequenceInsert" and not (disagreement.kinds and by_rank)
    pair = len(disagreement.indexes) == 2 and disagreement.ruled is None and as_operands
    change = _convert_pair(disagreement, common, work) if pair else _cast_each(disagreement, common, imports)
    work.records.rewrites.append(work.applied(node, change))
    for index in disagreement.restored:
        ruled = present(disagreement.ruled, "the type by the rule")
        work.records.rewrites.append(_restore(node, index, common, ruled, work))


def _convert_pair(disagreement: Disagreement, common: DataType, work: Work) -> Replacement:
    node = disagreement.node
    operands = [_operand(node, index) for index in disagreement.indexes]
    convert = onnx_ir.node(
        CONVERT_PROMOTE_TYPES,
        operands,
        promotion_attributes(work.rules),
        domain=CASTSMITH_DOMAIN,
        num_outputs=2,
        name=f"{node.name or node.op_type}_promote",
    )
    for output, operand in zip(convert.outputs, operands, strict=True):
        output.name, output.dtype, output.shape = f"{operand.name}_{type_name(common)}", common, operand.shape
    give_body(work.session.model, convert, *disagreement.types, in_function=node.graph in work.function_graphs)
    rewired = dict(zip(disagreement.indexes, convert.outputs, strict=True))
    return Replacement(
        PROMOTE_OPERANDS.code, _reason(disagreement, common), (convert,), (), rewired, effect=Effect.REPAIR
    )


def _cast_each(disagreement: Disagreement, common: DataType, imports: Mapping[str, int]) -> Replacement:
    casts: dict[onnx_ir.Value, list[onnx_ir.Node]] = {}
    rewired: dict[int, onnx_ir.Value] = {}
    for index, dtype in zip(disagreement.indexes, disagreement.types, strict=True):
        operand = _operand(disagreement.node, index)
        if dtype != common:
            if operand not in casts:
                casts[operand] = _conversions(operand, dtype, disagreement.ruled, common, imports)
            rewired[index] = casts[operand][-1].outputs[0]
    nodes = tuple(node for chain in casts.values() for node in chain)
    return Replacement(PROMOTE_OPERANDS.code, _reason(disagreement, common), nodes, (), rewired, effect=Effect.REPAIR)


def _conversions(
    operand: onnx_ir.Value, dtype: DataType, ruled: DataType | None, common: DataType, imports: Mapping[str, int]
) -> list[onnx_ir.Node]:
    """Return the casts to `common`, by way of `ruled` if that changes the value."""
    if ruled is None or embeds(dtype, ruled):
        return [conversion(operand, common, imports)]
    first = conversion(operand, ruled, imports)
    return [first, conversion(first.outputs[0], common, imports)]


def _as_cast(disagreement: Disagreement, to: DataType, imports: Mapping[str, int]) -> Replacement:
    """Return a Cast that replaces a CastLike of unsupported types."""
    node, attributes = disagreement.node, disagreement.node.attributes
    saturate, round_mode = attributes.get_int("saturate", 1), attributes.get_string("round_mode", "up")
    cast = cast_node(_operand(node, 0), to, saturate=bool(saturate), round_mode=round_mode or "up")
    cast.name, cast.outputs[0].name = node.name, node.outputs[0].name
    types = " and ".join(dict.fromkeys(type_name(dtype) for dtype in disagreement.types))
    reason = f"CastLike of opset {opset_of(imports, '')} does not support {types}, but Cast does"
    return Replacement(PROMOTE_OPERANDS.code, reason, (cast,), (), outputs=(cast.outputs[0],), effect=Effect.REPAIR)


def _make_pairs(
    disagreement: Disagreement, operator: str, common: DataType, imports: Mapping[str, int], work: Work
) -> None:
    """Replace the node by the operator on pairs: one node for two operands, a chain for more, no node for one."""
    node, records = disagreement.node, work.records.rewrites
    if len(disagreement.indexes) > 1 and any(dtype != common for dtype in disagreement.types):
        records.append(work.applied(node, _cast_each(disagreement, common, imports)))
    nodes, change = _pairs(disagreement, operator, common, work)
    records.append(work.applied(node, change))
    if disagreement.restored and nodes:
        records.append(_restore(nodes[-1], 0, common, present(disagreement.ruled, "the type by the rule"), work))


def _pairs(
    disagreement: Disagreement, operator: str, common: DataType, work: Work
) -> tuple[list[onnx_ir.Node], Replacement]:
    node = disagreement.node
    result, *rest = [_operand(node, index) for index in disagreement.indexes]
    nodes: list[onnx_ir.Node] = []
    for operand in rest:
        nodes.append(onnx_ir.node(operator, [result, operand], name=node.name))
        result = nodes[-1].outputs[0]
        result.name, result.dtype = node.outputs[0].name, common
        work.inference.types[result] = common
    if nodes:
        result.shape = node.outputs[0].shape
        result.dtype = node.outputs[0].dtype or common
    if common is DataType.BOOL:
        rule = BOOLEAN_ARITHMETIC.code
        reason = (
            f"{node.op_type} of bool is {operator} in PyTorch, NumPy and JAX, and {node.op_type} does not support bool"
        )
    else:
        rule, reason = (
            SUM_IN_PAIRS.code,
            f"{node.op_type} does not support {type_name(common)} here, and {operator} does",
        )
    return nodes, Replacement(rule, reason, tuple(nodes), outputs=(result,), effect=Effect.REPAIR)


def _restore(node: onnx_ir.Node, index: int, common: DataType, ruled: DataType, work: Work) -> Rewrite:
    """Return a Cast after the node that takes over the name and the uses of its output."""
    types, old = work.inference.types, node.outputs[index]
    before, site = node_item(node, types), site_of(node)
    cast = cast_node(old, ruled, saturate=saturates_back(ruled))
    result, name = cast.outputs[0], old.name
    cast.name = work.namer.fresh(cast.name or "castsmith_cast")
    old.replace_all_uses_with(result, replace_graph_outputs=True)
    cast.replace_input_with(0, old)
    old.name, result.name = work.namer.fresh(f"{name}_{type_name(common)}"), name
    set_element_type(result, old.dtype or ruled)
    set_element_type(old, common)
    work.inference.types[old], work.inference.types[result] = common, ruled
    node.append(cast)
    reason = f"{node.op_type} of {type_name(ruled)} gives {type_name(ruled)}"
    after = node_items((node, cast), types)
    return Rewrite(NAME, RESTORE_TYPE.code, site, before, after, reason, Effect.REPAIR)


def _operand(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    return present(node.inputs[index], "the operand")


def _operands(disagreement: Disagreement) -> list[tuple[onnx_ir.Value | None, DataType]]:
    return [
        (disagreement.node.inputs[index], dtype)
        for index, dtype in zip(disagreement.indexes, disagreement.types, strict=False)
    ]


def _undecided(disagreement: Disagreement) -> str:
    names = ", ".join(f"{_operand(disagreement.node, index).name}" for index in disagreement.indexes)
    types = ", ".join(type_name(dtype) for dtype in disagreement.types)
    return f"{names} have types {types}; the result depends on which of them are scalars, and their ranks are unknown"


def _reason(disagreement: Disagreement, common: DataType) -> str:
    types = " and ".join(dict.fromkeys(type_name(dtype) for dtype in disagreement.types))
    op_type = disagreement.node.op_type
    if disagreement.as_declared:
        return f"{op_type} of {types} is declared with the result {type_name(common)}, which implies promotion"
    if not disagreement.mixed:
        return f"{op_type} does not support {types} here: {type_name(common)} is the next type that holds it"
    if disagreement.ruled is not None:
        ruled = type_name(disagreement.ruled)
        lacks = f"as it does not support {ruled} here"
        return f"{op_type} needs one type for operands of {types}: {type_name(common)}, {lacks}"
    return f"{op_type} needs one type for operands of {types}: {type_name(common)} by the promotion rule"
