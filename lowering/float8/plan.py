"""Plan of lower-float8, made before anything changes: the nodes that move, those that expand, and the encoding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.constants import new_constant
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Effect, NodeItem, Refusal
from castsmith.ir.text import node_item, site_of
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.builder import Builder
from castsmith.lowering.encodings.choose import DOUBLE_IS_FLOAT, NEEDS_BITCAST, Encoding
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE
from castsmith.lowering.float8.casts import Context, expand_cast, expand_test, refuses_to_move, rounds_in_place
from castsmith.lowering.float8.functions import Functions
from castsmith.lowering.float8.linear import expand_dequantize, expand_quantize
from castsmith.lowering.float8.needs import Coded, Types, is_coded, touches_coded
from castsmith.lowering.opset.obstacles import node_obstacle
from castsmith.numerics.errors import OptionError, present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type, type_name
from castsmith.passes.core.options import Encoding as EncodingName
from castsmith.passes.core.rewriting import Replacement, detach
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

_SEQUENCE_REASONS = {
    Encoding.BITCAST: "the schema's rounding, as integer arithmetic on the bits",
    Encoding.TABLE: "the schema's rounding of every value of the upper 16 bits, the lower ones kept as one sticky bit",
    Encoding.LADDER: "the schema's rounding, as exact sums, or for a double as products of powers of two and one Round",
}
_DECODED = "a table of the 256 codes, made by the codec"
_ROUNDED = "the codes are made from floats, so those are rounded in place"

LOWER_OPERATOR = Rule(
    "lower-*",
    ("An operator on an unsupported type is replaced with supported ones, bit for bit (lower-Cast, for example)."),
    why="The values are stored as codes in uint8, and the operator works on the codes.",
    example="- y = Cast <to = float8e4m3fn> (x)\n+ 27 nodes on integers, bit for bit the same",
    advice="If it is skipped, the reason names the node. Change its type in the model.",
    safety=(Effect.BIT_EXACT, Effect.BIT_EXACT_BUT_NAN),
)


def choose_sequence(
    model: onnx_ir.Model,
    target: Target,
    name: EncodingName,
    opset: int,
    types: Types,
    coded: Coded,
    expanding: Collection[onnx_ir.Node],
) -> tuple[Encoding, int | None]:
    """Return the encoding that `name` selects, and the opset to move the model to for it, None if it can stay.

    `expanding` are the nodes that will be removed by then.

    Raises:
        OptionError: The selected encoding is impossible.
    """
    if name == Encoding.LADDER.value or not any(_makes_codes(node, types, coded) for node in expanding):
        return Encoding.LADDER, None
    sequence = Encoding.TABLE if name == "auto" else Encoding(name)
    first = target.sequence_operators.get("BitCast")
    if first is None or first > target.newest_opset:
        reason = f"{target} has no BitCast"
    elif opset >= first:
        return sequence, None
    else:
        reason = _first_obstacle(model, first, target, types, expanding)
        if reason is None:
            return sequence, first
    if name != "auto":
        raise OptionError(f"encoding {name!r} is impossible: {reason}.")
    return Encoding.LADDER, None


def is_at_risk(plan: Plan, model: onnx_ir.Model, target: Target) -> bool:
    """True if the target may change the result of the encoding in this model."""
    ladder = plan.context.sequence is Encoding.LADDER or DataType.FLOAT8E8M0 in plan.coded
    doubles = (plan.types.get(value, value.dtype) == DataType.DOUBLE for value in all_values(model))
    return ladder and DOUBLE_IS_FLOAT in target.hazards and bool(plan.before) and any(doubles)


def _makes_codes(node: onnx_ir.Node, types: Types, coded: Coded) -> bool:
    """True if the node makes codes from values that are not codes."""
    return is_coded(node.outputs[0], types, coded) and not is_coded(node.inputs[0], types, coded)


def _first_obstacle(
    model: onnx_ir.Model, to: int, target: Target, types: Types, expanding: Collection[onnx_ir.Node]
) -> str | None:
    for scope in (model.graph, *model.functions.values()):
        now = opset_of(scope.opset_imports, "")
        for node in scope.all_nodes():
            if now is None or node in expanding or node.domain not in DEFAULT_DOMAINS:
                continue
            reason = None
            if node.op_identifier() not in model.functions:
                reason = node_obstacle(node, now, to, types) or _dropped(node, now, to, target, types)
            if reason is not None:
                return f"{site_of(node)} cannot move to opset {to}, because {reason}"
    return None


NAME = "lower-float8"
_OLDEST = 13
"""The opset from which operators of the sequences have the types and operands in use; no older one has such types."""
_BITWISE = 18
"""The first opset with BitwiseAnd."""
Expand = Callable[[Builder, onnx_ir.Node, Context], onnx_ir.Value]
EXPANSIONS: dict[str, Expand] = {
    "Cast": expand_cast,
    "CastLike": expand_cast,
    "QuantizeLinear": expand_quantize,
    "DequantizeLinear": expand_dequantize,
    "IsNaN": expand_test,
    "IsInf": expand_test,
}


@dataclass
class Plan:
    """All nodes that use or make codes, before any change, and the constants that expansions share.

    Attributes:
        context: What the expansions need.
        new_opset: The opset to move the model to; None if it can stay.
        usable: What the target allows the builders of the expansions.
        before: Each node as it is before any change, for the records.
        moves: The nodes that move codes as they move values.
        expansions: The replacements of the others.
        constants: The constants of the expansions.
        refusals: What stands in the way.
    """

    context: Context
    new_opset: int | None
    usable: Mapping[str, bool]
    before: Mapping[onnx_ir.Node, NodeItem]
    moves: list[onnx_ir.Node] = field(default_factory=list[onnx_ir.Node])
    expansions: dict[onnx_ir.Node, Replacement] = field(default_factory=dict[onnx_ir.Node, Replacement])
    constants: dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value]
    )
    refusals: list[Refusal] = field(default_factory=list[Refusal])

    @property
    def types(self) -> Types:
        return self.context.types

    @property
    def coded(self) -> frozenset[DataType]:
        return self.context.coded

    def type_text(self, value: onnx_ir.Value | None) -> str:
        """Return the name of the type that the value had before any change."""
        dtype = None if value is None else self.types.get(value, value.dtype)
        return "unknown" if dtype is None else type_name(dtype)

    def share(self, name: str, array: npt.NDArray[Any]) -> onnx_ir.Value:
        """Return the one value of the model that holds this array."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = new_constant(name, onnx_ir.tensor(array, name=name))
        return self.constants[key]

    def discard(self) -> None:
        """Discard the expansions, so that their nodes no longer count as uses of the model's values."""
        for expansion in self.expansions.values():
            detach(expansion.nodes)


