"""The Cast of a ConstantOfShape, which can fill with the cast value directly.

    a = ConstantOfShape <value = {1.5}> (shape)  # float
    y = Cast <to = float16> (a)
becomes
    y = ConstantOfShape <value = float16 {1.5}> (shape)

Exact where the standard fixes the cast of the value. Kept where no runtime fills with the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import CastNode, read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_formals, opset_of
from castsmith.ir.ops.table import CASTS
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import Policy, policy_for
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.rewriting import Replacement
from castsmith.targets.kernels import takes_operator
from castsmith.targets.target import Target

# Casts made so far, so that all users in scope share one Cast of a value to a type.

Scope = onnx_ir.Graph | onnx_ir.Function
_Key = tuple[onnx_ir.Value, DataType, Policy]


CAST_CONSTANT_OF_SHAPE = Rule(
    "cast-constant-of-shape",
    "A ConstantOfShape fills with the cast value, and the Cast after it is removed.",
    why="The standard fixes the cast of the value that fills all elements.",
    example=(
        "- a = ConstantOfShape <value = {1.5}> (n); y = Cast <to = float16> (a)\n"
        "+ y = ConstantOfShape <value = float16 {1.5}> (n)"
    ),
)
MERGE_DUPLICATE_CASTS = Rule(
    "merge-duplicate-casts",
    "Equal casts of one value become one.",
    why="They give the same bits.",
    example="- b = Cast <to = float> (x)  where  a = Cast <to = float> (x)",
)


@dataclass
class CastTable:
    """The Casts visited by a walk in the order of the graph; settings that the target type ignores do not count."""

    held: Mapping[onnx_ir.Graph, onnx_ir.Node]
    """The node that holds each subgraph."""
    made: dict[_Key, dict[Scope, onnx_ir.Value]] = field(default_factory=dict[_Key, dict[Scope, onnx_ir.Value]])

    def note(self, scope: Scope, source: onnx_ir.Value, meaning: CastNode, opset: int, result: onnx_ir.Value) -> None:
        """Record `result` as the cast of `source` in `scope`."""
        self.made.setdefault(_key(source, meaning, opset), {})[scope] = result

    def find(self, scope: Scope | None, source: onnx_ir.Value, meaning: CastNode, opset: int) -> onnx_ir.Value | None:
        """Return the result of an earlier equal cast of `source` in the scope, or in one around it.

        The walk visits a subgraph after all nodes before it outside, so the result is always computed earlier.
        """
        found = self.made.get(_key(source, meaning, opset))
        while found and scope is not None:
            if scope in found and _stands(found[scope]):
                return found[scope]
            holder = self.held.get(scope) if isinstance(scope, onnx_ir.Graph) else None
            scope = None if holder is None else holder.graph
        return None


def merge_with(node: onnx_ir.Node, twin: onnx_ir.Value | None, to: DataType) -> Replacement | None:
    """Use `twin`, the result of another Cast, instead of the node's result; None if nothing is saved."""
    if twin is None:
        return None
    producer = twin.producer()
    hands_over = producer is not None and producer.graph is node.graph and not twin.is_graph_output()
    # A graph output that cannot take over the name of its twin would need an Identity, which moves as many bytes.
    if node.outputs[0].is_graph_output() and not hands_over:
        return None
    reason = f"{twin.name} already is the same value as {type_name(to)}"
    return Replacement(MERGE_DUPLICATE_CASTS.code, reason, outputs=(twin,))


def _stands(value: onnx_ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is not None


def _key(source: onnx_ir.Value, meaning: CastNode, opset: int) -> _Key:
    return (
        source,
        meaning.target,
        policy_for(meaning.target, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=opset),
    )


def cast_filling(
    node: onnx_ir.Node, inference: Inference, imports: Mapping[str, int], target: Target | None
) -> Replacement | None:
    """Return the replacement of a Cast or CastLike of a ConstantOfShape."""
    producer = node.inputs[0].producer() if node.op_type in CASTS and node.inputs[0] else None
    if producer is None or producer.op_type != "ConstantOfShape" or producer.domain not in DEFAULT_DOMAINS:
        return None
    like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
    meaning, attribute, opset = read_cast(node, like), producer.attributes.get("value"), opset_of(imports, "") or 1
    if meaning is None or meaning.to is None or not _fills(meaning.to, opset, target):
        return None
    if attribute is not None and attribute.is_ref():
        return None
    value = np.zeros(1, np.float32) if attribute is None else attribute.as_tensor().numpy()
    if element_type(DataType.from_numpy(value.dtype)).kind > Kind.FLOATING:
        return None
    saturate, round_mode = meaning.saturate, meaning.round_mode
    if cast_status(value, meaning.to, saturate=saturate, round_mode=round_mode, opset=opset).any():
        return None
    filling = cast(value, meaning.to, saturate=saturate, round_mode=round_mode, opset=opset)
    attributes = {"value": onnx_ir.tensor(filling, dtype=meaning.to)}
    made = onnx_ir.node("ConstantOfShape", list(producer.inputs), attributes, name=node.name)
    output, old = made.outputs[0], node.outputs[0]
    output.name, output.dtype, output.shape = old.name, meaning.to, old.shape or producer.outputs[0].shape
    reason = f"the tensor is filled with a {type_name(meaning.to)} value directly"
    return Replacement(CAST_CONSTANT_OF_SHAPE.code, reason, (made,), outputs=(output,))


def _fills(dtype: DataType, opset: int, target: Target | None) -> bool:
    """True if ConstantOfShape gives the type at the opset, and the target has a kernel for it."""
    formals = op_formals("", "ConstantOfShape", opset)
    allowed = formals is not None and dtype in formals[1][0].allowed
    return allowed and takes_operator("ConstantOfShape", dtype, opset, target)
