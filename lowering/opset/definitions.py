"""Operators that an older opset lacks, expanded to the function of their schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.constants import constant_node, constant_tensor
from castsmith.lowering.builder import ReplacementBuilder
from castsmith.lowering.inlining import written_out
from castsmith.lowering.opset.adapters import adapted, equal_parts
from castsmith.lowering.opset.obstacles import TypeOf, attribute_obstacle, is_legal, node_obstacle
from castsmith.numerics.promotion.rules import PromotionRules

_UNUSABLE = ("AffineGrid",)
"""Operators whose definitions do not hold: that of AffineGrid has branches that are invalid for any one rank."""


def definition(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> onnx_ir.Function | None:
    """Return the function that the schema at opset `now` gives for the node, its nodes in the form of opset `to`.

    Returns None if that is impossible.
    """
    operands = [None if value is None else types.get(value, value.dtype) for value in node.inputs]
    if not onnx.defs.has(node.op_type, now, "") or node.op_type in _UNUSABLE:
        return None
    schema = onnx.defs.get_schema(node.op_type, now, "")
    proto = _function(node, schema, operands)
    if proto is None or not _keep_outputs(proto, node):
        return None
    written = next((entry.version for entry in proto.opset_import if not entry.domain), now)
    # A copy as a graph of its own, since types are inferred for graphs.
    copy = onnx_ir.from_proto(proto)
    _bind_attributes(copy, node, schema)
    graph = copy.graph
    graph.opset_imports[""] = written
    for value, operand, dtype in zip(graph.inputs, node.inputs, operands, strict=False):
        if dtype is not None:
            value.type = onnx_ir.TensorType(dtype)
        value.shape = None if operand is None or operand.shape is None else operand.shape.copy()
    inside = infer_element_types(onnx_ir.Model(graph, ir_version=10), PromotionRules()).types
    for inner in list(graph.all_nodes()):
        if inner.op_type == node.op_type:
            return None
        obstacle = node_obstacle(inner, written, to, inside)
        if obstacle is not None and not (_adapt(inner, written, to, inside) or _expand(inner, written, to, inside)):
            return None
    for value in graph.inputs:
        value.type = value.shape = None
    _drop_unused(graph)
    return copy


def _drop_unused(graph: onnx_ir.Graph) -> None:
    """Remove nodes whose results nothing uses: those of outputs and attributes that the node does not have."""
    for inner in reversed(list(graph)):
        if not any(value.uses() or value.is_graph_output() for value in inner.outputs):
            graph.remove(inner, safe=True)


def _expand(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> bool:
    """Replace a node of a function by its own definition; False if that is impossible."""
    graph, function = node.graph, definition(node, now, to, types)
    if graph is None or function is None:
        return False
    nodes, outputs = write_out(function, node)
    graph.insert_before(node, nodes)
    for old, new in zip(node.outputs, outputs, strict=True):
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return True


def _adapt(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> bool:
    """Rewrite a node of a function in the form of opset `to`, its constants as nodes; False if that is impossible."""
    graph = node.graph
    axes = _axes_up_to_the_last(node.inputs[1]) if node.op_type.startswith("Reduce") and len(node.inputs) > 1 else None
    if graph is None:
        return False
    if axes is not None:
        constant = onnx_ir.node("Constant", [], {"value_ints": axes})
        graph.insert_before(node, constant)
        node.replace_input_with(1, constant.outputs[0])
    build = ReplacementBuilder(node)
    results = (
        equal_parts(build, node) if node.op_type == "Split" and now >= 18 > to else adapted(build, node, now, to, types)
    )
    if results is None or attribute_obstacle(results, now, to) is not None:
        return False
    if not all(is_legal(built, now, to, types) for built in (*build.nodes, results)):
        return False
    graph.insert_before(node, [*map(constant_node, build.constants), *build.nodes, results])
    for old, new in zip(node.outputs, results.outputs, strict=True):
        dtype = types.get(old)
        new.type = new.type if dtype is None else onnx_ir.TensorType(dtype)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return True


def _axes_up_to_the_last(value: onnx_ir.Value | None) -> list[int] | None:
    """Return the axes from one to the last, if the value is such a Range: counted from the end, or of a known rank."""
    node = None if value is None else value.producer()
    if node is None or node.op_type != "Range":
        return None
    first, end, step = map(_in_ranks, node.inputs)
    if first is None or end is None or step != (0, 1) or end != (1, 0):
        return None
    if first[0] == 1:
        return list(range(first[1], 0)) or None
    operand = _measured(node.inputs[1])
    rank = None if operand is None or operand.shape is None else operand.shape.rank()
    return None if rank is None or first[0] != 0 else list(range(first[1], rank)) or None


def _measured(rank: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """Return the input of the function whose rank the value is."""
    node = None if rank is None else rank.producer()
    shape = None if node is None or node.op_type != "Size" or not node.inputs else node.inputs[0]
    of = None if shape is None else shape.producer()
    is_whole_shape = of is not None and of.op_type == "Shape" and not of.attributes
    operand = of.inputs[0] if of is not None and is_whole_shape else None
    return operand if operand is not None and operand.is_graph_input() else None


def _in_ranks(value: onnx_ir.Value | None) -> tuple[int, int] | None:
    """Return the number as a multiple of the rank of an input, plus a rest; None if unknown."""
    node, tensor = None if value is None else value.producer(), constant_tensor(value)
    if tensor is not None and tensor.size == 1:
        return 0, int(tensor.numpy().item())
    if node is None or not node.inputs:
        return None
    if node.op_type == "Identity":
        return _in_ranks(node.inputs[0])
    if _measured(value) is not None:
        return 1, 0
    if node.op_type != "Add":
        return None
    a, b = map(_in_ranks, node.inputs)
    return None if a is None or b is None else (a[0] + b[0], a[1] + b[1])


def write_out(
    function: onnx_ir.Function, node: onnx_ir.Node
) -> tuple[tuple[onnx_ir.Node, ...], tuple[onnx_ir.Value, ...]]:
    """Return the nodes of a definition on the operands of the node, and a value for each of its outputs."""
    nodes, outputs = written_out(function, node)
    results = iter(outputs)
    return nodes, tuple(next(results) if value.name else value for value in node.outputs)


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
    if unknown or nested or not getattr(schema, "has_context_dependent_function"):  # noqa: B009
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
            argument = node.attributes.get(attribute.ref_attr_name or "")
            formal = schema.attributes.get(attribute.ref_attr_name or "")
            if argument is None and formal is not None and formal.default_value.name:
                argument = onnx_ir.from_proto(formal.default_value)
            if argument is None:
                del inner.attributes[name]
            else:
                inner.attributes[name] = onnx_ir.Attr(name, argument.type, argument.value, argument.ref_attr_name)