def make_plan(session: Session, target: Target, coded: frozenset[DataType], sequence: EncodingName, opset: int) -> Plan:
    """Decide for every node that has a type of `coded`. Raises OptionError for an impossible encoding."""
    model, inference = session.model, session.inference(PromotionRules())
    types = inference.types
    touching = [node for node in all_nodes(model) if touches_coded(node, types, coded)]
    expanding = {node for node in touching if node.domain in DEFAULT_DOMAINS and node.op_type in EXPANSIONS}
    chosen, new_opset = choose_sequence(model, target, sequence, opset, types, coded, expanding)
    at, masked = min(new_opset or opset, target.newest_opset), (DataType.UINT8, DataType.INT32)
    usable = {
        "flat_look_up": target.sequence_operators.get("GatherElements", opset + 1) <= opset,
        "bitwise": at >= _BITWISE and all(target.has_kernel("BitwiseAnd", dtype, at) for dtype in masked),
        "chooses_bytes": target.has_kernel("Where", DataType.UINT8, at),
        "doubles": bool(target.as_written),
    }
    before = {node: node_item(node, types) for node in touching}
    plan = Plan(Context(types, coded, chosen, opset), new_opset, usable, before)
    for node in touching:
        if at < _OLDEST:
            reason = f"it needs operators of opset {_OLDEST}, and the model is of opset {at}"
        elif node in expanding:
            reason = _expand(plan, node, EXPANSIONS[node.op_type])
        else:
            reason = _unsettled(node, inference) or _move(plan, node, target)
        if reason is not None:
            plan.refusals.append(Refusal(NAME, LOWER_OPERATOR.of(node.op_type), site_of(node), reason))
    for codes in plan.context.encoded:
        _drop_unused_codes(plan, codes)
    return plan


