"""The shapes that onnx infers for the values of a model, without a copy of its weights.

It infers them in the process of the engines: a damaged model, such as one with an operand of no type, may crash it.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.helper
import onnx_ir

from castsmith.verification.evaluate.engines import EngineError, process

_SMALL = 1024
"""Bytes up to which a constant is given to onnx with its elements, which may be a shape."""

_LONGEST = 60.0
"""Seconds of the processor: functions that call functions may take any time."""


def inferred_shapes(
    model: onnx_ir.Model, *, from_declared: bool = False, calls: bool = True
) -> dict[onnx_ir.Value, onnx_ir.Shape]:
    """Return the shapes that onnx infers for values of the main graph and its subgraphs; empty if it fails.

    Args:
        model: The model.
        from_declared: Infer from the declared shapes of node outputs too, where their nodes do not give them.
    """
    graph = onnx.GraphProto(name=model.graph.name or "g")
    for value in (*model.graph.inputs, *model.graph.outputs):
        ports = graph.input if value.is_graph_input() else graph.output
        ports.append(onnx_ir.serde.serialize_value(value))
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes <= _SMALL:
            graph.initializer.append(onnx_ir.serde.serialize_tensor(tensor))
            graph.initializer[-1].name = value.name or ""  # a tensor need not have the name of its value
        elif tensor is not None and not value.is_graph_input():
            dims = [int(dim) for dim in tensor.shape.numpy()]
            graph.input.append(onnx.helper.make_tensor_value_info(value.name or "", int(tensor.dtype), dims))
    if from_declared:
        outputs = (value for node in model.graph for value in node.outputs if not value.is_graph_output())
        declared = (value for value in outputs if value.shape is not None and value.type is not None)
        graph.value_info.extend(onnx_ir.serde.serialize_value(value) for value in declared)
    graph.node.extend(onnx_ir.serde.serialize_node(node) for node in model.graph)
    _clear_negative(graph)
    functions = [onnx_ir.to_proto(function) for function in model.functions.values()] if calls else []
    imports = [onnx.OperatorSetIdProto(domain=name, version=opset) for name, opset in model.opset_imports.items()]
    bare = onnx.ModelProto(ir_version=model.ir_version, graph=graph, functions=functions, opset_import=imports)
    try:
        inferred: bytes = process().ask("infer", bare.SerializeToString(), seconds=_LONGEST)
    except (EngineError, ValueError):  # refused, crashed, or larger than protobuf writes
        return {}
    return dict(_shapes_in(model.graph, onnx.ModelProto.FromString(inferred).graph))


def _clear_negative(graph: onnx.GraphProto) -> None:
    """Make negative dimensions unknown, as exporters mean them, also in subgraphs: Slice in onnx ends the process."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value < 0:
                dim.ClearField("dim_value")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _clear_negative(inner)


def _shapes_in(graph: onnx_ir.Graph, proto: onnx.GraphProto) -> Iterator[tuple[onnx_ir.Value, onnx_ir.Shape]]:
    """The shapes of a graph and of those inside it: another graph may have the same names."""
    types = {info.name: info.type.tensor_type for info in proto.value_info if info.type.HasField("tensor_type")}
    for node, node_proto in zip(graph, proto.node, strict=True):
        for value in node.outputs:
            size = types.get(value.name or "")
            if size is not None and size.HasField("shape"):
                dims = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in size.shape.dim)
                yield value, onnx_ir.Shape(list(dims))
        for attribute in node_proto.attribute:
            if attribute.HasField("g"):
                yield from _shapes_in(node.attributes[attribute.name].as_graph(), attribute.g)
