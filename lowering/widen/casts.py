"""Casts to float16 and bfloat16 which the target rounds twice, by way of float: rounded once before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import cast_node, read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Records, Refusal, Rewrite
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.encodings.integer import WIDE_INTEGERS, rounds_since, wide
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE, round_in_place
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import HALF_TYPES, type_name
from castsmith.passes.core.rewriting import Replacement, apply_replacement, detach
from castsmith.passes.core.session import Session
from castsmith.targets.kernels import varied_input
from castsmith.targets.target import Target

# A Cast between Transpose and MatMul is moved before the Transpose, for targets that fail on the other order. ONNX
# Runtime 1.31 swaps the two itself to fuse Transpose and MatMul; if the leading axes are permuted, as by
# perm = [1, 0, 2], the process ends while it loads the model.


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
    nodes_swapped = [swapped for node in all_nodes(session.model) if (swapped := _swapped(node)) is not None]
    if not nodes_swapped:
        return []
    namer, types = session.namer(), session.inference(PromotionRules(promote_unsafe=True)).types
    return [apply_replacement(session, pass_name, node, wanted, namer, types) for node, wanted in nodes_swapped]


def _swapped(node: onnx_ir.Node) -> tuple[onnx_ir.Node, Replacement] | None:
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
    return node, Replacement(CAST_BEFORE_TRANSPOSE.code, reason, (first, last), outputs=tuple(last.outputs))


def _only_user(value: onnx_ir.Value, op_type: str) -> bool:
    users = [user for user, _ in value.uses()]
    return len(users) == 1 and users[0].op_type == op_type and not value.is_graph_output()


_SOURCES = (DataType.DOUBLE, *WIDE_INTEGERS)


@dataclass(frozen=True)
class _Wrong:
    """A cast of `x` that the target computes wrongly."""

    node: onnx_ir.Node
    x: onnx_ir.Value
    source: DataType
    to: DataType
    opset: int
    how: str


def round_casts_once(session: Session, target: Target, pass_name: str, records: Records) -> None:
    """Round each such cast of a double or a wide integer in place in double, so that the result fits the type.

    Integers that are known to fit in float are left to the target. Refused if the opset or the target lacks an
    operator.
    """
    inference = session.inference(PromotionRules())
    ranges, namer = Ranges(inference), session.namer()
    with inferred_declared(session.model, inference.types):
        for wrong in list(_rounded_twice(session, target, inference)):
            range_ = ranges.get(wrong.x)
            if range_ is not None and range_.fits(DataType.FLOAT):
                continue
            answer = _rounded(wrong, target)
            if isinstance(answer, Replacement):
                rewrite = apply_replacement(session, pass_name, wrong.node, answer, namer, inference.types)
                records.rewrites.append(rewrite)
            else:
                records.refusals.append(Refusal(pass_name, ROUND_IN_PLACE.code, site_of(wrong.node), answer))


def _rounded_twice(session: Session, target: Target, inference: Inference) -> Iterator[_Wrong]:
    imports = session.imports
    for node in all_nodes(session.model):
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning, x = read_cast(node, like), node.inputs[0] if node.inputs else None
        source = inference.type_of(x)
        if meaning is None or meaning.to is None or source is None or x is None or node.graph is None:
            continue
        if meaning.to not in {*HALF_TYPES} - target.lacks or source not in _SOURCES:
            continue
        opset = opset_of(imports[node.graph], "") or 0
        wrong = target.wrong_cast(source, meaning.to, saturate=True, opset=opset)
        if wrong is not None:
            yield _Wrong(node, x, source, meaning.to, opset, wrong.wrong)


def _rounded(wrong: _Wrong, target: Target) -> Replacement | str:
    """Return the cast, rounded before it; or the reason why that is impossible."""
    casts = f"{target} casts {type_name(wrong.source)} to {type_name(wrong.to)} wrongly"
    since, operator = rounds_since(wrong.source)
    if wrong.opset < since:
        return f"{casts}, and rounding before it needs {operator}: raise the opset from {wrong.opset} to {since}"
    constants: list[onnx_ir.Value] = []
    build = Builder(new_constants(constants, f"{wrong.node.outputs[0].name}_"), doubles=bool(target.as_written))
    rounded = round_in_place(build, wide(build, wrong.x), wrong.to, NarrowPolicy())
    y = build.cast(build.cast(rounded, DataType.FLOAT), wrong.to)
    y.name = wrong.node.outputs[0].name
    lacking = _lacking_kernel(build.nodes, target, wrong.opset)
    if lacking:
        detach(build.nodes)
        return f"{casts}, and it has no kernel of {lacking}, which rounding before it needs"
    reason = f"{casts}: {wrong.how}"
    return Replacement(ROUND_IN_PLACE.code, reason, tuple(build.nodes), tuple(constants), outputs=(y,))


def _lacking_kernel(nodes: Iterable[onnx_ir.Node], target: Target, opset: int) -> str:
    """Return the first operator and type among the nodes for which the target has no kernel; empty if it has all."""
    for node in nodes:
        value = node.inputs[varied_input(node.op_type)]
        if value is not None and value.dtype is not None and not target.has_kernel(node.op_type, value.dtype, opset):
            return f"{node.op_type} of {type_name(value.dtype)} at opset {opset}"
    return ""
