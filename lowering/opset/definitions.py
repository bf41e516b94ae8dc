"""Operators that an older opset lacks, expanded to the function of their schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.lowering.inlining import written_out
from castsmith.lowering.opset.obstacles import TypeOf, node_obstacle
from castsmith.numerics.promotion.rules import PromotionRules

_UNUSABLE = ("AffineGrid",)
"""Operators whose definitions do not hold: that of AffineGrid has branches that are invalid for any one rank."""


def written_as_defined(
    node: onnx_ir.Node, now: int, to: int, types: TypeOf
) -> tuple[tuple[onnx_ir.Node, ...], tuple[onnx_ir.Value, ...]] | None:
    """Return the nodes by which the schema at opset `now` defines the node, and a value for each of its outputs.

    None if it has no such definition, or opset `to` lacks one of its nodes.
    """
    operands = [None if value is None else types.get(value, value.dtype) for value in node.inputs]
    if not onnx.defs.has(node.op_type, now, "") or node.op_type in _UNUSABLE:
        return None
    schema = onnx.defs.get_schema(node.op_type, now, "")
    proto = _function(node, schema, operands)
    if proto is None or not _keep_outputs(proto, node):
        return None
    written = next((entry.version for entry in proto.opset_import if not entry.domain), now)
    function = onnx_ir.from_proto(proto)
    _bind_attributes(function, node, schema)
    graph = function.graph
    graph.opset_imports[""] = written
    for value, operand, dtype in zip(graph.inputs, node.inputs, operands, strict=False):
        if dtype is not None:
            value.type = onnx_ir.TensorType(dtype)
        value.shape = None if operand is None or operand.shape is None else operand.shape.copy()
    inside = infer_element_types(onnx_ir.Model(graph, ir_version=10), PromotionRules()).types
    if any(node_obstacle(inner, written, to, inside) is not None for inner in graph.all_nodes()):
        return None
    _drop_unused(graph)
    nodes, outputs = written_out(function, node)
    results = iter(outputs)
    return nodes, tuple(next(results) if value.name else value for value in node.outputs)


def _drop_unused(graph: onnx_ir.Graph) -> None:
    """Remove nodes whose results nothing uses: those of outputs and attributes that the node does not have."""
    for inner in reversed(list(graph)):
        if not any(value.uses() or value.is_graph_output() for value in inner.outputs):
            graph.remove(inner, safe=True)


_NESTED = onnx_ir.SequenceType | onnx_ir.OptionalType


def _function(
    node: onnx_ir.Node, schema: onnx.defs.OpSchema, operands: Sequence[DataType | None]
) -> onnx.FunctionProto | None:
    proto = onnx.FunctionProto()
    has_function = bool(getattr(schema, "has_function"))  # noqa: B009
    if has_function:
        proto.CopyFrom(schema.function_body)
        return proto
    unknown = any(dtype is None and value is not None for dtype, value in zip(operands, node.inputs, strict=True))
    nested = any(value is not None and isinstance(value.type, _NESTED) for value in node.inputs)
    if unknown or nested:
        return None
    kinds = [_kind(value, dtype).SerializeToString() for value, dtype in zip(node.inputs, operands, strict=True)]
    make: Callable[[bytes, list[bytes]], bytes] = getattr(schema, "get_context_dependent_function")  # noqa: B009
    body = make(onnx_ir.to_proto(node).SerializeToString(), kinds)
    if not body:
        return None
    proto.ParseFromString(body)
    return proto


def _kind(value: onnx_ir.Value | None, dtype: DataType | None) -> onnx.TypeProto:
    """Return the type of an operand with its shape: the functions of RotaryEmbedding and others depend on the rank."""
    shape = None if value is None else value.shape
    dims = None if shape is None else [dim if isinstance(dim, int) else dim.value for dim in shape]
    return onnx.helper.make_tensor_type_proto(int(dtype or 0), dims)


def _keep_outputs(proto: onnx.FunctionProto, node: onnx_ir.Node) -> bool:
    """Drop the function's outputs that the node does not have; False if one that the node has is missing.

    The bodies of some operators, such as Attention, leave outputs out.
    """
    formal = proto.output[: len(node.outputs)]
    kept = [name for name, value in zip(formal, node.outputs, strict=True) if value.name]
    del proto.output[:]
    proto.output.extend(kept)
    names = {*proto.input, *(name for inner in proto.node for name in inner.output)}
    return names.issuperset(kept)


def _bind_attributes(function: onnx_ir.Function, node: onnx_ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Replace the function's parameters by the node's attributes, or the schema's defaults."""
    for inner in function.all_nodes():
        for name, attribute in list(inner.attributes.items()):
            if not attribute.is_ref():
                continue
            parameter = attribute.ref_attr_name or ""
            argument, default = node.attributes.get(parameter), schema.attributes[parameter].default_value
            if argument is None and default.name:
                argument = onnx_ir.from_proto(default)
            if argument is None:
                del inner.attributes[name]
            else:
                inner.attributes[name] = onnx_ir.Attr(name, argument.type, argument.value, argument.ref_attr_name)
