"""Element types that attributes name, and types of values, nested as sequences and optional values are."""

from __future__ import annotations

import copy

import onnx_ir
from onnx_ir import DataType

NUMBERS_OF_TYPES = frozenset(DataType)
"""The allowed numbers of an attribute such as Cast's `to`."""
_TYPES = {int(dtype): dtype for dtype in DataType if dtype is not DataType.UNDEFINED}


Nesting = tuple[type[onnx_ir.SequenceType] | type[onnx_ir.OptionalType], ...]
"""How a value holds its tensors, from the outside in: `(OptionalType, SequenceType)` for an optional sequence."""


def named_type(attribute: onnx_ir.Attr) -> DataType | None:
    """Return the element type that the attribute names: by number, by name in Cast of opset 1, by a type in Optional.

    Returns None if it does not name a type, and for UNDEFINED.
    """
    if attribute.type == onnx_ir.AttributeType.STRING:
        dtype = DataType.__members__.get(str(attribute.value).upper())
    elif attribute.type == onnx_ir.AttributeType.TYPE_PROTO:
        dtype = None if attribute.value.type is None else attribute.value.type.dtype
    else:
        dtype = _TYPES.get(attribute.value) if attribute.type == onnx_ir.AttributeType.INT else None
    return None if dtype == DataType.UNDEFINED else dtype


def naming(attribute: onnx_ir.Attr, dtype: DataType) -> onnx_ir.Attr:
    """Return the attribute with another element type, in the form in which it names one."""
    name = attribute.name
    if attribute.type == onnx_ir.AttributeType.STRING:
        return onnx_ir.AttrString(name, dtype.name)
    if attribute.type == onnx_ir.AttributeType.TYPE_PROTO:
        declared = attribute.value
        return onnx_ir.AttrTypeProto(
            name, onnx_ir.TypeAndShape(with_element_type(declared.type, dtype), declared.shape)
        )
    return onnx_ir.AttrInt64(name, int(dtype))


def nesting_of(declared: onnx_ir.TypeProtocol | None) -> Nesting:
    """Return how a value of the type holds its tensors; empty for a tensor, and for an undeclared value."""
    wrappers: list[type[onnx_ir.SequenceType] | type[onnx_ir.OptionalType]] = []
    while isinstance(declared, onnx_ir.SequenceType | onnx_ir.OptionalType):
        wrappers.append(type(declared))
        declared = declared.elem_type
    return tuple(wrappers)


def nested_type(nesting: Nesting, dtype: DataType) -> onnx_ir.TypeProtocol:
    """Return the type of tensors of `dtype` that are held so."""
    declared: onnx_ir.TypeProtocol = onnx_ir.TensorType(dtype)
    for outer in reversed(nesting):
        declared = outer(declared)
    return declared


def with_element_type(declared: onnx_ir.TypeProtocol | None, dtype: DataType) -> onnx_ir.TypeProtocol:
    """Return a type of the same structure with elements of `dtype`; a tensor for an undeclared value.

    It is an object of its own: the clone of a model shares them with the original.
    """
    if declared is None:
        return onnx_ir.TensorType(dtype)
    changed = copy.deepcopy(declared)
    changed.dtype = dtype
    return changed


def set_element_type(value: onnx_ir.Value, dtype: DataType) -> None:
    """Declare that the tensors of the value, or in the sequence or optional value that it is, are of `dtype`."""
    value.type = with_element_type(value.type, dtype)
