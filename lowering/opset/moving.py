"""Moving a model to another opset: nodes that can stay do, others are adapted or expanded to their definition."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx.defs
import onnx_ir

from castsmith.ir.codes import Rule
from castsmith.ir.ops.schemas import is_function
from castsmith.ir.records import Effect, Rewrite
from castsmith.ir.text import site_of
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.lowering.inlining import name_inside
from castsmith.lowering.opset.adapters import adapted
from castsmith.lowering.opset.definitions import written_as_defined
from castsmith.lowering.opset.obstacles import (
    Obstacle,
    TypeOf,
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
class Moves:
    """What becomes of the nodes of a model that moves to another opset, and the obstacles."""

    replacements: dict[onnx_ir.Node, Replacement] = field(default_factory=dict[onnx_ir.Node, Replacement])
    obstacles: list[Obstacle] = field(default_factory=list[Obstacle])

    def discard(self) -> None:
        """Discard the new nodes, so that they no longer count as uses of the model's values."""
        for replacement in self.replacements.values():
            detach(replacement.nodes)


def plan_moves(model: onnx_ir.Model, to: int, types: TypeOf) -> Moves:
    """Decide for every node, including those of functions."""
    moves = Moves()
    for node, now in standard_nodes(model):
        moved = (_raised if now < to else _lowered)(node, now, to, types)
        if isinstance(moved, str):
            moves.obstacles.append(Obstacle(site_of(node), moved))
        elif moved is not None:
            moves.replacements[node] = moved
    return moves


def _raised(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> Replacement | str | None:
    """Return the node in the form of a newer opset, None if it stays, or why it has none."""
    build = ReplacementBuilder(node)
    moved = raised(build, node, now, to, types)
    if isinstance(moved, str):
        detach(build.nodes)
        return moved
    return None if moved is node else _in_form_of(build, moved, to)


def _lowered(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> Replacement | str | None:
    """Return the node in the form of an older opset, or as defined, None if it stays, or why it has none."""
    reason = node_obstacle(node, now, to, types)
    if reason is None:
        return None
    build = ReplacementBuilder(node)
    moved = adapted(build, node, now, to, types)
    if moved is not None:
        return _in_form_of(build, moved, to)
    definition = written_as_defined(node, now, to, types)
    if definition is not None:
        why = f"opset {to} lacks this {node.op_type}: replaced with its definition in the standard"
        return Replacement(WRITE_OUT_OPERATOR.code, why, definition[0], outputs=definition[1], effect=Effect.AS_DEFINED)
    if is_function("", node.op_type, now) and not onnx.defs.has(node.op_type, to, ""):
        reason += (
            f", and its definition in the standard cannot be expressed in opset {to} for"
            " these operands; export the model without that operator, or choose a target with a newer opset"
        )
    return reason


def _in_form_of(build: ReplacementBuilder, moved: onnx_ir.Node, to: int) -> Replacement:
    """Return the replacement by a node of the operator, behind the others."""
    build.nodes.append(moved)
    return as_replacement(build, ADAPT_OPERATOR.code, f"{build.node.op_type} in the form of opset {to}", *moved.outputs)


def apply_moves(session: Session, moves: Moves, pass_name: str, types: TypeOf) -> list[Rewrite]:
    """Replace the nodes; the opset is not changed yet. types: as in `apply_replacement`."""
    namer, rewrites = session.namer(), list[Rewrite]()
    for node, replacement in moves.replacements.items():
        name_inside(replacement.nodes, namer)
        rewrites.append(apply_replacement(session, pass_name, node, replacement, namer, types))
    return rewrites
