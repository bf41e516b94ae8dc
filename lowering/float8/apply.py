"""Application of a plan of lower-float8: types become uint8 everywhere, expansions replace their nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Conversion
from castsmith.ir.records import Effect, Records, Rewrite, Site
from castsmith.ir.text import node_item, node_items, site_of, value_item
from castsmith.ir.walks import all_values
from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE
from castsmith.lowering.encodings.storage import (
    as_codes,
    can_be_packed,
    packed_tensor,
    recorded_retyping,
    retyped_attributes,
    unpacked,
)
from castsmith.lowering.float8.casts import rounds_in_place
from castsmith.lowering.float8.needs import is_coded
from castsmith.lowering.float8.plan import LOWER_OPERATOR, NAME, Plan
from castsmith.lowering.opset.obstacles import move_to_opset
from castsmith.numerics.errors import InternalError, present
from castsmith.numerics.types import element_type
from castsmith.passes.core.rewriting import Replacement, apply_replacement, place_constant
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

_SEQUENCE_REASONS = {
    Encoding.BITCAST: "the schema's rounding, as integer arithmetic on the bits",
    Encoding.TABLE: "the schema's rounding of every value of the upper 16 bits, the lower ones kept as one sticky bit",
    Encoding.LADDER: "the schema's rounding, as exact sums, or for a double as products of powers of two and one Round",
}
_DECODERS = operators(lambda row: row.conversion in (Conversion.CAST, Conversion.DEQUANTIZE))
_DECODED = "a table of the 256 codes, made by the codec"
_ROUNDED = "the codes are made from floats, so those are rounded in place"

MOVE_CODES = Rule(
    "move",
    "An operator that only moves elements is applied to codes instead of values.",
    why="Reshape, Transpose and similar operators do not depend on the elements.",
    example="- y = Reshape (x, s)  # float8e4m3fn\n+ y = Reshape (x, s)  # uint8",
)
STORE_AS_CODES = Rule(
    "store-as-codes",
    "Constants, inputs and outputs of an unsupported type become uint8 codes.",
    why="The target does not support the type. A code has the same bits.",
    example="- float8e4m3fn[4] w\n+ uint8[4] w",
    advice="Feed and read codes for the inputs and outputs that the record names.",
    safety=(Effect.BIT_EXACT, Effect.INTERFACE),
)


def apply_plan(
    session: Session, plan: Plan, reasons: Mapping[DataType, str], records: Records, target: Target, *, pack: bool
) -> None:
    """Carry out the plan and record it. pack: keep weights of 4 and 2 bits packed."""
    session.changed()
    model, namer = session.model, session.namer()
    for value in list(all_values(model)):
        dtype = plan.types.get(value, value.dtype)
        if dtype is not None and dtype in plan.coded and pack and can_be_packed(value):
            records.rewrites.append(_pack(plan, value, target, namer, reasons[dtype]))
        elif dtype is not None and dtype in plan.coded:
            reason = f"its codes, a byte each, because {reasons[dtype]}"
            records.rewrites += recorded_retyping(
                model, value, plan.coded, DataType.UINT8, as_codes, NAME, STORE_AS_CODES, reason
            )
    for node, before in plan.moves.items():
        for attribute in retyped_attributes(node, plan.coded, DataType.UINT8, as_codes):
            node.attributes[attribute.name] = attribute
        text = "only moves elements, so it moves their codes in the same way"
        records.rewrites.append(
            Rewrite(NAME, MOVE_CODES.code, site_of(node), before, node_item(node, plan.types), text)
        )
    for constant in plan.constants.values():
        if not constant.uses():
            continue
        constant.name = namer.fresh(f"castsmith_{constant.name}")
        place_constant(constant, model.graph[0], namer)
    rounding = {node for node in plan.expansions if _rounds(plan, node)}
    for node in plan.expansions:
        records.rewrites.append(_apply_expansion(session, plan, node, namer, rounds=node in rounding))
    if plan.new_opset is not None:
        text = "this opset introduces BitCast; every other node has the same meaning under it"
        records.rewrites.append(move_to_opset(model, plan.new_opset, NAME, text))


def _pack(plan: Plan, value: onnx_ir.Value, target: Target, namer: Namer, reason: str) -> Rewrite:
    """Keep the weight packed, and add nodes that unpack it at the start of its graph."""
    graph, tensor, before = value.graph, value.const_value, value_item(value)
    if not isinstance(graph, onnx_ir.Graph):
        raise InternalError(f"the weight {value.name} is not in a graph")
    tensor = present(tensor, "the tensor of the constant")
    packed = new_constant(namer.fresh(f"{value.name}_packed"), packed_tensor(tensor))
    opset = plan.new_opset or plan.context.opset
    shape = onnx_ir.Shape(tensor.shape.numpy())
    nodes, codes = unpacked(packed, tensor.dtype, shape, target, opset, plan.share)
    site, name = Site(graph.name or "", value.name or ""), value.name
    value.replace_all_uses_with(codes)
    del graph.initializers[name or ""]
    place_constant(packed, graph[0], namer)
    for node in nodes:
        node.name = namer.fresh(f"castsmith_{node.op_type}")
        node.outputs[0].name = namer.fresh(f"{node.name}_output")
    codes.name = name
    graph.insert_before(graph[0], nodes)
    text = f"its codes, packed in bytes as before, because {reason}"
    after = [value_item(packed), *node_items(nodes, plan.types)]
    return Rewrite(NAME, STORE_AS_CODES.code, site, before, after, text)


def _rounds(plan: Plan, node: onnx_ir.Node) -> bool:
    """True if the node decodes codes that are not made: they are rounded in place."""
    decodes_to = DataType.FLOAT if node.op_type == "DequantizeLinear" else plan.context.type_of(node.outputs[0])
    return node.op_type in _DECODERS and rounds_in_place(node.inputs[0], decodes_to, plan.context)


def _apply_expansion(session: Session, plan: Plan, node: onnx_ir.Node, namer: Namer, *, rounds: bool) -> Rewrite:
    """Replace the node by its expansion. rounds: as `_rounds` says before any node is replaced."""
    expansion, old = plan.expansions[node], node.outputs[0]
    codes = plan.context.encoded.get(old)
    if codes is not None and expansion.output is codes.x:
        reason = "the codes are only decoded, which is rounding in place"
        effect = Effect.BIT_EXACT if plan.context.sequence in NEEDS_BITCAST else Effect.BIT_EXACT_BUT_NAN
        lowered = Replacement(ROUND_IN_PLACE.code, reason, expansion.nodes, outputs=(expansion.output,), effect=effect)
        return _recorded(session, plan, node, lowered, namer)
    expansion.output.shape = old.shape or expansion.output.shape
    expansion.nodes[-1].outputs[0].name = f"{old.name}_codes" if is_coded(old, plan.types, plan.coded) else old.name
    encodes = is_coded(old, plan.types, plan.coded) and not is_coded(node.inputs[0], plan.types, plan.coded)
    loses_sign = rounds or (encodes and _loses_nan_sign(plan, node))
    inexact = loses_sign and plan.context.sequence not in NEEDS_BITCAST
    reason = _SEQUENCE_REASONS[plan.context.sequence] if encodes else _ROUNDED if rounds else _DECODED
    effect = Effect.BIT_EXACT_BUT_NAN if inexact else Effect.BIT_EXACT
    lowered = Replacement(
        LOWER_OPERATOR.of(node.op_type), reason, expansion.nodes, outputs=(expansion.output,), effect=effect
    )
    return _recorded(session, plan, node, lowered, namer)


def _recorded(session: Session, plan: Plan, node: onnx_ir.Node, lowered: Replacement, namer: Namer) -> Rewrite:
    """Apply the replacement; the record shows the node as it was when the plan was made."""
    rewrites = apply_replacement(session, NAME, node, lowered, namer, plan.types)
    return replace(rewrites, before=plan.expansions[node].before)


def _loses_nan_sign(plan: Plan, node: onnx_ir.Node) -> bool:
    x, to = node.inputs[0], element_type(plan.context.type_of(node.outputs[0]))
    source = None if x is None else plan.types.get(x, x.dtype)
    return (source is None or source.is_floating_point()) and to.signed and to.has_nan


def leftover(model: onnx_ir.Model, coded: Collection[DataType]) -> list[onnx_ir.Value]:
    """Return the values that still have one of these types: none after a complete plan."""
    return [value for value in all_values(model) if value.dtype in coded]
