"""Which types and attributes QuantizeLinear and DequantizeLinear have at which opset, and in what type they compute.

Source: the schemas of both operators at opsets 10, 13, 19, 21, 23, 24, 25 and 28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_ir import DataType

from castsmith.numerics.arguments import whole_number
from castsmith.numerics.errors import ElementTypeError, QuantizeError
from castsmith.numerics.opsets import NEWEST_OPSET
from castsmith.numerics.types import FLOAT8_TYPES, type_name

FIRST_OPSET = 10
"""The opset that brought both operators."""

_QUANTIZED: dict[DataType, int] = {
    **dict.fromkeys((DataType.INT8, DataType.UINT8), 10),
    **dict.fromkeys(FLOAT8_TYPES, 19),
    **dict.fromkeys((DataType.INT16, DataType.UINT16, DataType.INT4, DataType.UINT4), 21),
    DataType.FLOAT4E2M1: 23,
    **dict.fromkeys((DataType.INT2, DataType.UINT2), 25),
    **dict.fromkeys((DataType.FLOAT6E2M3, DataType.FLOAT6E3M2), 28),
}
_FULL: dict[DataType, int] = {DataType.FLOAT: 10, DataType.FLOAT16: 19, DataType.BFLOAT16: 19}

TYPES: dict[tuple[str, str], dict[DataType, int]] = {
    ("QuantizeLinear", "x"): {**_FULL, DataType.INT32: 10},
    ("QuantizeLinear", "y_scale"): {**_FULL, DataType.INT32: 19, DataType.FLOAT8E8M0: 24},
    ("QuantizeLinear", "y"): _QUANTIZED,
    ("DequantizeLinear", "x"): {**_QUANTIZED, DataType.INT32: 10},
    ("DequantizeLinear", "x_scale"): {**_FULL, DataType.FLOAT8E8M0: 24},
    ("DequantizeLinear", "y"): _FULL,
}
"""The types of each input and output, with the first opset that has them. The zero point has the quantized type."""

ATTRIBUTES: dict[tuple[str, str], int] = {
    ("QuantizeLinear", "axis"): 13,
    ("QuantizeLinear", "saturate"): 19,
    ("QuantizeLinear", "block_size"): 21,
    ("QuantizeLinear", "output_dtype"): 21,
    ("QuantizeLinear", "precision"): 23,
    ("DequantizeLinear", "axis"): 13,
    ("DequantizeLinear", "block_size"): 21,
    ("DequantizeLinear", "output_dtype"): 23,
}
"""The first opset at which the operator has each attribute."""

PRECISIONS = (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.DOUBLE)
"""Types in which a division can be carried out; the schema leaves the values of `precision` open."""

DEFAULTS: Mapping[str, Any] = {"axis": 1, "saturate": True, "block_size": 0, "output_dtype": None, "precision": None}


def require_opset(op: str, opset: int) -> None:
    """Raise QuantizeError for an opset that does not have the operator, or is newer than those known here."""
    if not FIRST_OPSET <= whole_number("opset", opset) <= NEWEST_OPSET:
        raise QuantizeError(f"{op} is known for the opsets {FIRST_OPSET} to {NEWEST_OPSET}, not for {opset}.")


def require_attributes(op: str, opset: int, **attributes: object) -> None:
    """Raise QuantizeError for an attribute that is not at its default and that the operator lacks at `opset`."""
    for name, value in attributes.items():
        first = ATTRIBUTES[op, name]
        if value != DEFAULTS[name] and opset < first:
            raise QuantizeError(f"{op} has no {name} at opset {opset}; opset {first} is the first that has it.")


def require_type(op: str, place: str, dtype: DataType, opset: int) -> None:
    """Raise ElementTypeError for a type that the input or output `place` of the operator does not take at `opset`."""
    name, first = type_name(dtype), TYPES[op, place].get(dtype)
    if first is None:
        raise ElementTypeError(f"{op} takes no {name} as {place}.")
    if opset < first:
        raise ElementTypeError(f"{op} takes no {name} as {place} at opset {opset}; opset {first} is the first.")


def division_type(x: DataType, scale: DataType, precision: DataType | None) -> DataType:
    """The type in which QuantizeLinear divides: `precision`, else the type of the scale.

    Where that can hold no quotient (int32, float8e8m0) it is the type of x, or double where that is int32 too: the
    quotient of two int32 rounds there to the integer, and to every narrow type, to which the exact one rounds.
    """
    if precision is not None:
        if precision not in PRECISIONS:
            names = ", ".join(type_name(dtype) for dtype in PRECISIONS)
            raise ElementTypeError(f"{type_name(precision)} is no precision to divide in; these are: {names}.")
        return precision
    if scale in PRECISIONS:
        return scale
    if x in PRECISIONS:
        return x
    return DataType.DOUBLE if scale is DataType.INT32 else DataType.FLOAT
