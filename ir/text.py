"""Nodes as ONNX text, with the types of what goes in and out as a comment, for rewrite records and messages."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Protocol

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import NUMBERS_OF_TYPES
from castsmith.ir.records import Site
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import type_name

# Errors of promotion with their place: the node, its operands, and where the type of each comes from.


def origin(value: onnx_ir.Value) -> str:
    """What gives the value: an input, an initializer, or the node that makes it."""
    node = value.producer()
    if node is not None:
        if node.op_type == "Constant":
            return "a Constant"
        return f"made by {node.name} ({node.op_type})" if node.name else f"made by {node.op_type}"
    if value.is_initializer():
        return "an initializer" + (" and input" if value.is_graph_input() else "")
    return "an input"


def operands_text(operands: Iterable[tuple[onnx_ir.Value | None, DataType]]) -> str:
    """`x (float, an input) and w (int64, made by mul (Mul))`."""
    return " and ".join(
        f"{value.name} ({type_name(dtype)}, {origin(value)})" if value is not None else type_name(dtype)
        for value, dtype in operands
    )


def located(
    site: Site, what: str, operands: Iterable[tuple[onnx_ir.Value | None, DataType]], error: PromotionError
) -> PromotionError:
    """The error with its place, its operands and their origins in front."""
    rule = f" [rule {error.rule}]" if error.rule else ""
    text = f"{site}: {what} {operands_text(operands)}: {str(error).rstrip('.')}{rule}."
    return PromotionError(text, lhs=error.lhs, rhs=error.rhs, rule=error.rule, option=error.option)


_MAX_ATTRIBUTE_CHARACTERS = 60


class Typed(Protocol):
    """What knows the types of values, as `castsmith.ir.inference.Inference` does."""

    types: dict[onnx_ir.Value, onnx_ir.DataType]


_INFERRED: ContextVar[tuple[weakref.ref[Typed], ...]] = ContextVar("castsmith_inferred_types", default=())


def node_text(node: onnx_ir.Node) -> str:
    """One line such as `y = Cast <to = float> (x)  # (int64[N]) -> float[N]`."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    attributes = ", ".join(
        f"{name} = {_shortened(attribute_text(attribute))}" for name, attribute in node.attributes.items()
    )
    call = f"{operator} <{attributes}>" if attributes else operator
    inputs = ", ".join(_operand_text(value) for value in node.inputs)
    outputs = ", ".join(_name(value) for value in node.outputs)
    takes = ", ".join(inferred_text(value) for value in node.inputs if value is not None)
    gives = ", ".join(inferred_text(value) for value in node.outputs)
    return f"{outputs} = {call} ({inputs})  # ({takes}) -> {gives}"


def nodes_text(nodes: Iterable[onnx_ir.Node]) -> str:
    return "\n".join(node_text(node) for node in nodes)


def show_types_of(*found: Typed) -> None:
    """Let nodes be shown with the types in `found`, as long as that lives, where their values declare none."""
    _INFERRED.set(tuple(weakref.ref(each) for each in found))


def inferred_text(value: onnx_ir.Value) -> str:
    """As `type_text`; the element type alone where the value declares none and it was inferred."""
    if value.dtype is None or value.dtype == onnx_ir.DataType.UNDEFINED:
        alive = (each for reference in _INFERRED.get() if (each := reference()) is not None)
        dtype = next((each.types[value] for each in alive if value in each.types), None)
        if dtype is not None and value.type is None:
            return type_name(dtype)
    return type_text(value)


def type_text(value: onnx_ir.Value) -> str:
    """The value's element type and shape as ONNX text writes them, such as `float[N, 4]`; `?` where unknown."""
    if value.dtype is None or value.dtype == onnx_ir.DataType.UNDEFINED:
        return "?" if value.type is None else str(value.type)
    dims = "" if value.shape is None else f"[{', '.join('?' if d is None else str(d) for d in _dims(value.shape))}]"
    return type_name(value.dtype) + dims


def constant_text(value: onnx_ir.Value) -> str:
    """A constant as ONNX text declares it, elided when long: `float[3] w = {1, 2.5, ...}`."""
    tensor = value.const_value
    if tensor is None:
        return f"{type_text(value)} {_name(value)}"
    if tensor.size <= 8:
        elements = ", ".join(str(element) for element in tensor.numpy().ravel().tolist())
    else:
        elements = f"... {tensor.size} elements ..."
    shape = ", ".join(str(d) for d in tensor.shape.numpy())
    return f"{type_name(tensor.dtype)}[{shape}] {_name(value)} = {{{elements}}}"


def site_of(node: onnx_ir.Node) -> Site:
    """Where the node stands."""
    graph = node.graph
    return Site(graph.name or "" if graph is not None else "", node.name or "", node.op_type)


def _dims(shape: onnx_ir.Shape) -> Iterable[int | str | None]:
    return (dim if isinstance(dim, int) else dim.value for dim in shape)


def _name(value: onnx_ir.Value | None) -> str:
    return "" if value is None else value.name or "?"


def _operand_text(value: onnx_ir.Value | None) -> str:
    """The name; of a constant with a single element the element too, since that is what a reader wants to see."""
    tensor = None if value is None else value.const_value
    if tensor is None or tensor.size != 1 or isinstance(tensor, onnx_ir.ExternalTensor):
        return _name(value)
    return f"{_name(value)} {{{tensor.numpy().ravel()[0]}}}"


def attribute_text(attribute: onnx_ir.Attr) -> str:
    """The value of the attribute; for a Cast's `to` the name of the type that its number stands for, if it is one."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    is_number = attribute.type == onnx_ir.AttributeType.INT
    if attribute.name == "to" and is_number and attribute.value in NUMBERS_OF_TYPES:
        return type_name(onnx_ir.DataType(attribute.as_int()))
    if attribute.type in (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS):
        return "{...}"
    return str(attribute.value)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ATTRIBUTE_CHARACTERS else text[: _MAX_ATTRIBUTE_CHARACTERS - 3] + "..."
