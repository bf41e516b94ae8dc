"""A Cast between Transpose and MatMul is moved before the Transpose, for targets that fail on the other order.

ONNX Runtime 1.31 swaps the two itself to fuse Transpose and MatMul; if the leading axes are permuted, as by
perm = [1, 0, 2], the process ends while it loads the model.
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import cast_node, read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Rewrite
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewriting import Replacement, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

CAST_BEFORE_TRANSPOSE = Rule(
    "cast-before-transpose",
    "A Cast between Transpose and MatMul moves before the Transpose.",
    why="ONNX Runtime 1.32 crashes when it loads the other order, if the Transpose moves leading axes.",
    example="- y = MatMul (Cast (Transpose (x)), w)\n+ y = MatMul (Transpose (Cast (x)), w)",
)


def cast_before_transpose(session: Session, target: Target, pass_name: str) -> list[Rewrite]:
    """Swap each such pair of nodes. Exact: a Transpose moves elements, whatever their type."""
    if not target.breaks_cast_after_transpose:
        return []
    types = session.inference(PromotionRules(promote_unsafe=True)).types
    return list(replace_nodes(session, pass_name, _swapped, types=types).records.rewrites)


def _swapped(node: onnx_ir.Node) -> Replacement | None:
    """Return the nodes that replace a Cast which only a MatMul uses, of a Transpose which only the Cast uses."""
    meaning, x = read_cast(node), node.inputs[0] if node.inputs else None
    transpose = None if x is None else x.producer()
    if meaning is None or meaning.to is None or x is None or transpose is None or transpose.op_type != "Transpose":
        return None
    if transpose.domain not in DEFAULT_DOMAINS or transpose.graph is not node.graph or not _only_user(x, "Cast"):
        return None
    operand, y = transpose.inputs[0], node.outputs[0]
    if operand is None or not _only_user(y, "MatMul"):
        return None
    first = cast_node(operand, meaning.to, saturate=meaning.saturate, round_mode=meaning.round_mode)
    last = onnx_ir.Node("", "Transpose", first.outputs, list(transpose.attributes.values()))
    last.outputs[0].type, last.outputs[0].shape = onnx_ir.TensorType(meaning.to), y.shape or x.shape
    last.outputs[0].name = y.name
    reason = "the target fails on the order Transpose, Cast, MatMul; casting before the Transpose gives the same"
    return Replacement(CAST_BEFORE_TRANSPOSE.code, reason, (first, last), outputs=tuple(last.outputs))


def _only_user(value: onnx_ir.Value, op_type: str) -> bool:
    users = [user for user, _ in value.uses()]
    return len(users) == 1 and users[0].op_type == op_type and not value.is_graph_output()
