"""What onnx infers of the results of one node, under other names: those of a model may be anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS

REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError)
"""What onnx raises for a node that it does not accept."""


def outputs_by_onnx(
    node: onnx_ir.Node,
    opset: int,
    types: Sequence[onnx.TypeProto],
    constants: Mapping[int, onnx.TensorProto] | None = None,
) -> list[onnx.TypeProto | None]:
    """Return the type of each output as onnx infers it; None for those of which it says nothing.

    Args:
        node: The node. No attribute is a parameter of the enclosing function.
        opset: The version of its domain.
        types: The types of its inputs; those of inputs that are left out are not used.
        constants: The inputs of which onnx gets the elements.

    Raises:
        InferenceError, ValidationError, ValueError: onnx does not accept the node (see REFUSALS).
    """
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    if not onnx.defs.has(node.op_type, opset, domain) or crashes_onnx(node):
        return [None] * len(node.outputs)
    schema = onnx.defs.get_schema(node.op_type, opset, domain)
    # onnx takes a STFT without `onesided` for one that is two-sided, against the default.
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    proto = onnx.NodeProto(op_type=node.op_type, domain=domain)
    proto.attribute.extend(onnx_ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    proto.attribute.extend(default for default in defaults if default.type and default.name not in node.attributes)
    names = ["" if value is None else f"i{index}" for index, value in enumerate(node.inputs)]
    proto.input.extend(names)
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    typed = {name: declared for name, declared in zip(names, types, strict=True) if name}
    elements = {names[index]: tensor for index, tensor in (constants or {}).items()}
    inferred = onnx.shape_inference.infer_node_outputs(schema, proto, typed, elements)
    return [inferred.get(name) for name in proto.output]


def crashes_onnx(node: onnx_ir.Node) -> bool:
    """True for what ends the process of onnx 1.23: it takes sizes from these attributes unchecked."""
    if node.op_type == "Split":
        return node.attributes.get_int("num_outputs", len(node.outputs)) != len(node.outputs)
    return node.op_type == "GatherND" and (node.attributes.get_int("batch_dims", 0) or 0) < 0
