"""Constant values: find their tensors, add new ones to a graph or a function, and drop unused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

import numpy as np
import onnx_ir
from onnx_ir import AttributeType, DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_formals
from castsmith.ir.ops.table import CONVERSIONS, operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.walks import tensor_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import type_name

_REMOVABLE = CONVERSIONS | operators(lambda row: row.carries or row.moves is Moves.MAKE)
"""Operators that make or carry constants: their results depend only on their inputs."""


def constant_tensor(value: onnx_ir.Value | None) -> onnx_ir.TensorProtocol | None:
    """Return the tensor of an initializer or a Constant node; None if the value can change from run to run.

    An initializer that is also a graph input is a default which the caller may override, so it is not a constant; nor
    is a Constant whose attribute is a parameter of the enclosing function.
    """
    if value is None or value.is_graph_input():
        return None
    if value.const_value is not None:
        return value.const_value
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain not in DEFAULT_DOMAINS or len(node.attributes) != 1:
        return None
    return _attribute_tensor(next(iter(node.attributes.values())), value.name)


def new_constant(name: str, tensor: onnx_ir.TensorProtocol) -> onnx_ir.Value:
    """Return a value that holds `tensor`, not yet owned by a graph."""
    shape = onnx_ir.Shape(tensor.shape.numpy())
    return onnx_ir.Value(name=name, shape=shape, type=onnx_ir.TensorType(tensor.dtype), const_value=tensor)


def constant_node(value: onnx_ir.Value) -> onnx_ir.Node:
    """Return a Constant node that makes a value from `new_constant`: functions have no initializers.

    The node gets a tensor of its own: a shared one would be renamed through the value, in clones of the model too.
    """
    tensor = present(value.const_value, "the tensor of the constant")
    tensor.name, value.const_value = value.name, None
    attribute = onnx_ir.AttrTensor("value", tensor)
    return onnx_ir.Node("", "Constant", [], [attribute], outputs=[value], name=value.name)


def constant_types(opset: int) -> frozenset[DataType]:
    """Return the element types that a Constant node of the opset gives: only float below opset 9, never float6."""
    formals = op_formals("", "Constant", opset)
    return frozenset() if formals is None else formals[1][0].allowed


def constant_nodes(value: onnx_ir.Value, opset: int) -> list[onnx_ir.Node]:
    """Return the nodes that make a value from `new_constant`: a Constant, and a Cast for types that Constant lacks.

    Raises:
        ModelError: No type that Constant supports holds the value.
    """
    tensor, allowed = present(value.const_value, "the tensor of the constant"), constant_types(opset)
    if tensor.dtype in allowed:
        return [constant_node(value)]
    in_types = (round_trip(tensor, dtype, opset) for dtype in _HOLDING if dtype in allowed)
    held_tensor = next((held for held in in_types if held is not None), None)
    if held_tensor is None:
        what = f"{type_name(tensor.dtype)}, which its Constant does not support"
        raise ModelError(f"opset {opset} cannot express the constant {value.name} of {what}; raise the opset.")
    held_tensor.name = f"{value.name}_{type_name(held_tensor.dtype)}"
    held = new_constant(held_tensor.name, held_tensor)
    value.const_value = None
    to = onnx_ir.AttrInt64("to", int(tensor.dtype))
    return [constant_node(held), onnx_ir.Node("", "Cast", [held], [to], outputs=[value])]


_HOLDING = (DataType.FLOAT, DataType.DOUBLE)
"""The types in which a constant is stated that Constant does not give, the smaller one first."""


def round_trip(tensor: onnx_ir.TensorProtocol, dtype: DataType, opset: int) -> onnx_ir.TensorProtocol | None:
    """Return a constant in another type, from which a cast leads back to its bits; None if none does."""
    if tensor.dtype == DataType.STRING:
        return None
    array = tensor.numpy()
    converted = cast(array, dtype, opset=opset)
    if cast_status(array, dtype, opset=opset).any() or cast_status(converted, tensor.dtype, opset=opset).any():
        return None
    back = cast(converted, tensor.dtype, opset=opset)
    same = np.ascontiguousarray(back).tobytes() == np.ascontiguousarray(array).tobytes()
    return onnx_ir.Tensor(converted, dtype) if same else None


SMALL = 1024
"""The most elements of a constant that is cast to a narrower type while a model is optimized."""


def narrowed(tensor: onnx_ir.TensorProtocol, to: DataType, opset: int) -> onnx_ir.TensorProtocol | None:
    """Return a small constant in a type that its own type holds; None if that does not hold each of its elements."""
    small = tensor.size <= SMALL and embeds(to, tensor.dtype)
    return round_trip(tensor, to, opset) if small else None


def drop_if_unused(value: onnx_ir.Value) -> None:
    """Remove what makes `value` if it is unused: its initializer, or nodes back to the constants they carry."""
    values = [value]
    while values:
        value = values.pop()
        if value.is_graph_output() or value.is_graph_input():
            continue
        if value.is_initializer():
            graph = value.graph
            if isinstance(graph, onnx_ir.Graph) and not use_count(value):
                del graph.initializers[value.name or ""]
            continue
        node = value.producer()
        if node is None or node.graph is None or not _removable(node):
            continue
        if not any(use_count(output) or output.is_graph_output() for output in node.outputs):
            values += [operand for operand in node.inputs if operand is not None]
            node.graph.remove(node, safe=True)


def growth_reason(growth: int, largest: int, left: int) -> str:
    """Return why constants that add `growth` bytes to the file are not written; empty if they are within the limits.

    Args:
        largest: `max_growth`.
        left: What is left of `max_total_growth`.
    """
    if growth <= min(largest, left):
        return ""
    size = f"{growth} byte{'' if growth == 1 else 's'}"
    limit = f"max_growth is {largest}" if growth > largest else f"{left} of max_total_growth are left"
    return f"the file would grow by {size}, and {limit}"


def bytes_of_dropped(nodes: Iterable[onnx_ir.Node], kept: Container[onnx_ir.Value] = ()) -> int:
    """Return the bytes of the tensors that `drop_if_unused` would remove with `nodes`; values in `kept` stay."""
    total, leaving, uses_gone = 0, list(dict.fromkeys(nodes)), Counter[onnx_ir.Value]()
    while leaving:
        node = leaving.pop()
        for value in node.inputs:
            if value is None:
                continue
            uses_gone[value] += 1
            if uses_gone[value] < use_count(value) or value in kept or value.is_graph_output():
                continue
            producer = value.producer()
            if value.is_initializer() and not value.is_graph_input():
                total += value.const_value.nbytes if value.const_value is not None else 0
            elif (
                producer is not None
                and _removable(producer)
                and all(
                    uses_gone[output] == use_count(output) and not output.is_graph_output()
                    for output in producer.outputs
                )
            ):
                tensors = map(constant_tensor, producer.outputs)
                total += sum(tensor.nbytes for tensor in tensors if tensor is not None)
                leaving.append(producer)
    return total


def use_count(value: onnx_ir.Value) -> int:
    """Return the number of node inputs that the value is."""
    return len(value.uses())


def _removable(node: onnx_ir.Node) -> bool:
    return node.domain in DEFAULT_DOMAINS and node.op_type in _REMOVABLE


def _attribute_tensor(attribute: onnx_ir.Attr, name: str | None) -> onnx_ir.TensorProtocol | None:
    """Return the tensor in an attribute of Constant; None for a sparse one, which onnx_ir cannot represent."""
    if attribute.is_ref():
        return None
    if attribute.type == AttributeType.TENSOR:
        return tensor_of(attribute)
    if attribute.type in (AttributeType.FLOAT, AttributeType.FLOATS):
        return onnx_ir.tensor(np.array(attribute.value, np.float32), name=name)
    if attribute.type in (AttributeType.INT, AttributeType.INTS):
        return onnx_ir.tensor(np.array(attribute.value, np.int64), name=name)
    if attribute.type in (AttributeType.STRING, AttributeType.STRINGS):
        single = attribute.type == AttributeType.STRING
        texts = [attribute.as_string()] if single else list(attribute.as_strings())
        shape = onnx_ir.Shape([] if single else [len(texts)])
        return onnx_ir.StringTensor([text.encode() for text in texts], shape=shape, name=name)
    return None
