"""The operands of QuantizeLinear and DequantizeLinear, checked against the schema of an opset.

Source: the schemas of both operators at opsets 10, 13, 19, 21, 23, 24, 25 and 28.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import whole_number
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import elements_of
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import ElementTypeError, QuantizeError
from castsmith.numerics.quantize.granularity import pieces, require_shapes
from castsmith.numerics.types import ELEMENT_TYPES, TypeLike, parse_type, type_name

FIRST_OPSET = 10
"""The opset that introduced both operators."""

_QUANTIZED: dict[DataType, int] = {
    dtype: row.since.quantized for dtype, row in ELEMENT_TYPES.items() if row.since.quantized is not None
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
"""The types of each input and output, with the first opset that allows them. The zero point has the quantized type."""

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


@dataclass(frozen=True, slots=True)
class Settings:
    """The opset and the attributes of a QuantizeLinear or DequantizeLinear, with the defaults of the schema.

    Attributes:
        axis: The axis of the slices, or of the blocks.
        block_size: Elements that share a scale; 0 for no blocks.
        saturate: Cast to a type of 8 bits or less with saturation.
        output_dtype: The type of the result, if no zero point and no scale states it.
        precision: The type in which QuantizeLinear divides.
    """

    opset: int = NEWEST_OPSET
    axis: int = 1
    block_size: int = 0
    saturate: bool = True
    output_dtype: TypeLike | None = None
    precision: TypeLike | None = None


def require_opset(op: str, opset: int) -> None:
    """Raise QuantizeError for an opset that does not have the operator, or is newer than the newest supported one."""
    if not FIRST_OPSET <= whole_number("opset", opset) <= NEWEST_OPSET:
        raise QuantizeError(f"unsupported opset {opset} for {op}; supported are {FIRST_OPSET} to {NEWEST_OPSET}.")


def require_attributes(op: str, settings: Settings) -> None:
    """Raise QuantizeError for an attribute that is not at its default and that the operator lacks at the opset."""
    for setting in fields(Settings)[1:]:
        first = ATTRIBUTES.get((op, setting.name))
        if getattr(settings, setting.name) == setting.default or (first is not None and settings.opset >= first):
            continue
        way_out = "" if first is None else f" at opset {settings.opset}; it needs opset {first} or newer"
        raise QuantizeError(f"{op} has no {setting.name}{way_out}.")


def require_type(op: str, place: str, dtype: DataType, opset: int) -> None:
    """Raise ElementTypeError for a type that the input or output `place` of the operator does not take at `opset`."""
    name, first = type_name(dtype), TYPES[op, place].get(dtype)
    if first is None:
        raise ElementTypeError(f"{op} does not support {name} as {place}.")
    if opset < first:
        raise ElementTypeError(
            f"{op} does not support {name} as {place} at opset {opset}; it needs opset {first} or newer."
        )


def division_type(x: DataType, scale: DataType, precision: DataType | None) -> DataType:
    """Return the type in which QuantizeLinear divides: `precision`, or the type of the scale.

    If that type cannot hold a quotient (int32, float8e8m0), it is the type of x, or double if x is int32 too: the
    quotient of two int32, rounded to double, rounds to the same integer and to the same value of every narrow type as
    the exact one.
    """
    if precision is not None:
        if precision not in PRECISIONS:
            names = ", ".join(type_name(dtype) for dtype in PRECISIONS)
            raise ElementTypeError(f"invalid precision {type_name(precision)} of the division; expected {names}.")
        return precision
    if scale in PRECISIONS:
        return scale
    if x in PRECISIONS:
        return x
    return DataType.DOUBLE if scale is DataType.INT32 else DataType.FLOAT


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one node, checked, and the types that follow from them.

    Attributes:
        compute: The type of the division or product.
        output: The type of the result.
        stated: True if an attribute fixes `compute`.
    """

    x: Array
    scale: Array
    zero_point: Array | None
    settings: Settings
    compute: DataType
    output: DataType
    stated: bool

    def pieces(self) -> Iterator[tuple[Array, Array, Array | None]]:
        """Yield parts of `x` in C order, each with the scales and the zero points of its elements."""
        parameters = [parameter for parameter in (self.scale, self.zero_point) if parameter is not None]
        for part, scale, *zero in pieces(self.x, self.settings.axis, self.settings.block_size, *parameters):
            yield part, scale, zero[0] if zero else None


def quantize_operands(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None, settings: Settings
) -> Operands:
    """Return the checked operands of a QuantizeLinear. Raises as `quantize_linear` does."""
    op, opset, precision = "QuantizeLinear", settings.opset, settings.precision
    require_opset(op, opset)
    require_attributes(op, settings)
    data, source = elements_of(x)
    divisor, scale_type = elements_of(scale)
    zero, output = _zero_and_type(op, zero_point, settings.output_dtype, DataType.UINT8)
    for place, dtype in (("x", source), ("y_scale", scale_type), ("y", output)):
        require_type(op, place, dtype, opset)
    if 19 <= opset < 23 and source is not scale_type:
        names = f"{type_name(source)} and {type_name(scale_type)}"
        raise QuantizeError(f"{op} at opset {opset} requires x and y_scale of one type, not {names}.")
    require_shapes(data, divisor, zero, settings.axis, settings.block_size)
    compute = division_type(source, scale_type, None if precision is None else parse_type(precision))
    return Operands(data, divisor, zero, settings, compute, output, precision is not None)


def dequantize_operands(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None, settings: Settings
) -> Operands:
    """Return the checked operands of a DequantizeLinear. Raises as `dequantize_linear` does."""
    op, stated = "DequantizeLinear", settings.output_dtype
    require_opset(op, settings.opset)
    require_attributes(op, settings)
    data, source = elements_of(x)
    factor, scale_type = elements_of(scale)
    zero, _ = _zero_and_type(op, zero_point, source, source)
    output = scale_type if stated is None else parse_type(stated)
    for place, dtype in (("x", source), ("x_scale", scale_type), ("y", output)):
        require_type(op, place, dtype, settings.opset)
    require_shapes(data, factor, zero, settings.axis, settings.block_size)
    return Operands(data, factor, zero, settings, output, output, stated is not None)


def _zero_and_type(
    op: str, zero_point: npt.ArrayLike | None, stated: TypeLike | None, default: DataType
) -> tuple[Array | None, DataType]:
    """Return the zero point and the quantized type, on which it and `stated` must agree."""
    wanted = None if stated is None else parse_type(stated)
    if zero_point is None:
        return None, wanted or default
    zero, dtype = elements_of(zero_point)
    if wanted is not None and wanted is not dtype:
        names = f"{type_name(dtype)} and not {type_name(wanted)}"
        raise QuantizeError(f"the zero point of a {op} has the quantized type; this one is {names}.")
    return zero, dtype
