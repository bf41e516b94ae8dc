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
from castsmith.lowering.encodings.choose import ARITHMETIC_HAZARDS, WITHSTANDS, Encoding
from castsmith.lowering.float8.casts import (
    Context,
    expand_cast,
    expand_detour,
    expand_test,
    refuses_to_move,
    takes_detour,
)
from castsmith.lowering.float8.functions import Functions
from castsmith.lowering.float8.linear import expand_dequantize, expand_quantize
from castsmith.lowering.float8.needs import Coded, Types, is_coded, touches_coded
from castsmith.lowering.opset.obstacles import node_obstacle
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.options import Encoding as EncodingName
from castsmith.passes.core.rewriting import detach
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

# The encoding that makes codes from floats, and the opset that it needs.


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


def hazards_met(model: onnx_ir.Model, target: Target, sequence: Encoding, types: Types) -> frozenset[str]:
    """Return the hazards of the target that could change the result of the encoding in this model."""
    hazards = ARITHMETIC_HAZARDS & target.hazards.keys() - WITHSTANDS[sequence]
    has_double = any(types.get(value, value.dtype) == DataType.DOUBLE for value in all_values(model))
    return hazards if has_double else hazards - {"double-is-float"}


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


@dataclass(frozen=True)
class Expansion:
    """The nodes that replace one node, not yet in a graph, and the value that replaces its output."""

    before: NodeItem
    nodes: tuple[onnx_ir.Node, ...]
    output: onnx_ir.Value


@dataclass
class Plan:
    """All nodes that use or make codes, before any change, and the constants that expansions share."""

    context: Context
    new_opset: int | None
    hazards: frozenset[str] = frozenset()
    usable: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """What the target allows the builders of the expansions."""
    moves: dict[onnx_ir.Node, NodeItem] = field(default_factory=dict[onnx_ir.Node, NodeItem])
    expansions: dict[onnx_ir.Node, Expansion] = field(default_factory=dict[onnx_ir.Node, Expansion])
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
    hazards = hazards_met(model, target, chosen, types) if touching else frozenset[str]()
    at, masked = min(new_opset or opset, target.newest_opset), (DataType.UINT8, DataType.INT32)
    usable = {
        "flat_look_up": target.sequence_operators.get("GatherElements", opset + 1) <= opset,
        "bitwise": at >= _BITWISE and all(target.has_kernel("BitwiseAnd", dtype, at) for dtype in masked),
        "chooses_bytes": target.has_kernel("Where", DataType.UINT8, at),
        "doubles": bool(target.as_written),
    }
    plan = Plan(Context(types, coded, chosen, opset), new_opset, hazards, usable)
    for node in touching:
        if at < _OLDEST:
            reason = f"it needs operators of opset {_OLDEST}, and the model is of opset {at}"
        elif node in expanding:
            reason = _expand(plan, node, EXPANSIONS[node.op_type])
        elif takes_detour(node, target, opset):
            reason = _expand(plan, node, expand_detour)
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
        x = plan.type_text(node.inputs[0])
        name = f"{node.op_type}_{x}_to_{plan.type_text(node.outputs[0])}"
        nodes = functions.wrap(name, expansion.nodes, expansion.output)
        if nodes is not expansion.nodes:
            codes = plan.context.encoded.get(node.outputs[0])
            if codes is not None and codes.x is expansion.output:
                plan.context.encoded[node.outputs[0]] = replace(codes, x=nodes[0].outputs[0])
            _replace_operand(expansion.output, nodes[0].outputs[0])
            plan.expansions[node] = Expansion(expansion.before, nodes, nodes[0].outputs[0])


def _replace_operand(old: onnx_ir.Value, new: onnx_ir.Value) -> None:
    """Replace an operand: other expansions may use its rounded value."""
    for user, index in list(old.uses()):
        user.replace_input_with(index, new)


def _drop_unused_codes(plan: Plan, codes: onnx_ir.Value) -> None:
    """Remove the nodes that make codes whose every use was replaced by rounding in place."""
    node = codes.producer()
    if node is None or node not in plan.expansions or codes.is_graph_output():
        return
    if any(user not in plan.expansions for user, _ in codes.uses()):
        return
    x, nodes = plan.context.encoded[codes].x, list(plan.expansions[node].nodes)
    while nodes and x.producer() is not nodes[-1]:
        last = nodes.pop()
        detach([last])
    plan.expansions[node] = Expansion(plan.expansions[node].before, tuple(nodes), x)


def _expand(plan: Plan, node: onnx_ir.Node, expand: Expand) -> str | None:
    """Return the expansion of the node, or the reason for a refusal."""
    build = Builder(plan.share, **plan.usable)
    before = node_item(node, plan.types)
    try:
        output = expand(build, node, plan.context)
        plan.expansions[node] = Expansion(before, tuple(build.nodes), output)
    except ModelError as error:
        plan.expansions[node] = Expansion(before, tuple(build.nodes), node.outputs[0])
        return str(error)
    return None


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
    plan.moves[node] = node_item(node, plan.types)
    for output in node.outputs:
        if output.type is None and output not in plan.types and output.name:
            return f"the element type of its output {output.name} is unknown"
    return refuses_to_move(node, target)


def _dropped(node: onnx_ir.Node, now: int, to: int, target: Target, types: Types) -> str | None:
    """Return a reason if the target has a kernel of the node at its opset and lacks one at the other."""
    dtypes = [types.get(value, value.dtype) for value in (*node.inputs, *node.outputs) if value is not None]
    last = target.drops(node.op_type, dtypes, to)
    return None if last is None or last < now else f"{target} has {node.op_type} up to opset {last} only"
