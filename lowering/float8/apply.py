"""Application of a plan of lower-float8: types become uint8 everywhere, expansions replace their nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.records import Effect, Records, Rewrite, Site
from castsmith.ir.text import node_item, node_items, site_of, value_item
from castsmith.ir.walks import all_values
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE
from castsmith.lowering.encodings.storage import (
    as_codes,
    can_be_packed,
    packed_tensor,
    recorded_retyping,
    retyped_attributes,
    unpacked,
)
from castsmith.lowering.float8.needs import is_coded
from castsmith.lowering.float8.plan import NAME, Plan
from castsmith.lowering.opset.obstacles import move_to_opset
from castsmith.numerics.errors import InternalError, present
from castsmith.passes.core.rewriting import apply_replacement, place_constant
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

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
    for node in plan.moves:
        for attribute in retyped_attributes(node, plan.coded, DataType.UINT8, as_codes):
            node.attributes[attribute.name] = attribute
        text = "only moves elements, so it moves their codes in the same way"
        records.rewrites.append(
            Rewrite(NAME, MOVE_CODES.code, site_of(node), plan.before[node], node_item(node, plan.types), text)
        )
    for constant in plan.constants.values():
        if not constant.uses():
            continue
        constant.name = namer.fresh(f"castsmith_{constant.name}")
        place_constant(constant, model.graph[0], namer)
    for node, expansion in plan.expansions.items():
        output, old = present(expansion.outputs, "the codes")[0], node.outputs[0]
        if expansion.rule != ROUND_IN_PLACE.code:
            output.shape = old.shape or output.shape
            makes_codes = is_coded(old, plan.types, plan.coded)
            expansion.nodes[-1].outputs[0].name = f"{old.name}_codes" if makes_codes else old.name
        rewrite = apply_replacement(session, NAME, node, expansion, namer, plan.types)
        records.rewrites.append(replace(rewrite, before=plan.before[node]))
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


def leftover(model: onnx_ir.Model, coded: Collection[DataType]) -> list[onnx_ir.Value]:
    """Return the values that still have one of these types: none after a complete plan."""
    return [value for value in all_values(model) if value.dtype in coded]