def wrap_expansions(plan: Plan, functions: Functions) -> None:
    """Replace each expansion of several nodes by a call of a function."""
    for node, expansion in plan.expansions.items():
        output = present(expansion.outputs, "the codes")[0]
        x = plan.type_text(node.inputs[0])
        name = f"{node.op_type}_{x}_to_{plan.type_text(node.outputs[0])}"
        nodes = functions.wrap(name, expansion.nodes, output)
        if nodes is not expansion.nodes:
            for user, index in list(output.uses()):  # other expansions may use the rounded value
                user.replace_input_with(index, nodes[0].outputs[0])
            plan.expansions[node] = replace(expansion, nodes=nodes, outputs=(nodes[0].outputs[0],))


def _drop_unused_codes(plan: Plan, codes: onnx_ir.Value) -> None:
    """Remove the nodes that make codes whose every use was replaced by rounding in place."""
    node = codes.producer()
    if node is None or node not in plan.expansions or codes.is_graph_output():
        return
    if any(user not in plan.expansions for user, _ in codes.uses()):
        return
    x, nodes = plan.context.encoded[codes].x, list(plan.expansions[node].nodes)
    while nodes and x.producer() is not nodes[-1]:
        detach([nodes.pop()])
    reason = "the codes are only decoded, which is rounding in place"
    effect = Effect.BIT_EXACT if plan.context.sequence in NEEDS_BITCAST else Effect.BIT_EXACT_BUT_NAN
    plan.expansions[node] = Replacement(ROUND_IN_PLACE.code, reason, tuple(nodes), outputs=(x,), effect=effect)


def _expand(plan: Plan, node: onnx_ir.Node, expand: Expand) -> str | None:
    """Plan the expansion of the node, or return the reason for a refusal."""
    build, context, rule = Builder(plan.share, **plan.usable), plan.context, LOWER_OPERATOR.of(node.op_type)
    decodes_to = DataType.FLOAT if node.op_type == "DequantizeLinear" else context.types.get(node.outputs[0])
    rounds = rounds_in_place(node.inputs[0], decodes_to, context)
    encodes = _makes_codes(node, context.types, context.coded)
    reason = _SEQUENCE_REASONS[context.sequence] if encodes else _ROUNDED if rounds else _DECODED
    try:
        output, refused = expand(build, node, context), None
    except ModelError as error:
        output, refused = node.outputs[0], str(error)
    loses_sign = (rounds or (encodes and _may_lose_sign(plan, node))) and context.sequence not in NEEDS_BITCAST
    effect = Effect.BIT_EXACT_BUT_NAN if loses_sign else Effect.BIT_EXACT
    plan.expansions[node] = Replacement(rule, reason, tuple(build.nodes), outputs=(output,), effect=effect)
    return refused


def _may_lose_sign(plan: Plan, node: onnx_ir.Node) -> bool:
    """True if the node encodes numbers with a NaN in a type with a NaN of either sign."""
    x, to = node.inputs[0], element_type(plan.context.type_of(node.outputs[0]))
    source = None if x is None else plan.types.get(x, x.dtype)
    return (source is None or source.is_floating_point()) and to.signed and to.has_nan


def _unsettled(node: onnx_ir.Node, inference: Inference) -> str | None:
    """Return the reason if the node's result has its type only after its operands are converted."""
    disagreements = (*inference.disagreements.get(node, ()), *inference.illegal.get(node, ()))
    common = next(
        (
            disagreement.common
            for disagreement in disagreements
            if disagreement.common is not None and not disagreement.restored
        ),
        None,
    )
    if common is None:
        return None
    return f"the operands of {node.op_type} must be cast to {type_name(common)} first: run insert-promote-types"


def _move(plan: Plan, node: onnx_ir.Node, target: Target) -> str | None:
    plan.moves.append(node)
    for output in node.outputs:
        if output.type is None and output not in plan.types and output.name:
            return f"the element type of its output {output.name} is unknown"
    return refuses_to_move(node, target)


def _dropped(node: onnx_ir.Node, now: int, to: int, target: Target, types: Types) -> str | None:
    """Return a reason if the target has a kernel of the node at its opset and lacks one at the other."""
    dtypes = [types.get(value, value.dtype) for value in (*node.inputs, *node.outputs) if value is not None]
    last = target.drops(node.op_type, dtypes, to)
    return None if last is None or last < now else f"{target} has {node.op_type} up to opset {last} only"
