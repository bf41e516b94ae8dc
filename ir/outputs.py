"""The element types of a node's outputs, from its operator's schema and the types of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import cast_target
from castsmith.ir.constants import constant_tensor
from castsmith.ir.schemas import DEFAULT_DOMAINS, OpKey, actual_outputs

_OF_THEIR_ELEMENTS = frozenset(
    (
        "SequenceConstruct",
        "SequenceAt",
        "SplitToSequence",
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
    )
)
"""Operators whose output has the element type of their first input, between tensors, sequences and optional values."""


def output_types(
    node: onnx_ir.Node, key: OpKey, inputs: Sequence[DataType | None], bound: Mapping[str, DataType]
) -> list[DataType | None]:
    """The element type of each output; None where nothing known fixes it.

    inputs: the element type of each actual input. bound: what the type variables of the inputs stand for.
    """
    settled = types_by_schema(key, len(node.outputs), bound)
    if all(settled):
        return settled
    return [known or asked for known, asked in zip(settled, _by_attributes(node, inputs, key), strict=True)]


def types_by_schema(key: OpKey, count: int, bound: Mapping[str, DataType]) -> list[DataType | None]:
    """The element types of `count` outputs as far as the types of the inputs, and nothing else, fix them."""
    return [only if name is None else bound.get(name, only) for name, only in _named_outputs(key, count)]


@cache
def _named_outputs(key: OpKey, count: int) -> tuple[tuple[str | None, DataType | None], ...]:
    """For each output the name of its type variable, and its element type where the schema has only one."""
    found: list[tuple[str | None, DataType | None]] = []
    for formal in actual_outputs(key, count):
        only = next(iter(formal.allowed)) if formal is not None and len(formal.allowed) == 1 else None
        found.append((formal.variable if formal is not None and formal.homogeneous else None, only))
    return tuple(found)


def _by_attributes(node: onnx_ir.Node, inputs: Sequence[DataType | None], key: OpKey) -> list[DataType | None]:
    """What no input type fixes is fixed by attributes (Cast's `to`, RandomNormal's `dtype` ...): onnx knows how."""
    if node.op_type == "Constant":
        tensor = constant_tensor(node.outputs[0])
        return [None if tensor is None else tensor.dtype]
    if node.op_type == "Cast" and "to" in node.attributes and not node.attributes["to"].is_ref():
        return [cast_target(node)]
    if node.op_type in _OF_THEIR_ELEMENTS and node.domain in DEFAULT_DOMAINS and inputs:
        return [inputs[0]] * len(node.outputs)
    nothing: list[DataType | None] = [None] * len(node.outputs)
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return nothing
    return _ask_onnx(node, inputs, key) or nothing


def _ask_onnx(node: onnx_ir.Node, inputs: Sequence[DataType | None], key: OpKey) -> list[DataType | None] | None:
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.attribute.extend(onnx_ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    proto.input.extend("" if value is None else f"i{index}" for index, value in enumerate(node.inputs))
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    known = {
        f"i{index}": onnx.helper.make_tensor_type_proto(int(dtype or 0), None)
        for index, dtype in enumerate(inputs)
        if node.inputs[index] is not None
    }
    domain, op_type, opset = key
    schema = onnx.defs.get_schema(op_type, opset, "" if domain in DEFAULT_DOMAINS else domain)
    try:
        answer = onnx.shape_inference.infer_node_outputs(schema, proto, known)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError):
        return None
    types = [answer[name].tensor_type.elem_type if name in answer else 0 for name in proto.output]
    return [DataType(elem_type) if elem_type else None for elem_type in types]
