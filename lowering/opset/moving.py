"""Moving a model to another opset: nodes that can stay do, others are adapted or expanded to their definition."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import onnx.defs
import onnx_ir

from castsmith.ir.codes import Rule
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, is_function
from castsmith.ir.records import Effect, Rewrite
from castsmith.ir.text import site_of
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.lowering.inlining import name_inside
from castsmith.lowering.opset.adapters import adapted, has_adapter
from castsmith.lowering.opset.definitions import definition, write_out
from castsmith.lowering.opset.obstacles import (
    Obstacle,
    TypeOf,
    attribute_obstacle,
    is_legal,
    node_obstacle,
    standard_nodes,
)
from castsmith.lowering.opset.raising import raised
from castsmith.passes.core.rewriting import Replacement, apply_replacement, detach
from castsmith.passes.core.session import Session

ADAPT_OPERATOR = Rule(
    "adapt-operator",
    "An operator is rewritten in the form of another opset.",
    why="The target needs the other opset, which expresses the same operation differently.",
    example="- y = ReduceMean (x, axes)\n+ y = ReduceMean <axes = [1]> (x)",
)
WRITE_OUT_OPERATOR = Rule(
    "write-out-operator",
    ("An operator that the older opset does not have becomes the function that defines it in the standard."),
    why="The target accepts no newer opset. A runtime's own kernel may round the last bits differently.",
    example="- y = Gelu (x)\n+ Div, Erf, Sum, Mul, Mul",
    safety=(Effect.AS_DEFINED,),
)


@dataclass
class NodeChanges:
    """The changes to nodes that moving to opset `to` requires, and the obstacles."""

    replacements: dict[onnx_ir.Node, Replacement] = field(default_factory=dict[onnx_ir.Node, Replacement])
    definitions: dict[onnx_ir.Node, onnx_ir.Function] = field(default_factory=dict[onnx_ir.Node, onnx_ir.Function])
    similar: dict[Hashable, onnx_ir.Function | None] = field(default_factory=dict[Hashable, "onnx_ir.Function | None"])
    """The definitions of similar nodes."""
    obstacles: list[Obstacle] = field(default_factory=list[Obstacle])

    def discard(self) -> None:
        """Discard the new nodes, so that they no longer count as uses of the model's values."""
        for replacement in self.replacements.values():
            detach(replacement.nodes)


def plan_moves(model: onnx_ir.Model, to: int, types: TypeOf) -> NodeChanges:
    """Decide for every node, including those of functions."""
    moves = NodeChanges()
    for node, now in standard_nodes(model):
        if now < to:
            _raise(moves, node, now, to, types)
            continue
        reason = node_obstacle(node, now, to, types)
        if reason is not None and not _moves(moves, node, now, to, types):
            moves.obstacles.append(Obstacle(site_of(node), reason + _of_definition(node, now, to)))
    return moves


def _raise(moves: NodeChanges, node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> None:
    """Decide for a node that moves to a newer opset."""
    build = ReplacementBuilder(node)
    moved = raised(build, node, now, to, types)
    if isinstance(moved, str):
        detach(build.nodes)
        moves.obstacles.append(Obstacle(site_of(node), moved))
    elif moved is not node:
        for old, new in zip(node.outputs, moved.outputs, strict=True):
            dtype = types.get(old)
            new.type = new.type if dtype is None else onnx_ir.TensorType(dtype)
        moves.replacements[node] = _in_form_of(build, moved, to)


def _in_form_of(build: ReplacementBuilder, moved: onnx_ir.Node, to: int) -> Replacement:
    """Return the replacement by a node of the operator, behind the others."""
    build.nodes.append(moved)
    return as_replacement(build, ADAPT_OPERATOR.code, f"{build.node.op_type} in the form of opset {to}", *moved.outputs)


def _of_definition(node: onnx_ir.Node, now: int, to: int) -> str:
    """Return a note for an operator that the older opset lacks and that the standard defines by others."""
    if not is_function("", node.op_type, now) or onnx.defs.has(node.op_type, to, ""):
        return ""
    return (
        f", and its definition in the standard cannot be expressed in opset {to} for"
        " these operands; export the model without that operator, or choose a target with a newer opset"
    )


def needs_shapes(model: onnx_ir.Model, now: int, to: int) -> bool:
    """True if an adapter may need a shape that is not declared."""
    return now < to or any(
        (has_adapter(node, now, to) or (is_function("", node.op_type, now) and not onnx.defs.has(node.op_type, to, "")))
        and any(value is not None and value.shape is None for value in node.inputs)
        for node in model.graph.all_nodes()
        if node.domain in DEFAULT_DOMAINS
    )


def _moves(moves: NodeChanges, node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> bool:
    build = ReplacementBuilder(node)
    moved = adapted(build, node, now, to, types)
    fits = moved is not None and attribute_obstacle(moved, now, to) is None
    if moved is not None and fits and all(is_legal(built, now, to, types) for built in (*build.nodes, moved)):
        moves.replacements[node] = _in_form_of(build, moved, to)
        return True
    detach([*build.nodes, *([] if moved is None else [moved])])
    operands = tuple(None if v is None else (types.get(v, v.dtype), str(v.shape)) for v in node.inputs)
    key = (node.op_type, now, operands, len(node.outputs), tuple(sorted(map(str, node.attributes.values()))))
    if key not in moves.similar:
        moves.similar[key] = definition(node, now, to, types)
    function = moves.similar[key]
    if function is not None:
        moves.definitions[node] = function
    return function is not None


def apply_moves(session: Session, moves: NodeChanges, pass_name: str, to: int, types: TypeOf) -> list[Rewrite]:
    """Replace or expand the nodes; the opset is not changed yet. types: as in `apply_replacement`."""
    namer = session.namer()
    rewrites: list[Rewrite] = []
    for node, replacement in moves.replacements.items():
        name_inside(replacement.nodes, namer)
        rewrites.append(apply_replacement(session, pass_name, node, replacement, namer, types))
    for node, function in moves.definitions.items():
        nodes, outputs = write_out(function, node)
        name_inside(nodes, namer)
        reason = f"opset {to} lacks this {node.op_type}: replaced with its definition in the standard"
        replacement = Replacement(WRITE_OUT_OPERATOR.code, reason, nodes, outputs=outputs, effect=Effect.AS_DEFINED)
        rewrites.append(apply_replacement(session, pass_name, node, replacement, namer, types))
    return rewrites
