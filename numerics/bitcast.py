"""BitCast: the same bits under another element type.

Source: the BitCast schema of opset 26, which no later opset changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import whole_number
from castsmith.numerics.codec import Array, code_mask
from castsmith.numerics.elements import elements_of
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.opsets import NEWEST_OPSET
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type, parse_type

FIRST_OPSET = 26
"""The opset that brought BitCast."""

_NEWER_TYPES = (DataType.FLOAT6E2M3, DataType.FLOAT6E3M2)


def bit_cast(array: npt.ArrayLike, to: TypeLike, *, opset: int = NEWEST_OPSET) -> Array:
    """The elements of `array` with their bits read as `to`: a new array of its shape and of dtype `to.numpy()`.

    Takes any layout and byte order; the types of 2 and 4 bits lie in the low bits of a byte, and the bits above come
    out as zero. A bool is 8 bits, as the schema's uint8 has it. Raises ElementTypeError for text, float6 and types of
    another width, CastError for an opset without BitCast.
    """
    if not FIRST_OPSET <= whole_number("opset", opset) <= NEWEST_OPSET:
        raise CastError(f"BitCast is known for the opsets {FIRST_OPSET} to {NEWEST_OPSET}, not for {opset}.")
    elements, source = elements_of(array)
    from_row, to_row = element_type(source), element_type(parse_type(to))
    for row in (from_row, to_row):
        if row.kind is Kind.STRING or row.dtype in _NEWER_TYPES:
            raise ElementTypeError(f"BitCast does not take {row.name}.")
    if _width(from_row) != _width(to_row):
        raise ElementTypeError(
            f"BitCast needs types of the same width; {from_row.name} has {_width(from_row)} bits and "
            f"{to_row.name} has {_width(to_row)}."
        )
    copied = np.array(elements, dtype=elements.dtype.newbyteorder("="), order="C")
    if _width(from_row) < 8:
        codes = copied.view(np.uint8)
        codes &= code_mask(from_row)
    return copied.view(to_row.dtype.numpy())


def _width(row: ElementType) -> int:
    return 8 if row.kind is Kind.BOOLEAN else row.bits
