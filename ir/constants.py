"""Constant values: finding their tensors, and giving a new one a home in a graph or a function."""

from __future__ import annotations

import onnx_ir


def constant_tensor(value: onnx_ir.Value | None) -> onnx_ir.TensorProtocol | None:
    """The tensor of an initializer or of a Constant node; None when the value can change from run to run.

    An initializer that is also a graph input is a default which the caller may override, so it is no constant.
    """
    if value is None or value.is_graph_input():
        return None
    if value.is_initializer():
        return value.const_value
    return onnx_ir.convenience.get_const_tensor(value, propagate_shape_type=False)


def new_constant(name: str, tensor: onnx_ir.TensorProtocol) -> onnx_ir.Value:
    """A value that holds `tensor`, owned by no graph yet."""
    shape = onnx_ir.Shape(tensor.shape.numpy())
    return onnx_ir.Value(name=name, shape=shape, type=onnx_ir.TensorType(tensor.dtype), const_value=tensor)


def constant_node(value: onnx_ir.Value) -> onnx_ir.Node:
    """A Constant node with the tensor, name and type of a value from `new_constant`: functions have no initializers."""
    assert value.const_value is not None
    value.const_value.name = value.name
    node = onnx_ir.node("Constant", [], {"value": value.const_value}, name=value.name)
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = value.name, value.type, value.shape
    return node


def drop_if_unused(value: onnx_ir.Value) -> None:
    """Remove the initializer or the Constant or Cast node that makes `value` once nothing uses it."""
    if value.uses() or value.is_graph_output() or value.is_graph_input():
        return
    if value.is_initializer():
        assert isinstance(value.graph, onnx_ir.Graph)
        assert value.name is not None
        del value.graph.initializers[value.name]
        return
    node = value.producer()
    if node is None or node.graph is None or node.domain not in ("", "ai.onnx"):
        return
    if node.op_type in ("Constant", "Cast", "CastLike", "Identity"):
        inputs = [operand for operand in node.inputs if operand is not None]
        node.graph.remove(node, safe=True)
        for operand in inputs:
            drop_if_unused(operand)
