"""The Cast of a ConstantOfShape, which can fill with the cast value directly.

    a = ConstantOfShape <value = {1.5}> (shape)  # float
    y = Cast <to = float16> (a)
becomes
    y = ConstantOfShape <value = float16 {1.5}> (shape)

Exact where the standard fixes the cast of the value. Kept where no runtime fills with the type.
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_formals
from castsmith.ir.ops.table import CASTS
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import Facts
from castsmith.targets.kernels import takes_operator
from castsmith.targets.target import Target


def fill_with_cast_value(node: onnx_ir.Node, facts: Facts) -> Replacement | None:
    """Replace a Cast or CastLike of a ConstantOfShape."""
    producer = node.inputs[0].producer() if node.inputs and node.inputs[0] else None
    if producer is None or producer.op_type != "ConstantOfShape" or producer.domain not in DEFAULT_DOMAINS:
        return None
    chain, attribute = facts.chain(node), producer.attributes.get("value")
    if chain is None or not _fills(chain.to, chain.opset, facts.legality.target):
        return None
    meaning, opset = chain.meaning, chain.opset
    if attribute is not None and attribute.is_ref():
        return None
    value = np.zeros(1, np.float32) if attribute is None else attribute.as_tensor().numpy()
    if element_type(DataType.from_numpy(value.dtype)).kind > Kind.FLOATING:
        return None
    saturate, round_mode = meaning.saturate, meaning.round_mode
    if cast_status(value, chain.to, saturate=saturate, round_mode=round_mode, opset=opset).any():
        return None
    filling = cast(value, chain.to, saturate=saturate, round_mode=round_mode, opset=opset)
    attributes = {"value": onnx_ir.tensor(filling, dtype=chain.to)}
    filled = onnx_ir.node("ConstantOfShape", list(producer.inputs), attributes, name=node.name)
    output, old = filled.outputs[0], node.outputs[0]
    output.name, output.dtype, output.shape = old.name, chain.to, old.shape or producer.outputs[0].shape
    reason = f"the tensor is filled with a {type_name(chain.to)} value directly"
    return Replacement(CAST_CONSTANT_OF_SHAPE.code, reason, (filled,), outputs=(output,))


def _fills(dtype: DataType, opset: int, target: Target | None) -> bool:
    """True if ConstantOfShape gives the type at the opset, and the target has a kernel for it."""
    formals = op_formals("", "ConstantOfShape", opset)
    allowed = formals is not None and dtype in formals[1][0].allowed
    return allowed and takes_operator("ConstantOfShape", dtype, opset, target)


CAST_CONSTANT_OF_SHAPE = NodeRule(
    "cast-constant-of-shape",
    "A ConstantOfShape fills with the cast value, and the Cast after it is removed.",
    why="The standard defines the cast of the value that fills all elements.",
    example=(
        "- a = ConstantOfShape <value = {1.5}> (n); y = Cast <to = float16> (a)\n"
        "+ y = ConstantOfShape <value = float16 {1.5}> (n)"
    ),
    operators=CASTS,
    apply=fill_with_cast_value,
)
