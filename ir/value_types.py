"""The numbers that stand for element types, and changing the declared type of a value, and of no other."""

from __future__ import annotations

import copy

import onnx_ir
from onnx_ir import DataType

NUMBERS_OF_TYPES = frozenset(DataType)
"""What an attribute such as Cast's `to` may hold."""


def set_element_type(value: onnx_ir.Value, dtype: DataType) -> None:
    """Declare that the tensors of the value, or of a sequence of them, are of `dtype`.

    The value gets a type object of its own first: the clone of a model shares them with the original.
    """
    value.type = copy.deepcopy(value.type)
    value.dtype = dtype
