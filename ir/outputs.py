"""The element types of a node's outputs, from its operator's schema and the types of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.defs
import onnx.shape_inference
import onnx_ir
from onnx_ir import DataType
from onnx_ir.schemas import OpSignature

from castsmith.ir.casts import cast_target
from castsmith.ir.constants import constant_tensor
from castsmith.ir.schemas import formal_inputs, formal_outputs, opset_of


def output_types(
    node: onnx_ir.Node,
    signature: OpSignature,
    inputs: Sequence[DataType | None],
    bound: Mapping[str, DataType],
    imports: Mapping[str, int],
) -> list[DataType | None]:
    """The element type of each output; None where it is not a tensor or nothing known fixes it.

    inputs: the element type of each actual input. bound: type variables already settled (where operands disagree,
    the type that promotion gives them); the others are bound by the inputs.
    """
    variables = dict(bound)
    for formal, dtype in zip(formal_inputs(signature, len(inputs)), inputs, strict=False):
        if dtype is not None and formal.homogeneous:
            variables.setdefault(formal.type_constraint.name, dtype)
    settled = [_settled(formal.type_constraint, variables) for formal in formal_outputs(signature, len(node.outputs))]
    settled += [None] * (len(node.outputs) - len(settled))
    if all(settled):
        return settled
    return [known or asked for known, asked in zip(settled, _by_attributes(node, inputs, imports), strict=True)]


def _settled(constraint: onnx_ir.schemas.TypeConstraintParam, variables: Mapping[str, DataType]) -> DataType | None:
    if constraint.name in variables:
        return variables[constraint.name]
    if len(constraint.allowed_types) == 1:
        (only,) = constraint.allowed_types
        return only.dtype if isinstance(only, onnx_ir.TensorType) else None
    return None


def _by_attributes(
    node: onnx_ir.Node, inputs: Sequence[DataType | None], imports: Mapping[str, int]
) -> list[DataType | None]:
    """What no input type fixes is fixed by attributes (Cast's `to`, RandomNormal's `dtype` ...): onnx knows how."""
    if node.op_type == "Constant":
        tensor = constant_tensor(node.outputs[0])
        return [None if tensor is None else tensor.dtype]
    if node.op_type == "Cast" and "to" in node.attributes and not node.attributes["to"].is_ref():
        return [cast_target(node)]
    nothing: list[DataType | None] = [None] * len(node.outputs)
    opset = opset_of(imports, node.domain)
    if opset is None or any(attribute.is_ref() for attribute in node.attributes.values()):
        return nothing
    return _ask_onnx(node, inputs, opset) or nothing


def _ask_onnx(node: onnx_ir.Node, inputs: Sequence[DataType | None], opset: int) -> list[DataType | None] | None:
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.attribute.extend(onnx_ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    proto.input.extend("" if value is None else f"i{index}" for index, value in enumerate(node.inputs))
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    known = {
        f"i{index}": onnx.helper.make_tensor_type_proto(int(dtype or 0), None)
        for index, dtype in enumerate(inputs)
        if node.inputs[index] is not None
    }
    schema = onnx.defs.get_schema(node.op_type, opset, "" if node.domain == "ai.onnx" else node.domain)
    try:
        answer = onnx.shape_inference.infer_node_outputs(schema, proto, known)
    except onnx.shape_inference.InferenceError:
        return None
    types = [answer[name].tensor_type.elem_type if name in answer else 0 for name in proto.output]
    return [DataType(elem_type) if elem_type else None for elem_type in types]
