"""The Cast of a ConstantOfShape: it can fill with the cast value itself.

    a = ConstantOfShape <value = {1.5}> (shape)  # float
    y = Cast <to = float16> (a)
becomes
    y = ConstantOfShape <value = float16 {1.5}> (shape)

Exact where the standard fixes the cast of the value. Kept where no runtime fills with the type.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import read_cast
from castsmith.ir.inference import Inference
from castsmith.ir.rewriting import Replacement
from castsmith.ir.schemas import DEFAULT_DOMAINS, op_formals, opset_of
from castsmith.ir.targets import Target, takes_operator
from castsmith.numerics.cast import cast
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type, type_name


def cast_filling(
    node: onnx_ir.Node, inference: Inference, imports: Mapping[str, int], target: Target | None
) -> Replacement | None:
    """What to put in place of a Cast or CastLike of a ConstantOfShape."""
    producer = node.inputs[0].producer() if node.op_type in ("Cast", "CastLike") and node.inputs[0] else None
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
    reason = f"the value that fills the tensor is {type_name(meaning.to)} from the start"
    return Replacement("cast-constant-of-shape", reason, (made,), outputs=(output,))


def _fills(dtype: DataType, opset: int, target: Target | None) -> bool:
    """True if ConstantOfShape gives the type at the opset, and the target has a kernel for it."""
    formals = op_formals("", "ConstantOfShape", opset)
    allowed = formals is not None and dtype in formals[1][0].allowed
    return allowed and takes_operator("ConstantOfShape", dtype, opset, target)
