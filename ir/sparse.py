"""Sparse constants spelled out as operators, since onnx_ir holds no sparse tensors.

    Constant <sparse_value = ...> ()    and each sparse initializer
becomes
    zeros = Expand (0, shape)
    y = ScatterND (zeros, indices, values)

which means the same from opset 11 on, the first that has sparse constants, and stays as small in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from math import prod

import onnx
import onnx.helper as make
from onnx import TensorProto

from castsmith.ir.errors import ModelError

_FIRST_OPSET = 11


def has_sparse(proto: onnx.ModelProto) -> bool:
    """Whether the model has a sparse initializer, or a Constant with a sparse value."""
    return any(
        (isinstance(scope, onnx.GraphProto) and scope.sparse_initializer) or any(map(_sparse_value, scope.node))
        for scope in (*proto.functions, *_graphs(proto))
    )


def spelled_out(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model in which every sparse constant is made by operators. Raises ModelError before opset 11."""
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    if max(imports.get("", 0), imports.get("ai.onnx", 0)) < _FIRST_OPSET:
        raise ModelError(f"{proto.graph.name}: sparse constants need opset {_FIRST_OPSET}.")
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for graph in _graphs(copy):
        made = [node for tensor in graph.sparse_initializer for node in _nodes(tensor, _name_in(graph, tensor))]
        _replace(graph.node, [*made, *graph.node])
        del graph.sparse_initializer[:]
    for nodes in _node_lists(copy):
        if any(_sparse_value(node) is not None for node in nodes):
            _replace(nodes, [new for node in nodes for new in _spell_out(node)])
    return copy


def _spell_out(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    value = _sparse_value(node)
    return [node] if value is None else _nodes(value, node.output[0])


def _nodes(tensor: onnx.SparseTensorProto, name: str) -> list[onnx.NodeProto]:
    """The nodes that make the dense tensor `name`. One index an element counts in the flat tensor."""
    zero = TensorProto(data_type=tensor.values.data_type)
    if zero.data_type == TensorProto.STRING:
        zero.string_data.append(b"")
    else:
        zero.raw_data = bytes(16 if zero.data_type == TensorProto.COMPLEX128 else _width(zero.data_type))
    count, flat = tensor.values.dims[0] if tensor.values.dims else 0, len(tensor.indices.dims) == 1
    indices = TensorProto()
    indices.CopyFrom(tensor.indices)
    indices.dims[:] = [count, 1 if flat else len(tensor.dims)]
    shape = [prod(tensor.dims)] if flat else list(tensor.dims)
    parts = {"zero": zero, "shape": _integers(shape), "indices": indices, "values": tensor.values}
    if flat:
        parts["dims"] = _integers(list(tensor.dims))
    made = [make.make_node("Constant", [], [f"{name}/{part}"], value=each) for part, each in parts.items()]
    scattered = f"{name}/flat" if flat else name
    made.append(make.make_node("Expand", [f"{name}/zero", f"{name}/shape"], [f"{name}/zeros"]))
    inputs = [f"{name}/zeros", f"{name}/indices", f"{name}/values"]
    made.append(make.make_node("ScatterND", inputs, [scattered]))
    if flat:
        made.append(make.make_node("Reshape", [scattered, f"{name}/dims"], [name]))
    return made


def _width(data_type: int) -> int:
    return make.tensor_dtype_to_np_dtype(data_type).itemsize


def _integers(numbers: list[int]) -> TensorProto:
    return make.make_tensor("", TensorProto.INT64, [len(numbers)], numbers)


def _name_in(graph: onnx.GraphProto, tensor: onnx.SparseTensorProto) -> str:
    name = tensor.values.name
    if any(value.name == name for value in graph.input):
        raise ModelError(f"{graph.name}: the sparse initializer {name!r} is the default of an input, not a constant.")
    return name


def _sparse_value(node: onnx.NodeProto) -> onnx.SparseTensorProto | None:
    if node.op_type != "Constant" or not node.attribute:
        return None
    attribute = node.attribute[0]
    return attribute.sparse_tensor if attribute.type == onnx.AttributeProto.SPARSE_TENSOR else None


def _replace(nodes: MutableSequence[onnx.NodeProto], new: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in new]
    del nodes[:]
    nodes.extend(kept)


def _node_lists(proto: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    for graph in _graphs(proto):
        yield graph.node
    for function in proto.functions:
        yield function.node


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield proto.graph
    pending = [proto.graph.node, *(function.node for function in proto.functions)]
    while pending:
        for node in pending.pop():
            for attribute in node.attribute:
                for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                    pending.append(graph.node)
                    yield graph
