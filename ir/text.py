"""Nodes and values in short form, for rewrite records, and as ONNX text, for messages.

A node is shown with the types that its values declare; `types` gives those of values that declare none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

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
    return NodeItem.late(
        _node_fields,
        node.op_type,
        [None if value is None else (_declared(value, types), _single(value.const_value)) for value in node.inputs],
        [_declared(value, types) for value in node.outputs],
        [(name, _attribute(attribute)) for name, attribute in node.attributes.data.items()],
        node.domain,
        node.name or "",
    )


_Declared = tuple[str, DataType | str, tuple[int | onnx_ir.SymbolicDim, ...] | None]
"""A value until its text is wanted: its name, type and dimensions, each of which may change meanwhile."""


def _declared(value: onnx_ir.Value, types: Types | None) -> _Declared:
    declared = value.type
    if type(declared) is onnx_ir.TensorType and declared.dtype != DataType.UNDEFINED:  # as mostly
        return value.name or "", declared.dtype, None if value.shape is None else value.shape.dims
    text, dims = _type(value, types)
    return value.name or "", text, value.shape.dims if dims and value.shape is not None else None


def _single(tensor: onnx_ir.TensorProtocol | None) -> onnx_ir.TensorProtocol | None:
    """Return a tensor of a single element, which is shown: others may be large, and are not kept."""
    if tensor is None or isinstance(tensor, onnx_ir.ExternalTensor):
        return None
    raw = tensor.raw if type(tensor) is onnx_ir.serde.TensorProtoTensor else None
    return tensor if (tensor.size if raw is None else prod(raw.dims)) == 1 else None


def _attribute(attribute: onnx_ir.Attr) -> onnx_ir.Attr | str:
    """Return the attribute itself if it is small, so that it may be kept until its text is wanted; else its text."""
    return attribute if attribute.type in _SMALL else attribute_text(attribute)


_SMALL = (onnx_ir.AttributeType.INT, onnx_ir.AttributeType.FLOAT)


def _node_fields(
    op_type: str,
    inputs: Iterable[tuple[_Declared, onnx_ir.TensorProtocol | None] | None],
    outputs: Iterable[_Declared],
    attributes: Iterable[tuple[str, onnx_ir.Attr | str]],
    domain: str,
    name: str,
) -> tuple[object, ...]:
    """Return the fields of a NodeItem."""
    texts = [(key, value if isinstance(value, str) else attribute_text(value)) for key, value in attributes]
    return (
        op_type,
        tuple([None if value is None else _item(*value) for value in inputs]),
        tuple([_item(value) for value in outputs]),
        tuple([(key, _shortened(text)) for key, text in texts]),
        domain,
        name,
    )


def _item(declared: _Declared, tensor: onnx_ir.TensorProtocol | None = None) -> ValueItem:
    """Return a value; for a constant with a single element, the element too, which readers want to see."""
    name, element, dims = declared
    content = None if tensor is None else f"{tensor.numpy().ravel()[0]}"
    if isinstance(element, DataType):
        element = type_name(element)
    return ValueItem(name, element, "" if dims is None else _bracketed(dims), content)


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
    if tensor.size > _MOST_ELEMENTS:
        return ValueItem(*_constant_fields(value.name or "", tensor, role))
    return ValueItem.late(_constant_fields, value.name or "", tensor, role)


def _constant_fields(name: str, tensor: onnx_ir.TensorProtocol, role: str) -> tuple[str, str, str, str, str]:
    return name, type_name(tensor.dtype), _dims_text(tensor), _elements(tensor), role


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
