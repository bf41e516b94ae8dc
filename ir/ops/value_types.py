"""Numbers of element types in attributes, and changes of the declared type of a single value."""

from __future__ import annotations

import copy

import onnx_ir
from onnx_ir import DataType

NUMBERS_OF_TYPES = frozenset(DataType)
"""The allowed numbers of an attribute such as Cast's `to`."""


def named_type(attribute: onnx_ir.Attr) -> DataType | None:
    """Return the element type that the attribute names by number, or in Cast of opset 1 by name, in any case.

    Returns None if it does not name a type, and for UNDEFINED.
    """
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
