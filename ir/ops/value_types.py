"""Numbers of element types in attributes, and changes of the declared type of a single value."""

from __future__ import annotations

import copy

import onnx_ir
from onnx_ir import DataType

NUMBERS_OF_TYPES = frozenset(DataType)
"""The allowed numbers of an attribute such as Cast's `to`."""
_TYPES = {int(dtype): dtype for dtype in DataType if dtype is not DataType.UNDEFINED}


def named_type(attribute: onnx_ir.Attr) -> DataType | None:
    """Return the element type that the attribute names by number, or in Cast of opset 1 by name, in any case.

    Returns None if it does not name a type, and for UNDEFINED.
    """
    if attribute.type == onnx_ir.AttributeType.STRING:
        found = DataType.__members__.get(str(attribute.value).upper())
        return None if found == DataType.UNDEFINED else found
    return _TYPES.get(attribute.value)


def set_element_type(value: onnx_ir.Value, dtype: DataType) -> None:
    """Declare that the tensors of the value, or of a sequence of them, are of `dtype`.

    The value gets a type object of its own first: the clone of a model shares them with the original.
    """
    value.type = copy.deepcopy(value.type)
    value.dtype = dtype
