"""Nodes and values in short form, for rewrite records, and as ONNX text, for messages.

A node is shown with the types that its values declare; `types` gives those of values that declare none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES
from castsmith.ir.records import NodeItem, Site, ValueItem, item_text
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import type_name

# Errors of promotion with their place: the node, its operands, and where the type of each comes from.


def origin(value: onnx_ir.Value) -> str:
    """Describe the origin of the value: an input, an initializer, or the node that makes it."""
    node = value.producer()
    if node is not None:
        if node.op_type == "Constant":
            return "a Constant"
        return f"made by {node.name} ({node.op_type})" if node.name else f"made by {node.op_type}"
    if value.is_initializer():
        return "an initializer" + (" and input" if value.is_graph_input() else "")
    return "an input"


def operands_text(operands: Iterable[tuple[onnx_ir.Value | None, DataType]]) -> str:
    """List the operands: `x (float, an input) and w (int64, made by mul (Mul))`."""
    return " and ".join(
        f"{value.name} ({type_name(dtype)}, {origin(value)})" if value is not None else type_name(dtype)
        for value, dtype in operands
    )


def located(
    site: Site, what: str, operands: Iterable[tuple[onnx_ir.Value | None, DataType]], error: PromotionError
) -> PromotionError:
    """Return the error with its place, its operands and their origins in front."""
    rule = f" [rule {error.rule}]" if error.rule else ""
    text = f"{site}: {what} {operands_text(operands)}: {str(error).rstrip('.')}{rule}."
    return PromotionError(text, lhs=error.lhs, rhs=error.rhs, rule=error.rule, option=error.option)


_MAX_ATTRIBUTE_CHARACTERS = 60
_MOST_ELEMENTS = 8


Types = Mapping[onnx_ir.Value, DataType]
"""Element types of values that declare none, such as those of an inference."""


def node_item(node: onnx_ir.Node, types: Types | None = None) -> NodeItem:
    """Return the node in short form; `types` as in this module."""
    return NodeItem(
        node.op_type,
        tuple(None if value is None else _operand(value, types) for value in node.inputs),
        tuple(ValueItem(value.name or "", *_type(value, types)) for value in node.outputs),
        tuple((name, _shortened(attribute_text(attribute))) for name, attribute in node.attributes.data.items()),
        node.domain,
        node.name or "",
    )


def _operand(value: onnx_ir.Value, types: Types | None) -> ValueItem:
    """Return an operand; for a constant with a single element, the element too, which readers want to see."""
    tensor = value.const_value
    if tensor is None or isinstance(tensor, onnx_ir.ExternalTensor) or tensor.size != 1:
        return ValueItem(value.name or "", *_type(value, types))
    return ValueItem(value.name or "", *_type(value, types), f"{tensor.numpy().ravel()[0]}")


def node_items(nodes: Iterable[onnx_ir.Node], types: Types | None = None) -> list[NodeItem]:
    """Return the nodes in short form; `types` as in this module."""
    return [node_item(node, types) for node in nodes]


def value_item(value: onnx_ir.Value, role: str = "") -> ValueItem:
    """Return the value with its declared type in short form; `role` as in ValueItem."""
    return ValueItem(value.name or "", *_type(value, None), role=role)


def constant_item(value: onnx_ir.Value, role: str = "") -> ValueItem:
    """Return a constant in short form, elided if long: `float[3] w = {1, 2.5, ...}`; `role` as in ValueItem."""
    tensor = value.const_value
    if tensor is None:
        return value_item(value, role)
    return ValueItem(value.name or "", type_name(tensor.dtype), _dims_text(tensor), _elements(tensor), role)


def _elements(tensor: onnx_ir.TensorProtocol) -> str:
    if tensor.size <= _MOST_ELEMENTS:
        return ", ".join(str(element) for element in tensor.numpy().ravel().tolist())
    return f"... {tensor.size} elements ..."


def _dims_text(tensor: onnx_ir.TensorProtocol) -> str:
    return f"[{', '.join(map(str, tensor.shape.numpy()))}]"


def node_text(node: onnx_ir.Node, types: Types | None = None) -> str:
    """Return one line such as `y = Cast <to = float> (x)  # (int64[N]) -> float[N]`; `types` as in this module."""
    return item_text(node_item(node, types))


def type_text(value: onnx_ir.Value) -> str:
    """Return the value's element type and shape in ONNX text, such as `float[N, 4]`; `?` if unknown."""
    return "".join(_type(value, None))


def constant_text(value: onnx_ir.Value) -> str:
    """Return a constant as ONNX text declares it, elided if long: `float[3] w = {1, 2.5, ...}`."""
    return item_text(constant_item(value))


def site_of(node: onnx_ir.Node) -> Site:
    """Return the place of the node."""
    graph, output = node.graph, ""
    for value in node.outputs:
        if value.name:
            output = value.name
            break
    return Site(graph.name or "" if graph is not None else "", node.name or "", node.op_type, output)


def _bracketed(dims: Iterable[int | onnx_ir.SymbolicDim]) -> str:
    names = (dim if isinstance(dim, int) else dim.value for dim in dims)
    return f"[{', '.join('?' if name is None else str(name) for name in names)}]"


def _type(value: onnx_ir.Value, types: Types | None) -> tuple[str, str]:
    """Return the element type and the shape in brackets; of a value that declares no type, the one in `types`."""
    if value.dtype is None or value.dtype == DataType.UNDEFINED:
        if value.type is not None:
            return str(value.type), ""
        dtype = None if types is None else types.get(value)
        return "?" if dtype is None else type_name(dtype), ""
    return type_name(value.dtype), "" if value.shape is None else _bracketed(value.shape.dims)


def tensor_type_text(tensor: onnx_ir.TensorProtocol) -> str:
    """Return the tensor's element type and shape in ONNX text, such as `float[2, 4]`."""
    return type_name(tensor.dtype) + _dims_text(tensor)


def attribute_text(attribute: onnx_ir.Attr) -> str:
    """Return the value of the attribute; for a Cast's `to` the name of the type that its number stands for."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    is_number = attribute.type == onnx_ir.AttributeType.INT
    if attribute.name == "to" and is_number and attribute.value in NUMBERS_OF_TYPES:
        return type_name(onnx_ir.DataType(attribute.as_int()))
    if attribute.type in (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS):
        return "{...}"
    if attribute.type == onnx_ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor_type_text(tensor)} {{{_elements(tensor)}}}"
    return str(attribute.value)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ATTRIBUTE_CHARACTERS else text[: _MAX_ATTRIBUTE_CHARACTERS - 3] + "..."
