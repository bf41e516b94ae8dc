"""The numbers that stand for element types, and changing the declared type of a value, and of no other."""

from __future__ import annotations

import copy

import onnx_ir
from onnx_ir import DataType

NUMBERS_OF_TYPES = frozenset(DataType)
"""What an attribute such as Cast's `to` may hold."""


def named_type(attribute: onnx_ir.Attr) -> DataType | None:
    """The element type that the attribute names by its number, or in Cast of opset 1 by its name in TensorProto, in
    upper or lower case; None where it names none, and for UNDEFINED."""
    if attribute.type == onnx_ir.AttributeType.STRING:
        name = str(attribute.value).upper()
        found = DataType[name] if name in DataType.__members__ else None
    else:
        found = DataType(attribute.value) if attribute.value in NUMBERS_OF_TYPES else None
    return None if found == DataType.UNDEFINED else found


def set_element_type(value: onnx_ir.Value, dtype: DataType) -> None:
    """Declare that the tensors of the value, or of a sequence of them, are of `dtype`.

    The value gets a type object of its own first: the clone of a model shares them with the original.
    """
    value.type = copy.deepcopy(value.type)
    value.dtype = dtype
