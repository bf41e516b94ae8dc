"""A Cast between Transpose and MatMul goes ahead of the Transpose, for targets that break the other order.

ONNX Runtime 1.31 swaps the two itself to fuse Transpose and MatMul; where the leading axes are permuted, as by
perm = [1, 0, 2], the process ends while it loads the model.
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.casts import cast_node, read_cast
from castsmith.ir.naming import Namer
from castsmith.ir.records import Rewrite
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.targets import Target

HAZARD = "transpose-cast-matmul-crashes"


def cast_before_transpose(model: onnx_ir.Model, target: Target, pass_name: str) -> list[Rewrite]:
    """Swap each such pair of nodes. Exact: a Transpose moves elements, whatever their type."""
    if HAZARD not in target.hazards:
        return []
    found = [swapped for node in all_nodes(model) if (swapped := _swapped(node)) is not None]
    namer = Namer(model) if found else None
    return [apply_replacement(pass_name, node, wanted, namer) for node, wanted in found if namer is not None]


def _swapped(node: onnx_ir.Node) -> tuple[onnx_ir.Node, Replacement] | None:
    """The nodes that stand for a Cast which only a MatMul uses, of a Transpose which only the Cast uses."""
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
    reason = "the target breaks the order Transpose, Cast, MatMul; elements are cast alike before they move"
    return node, Replacement("cast-before-transpose", reason, (first, last), outputs=tuple(last.outputs))


def _only_user(value: onnx_ir.Value, op_type: str) -> bool:
    users = [user for user, _ in value.uses()]
    return len(users) == 1 and users[0].op_type == op_type and not value.is_graph_output()
