"""The operands of QuantizeLinear and DequantizeLinear, checked against the schema of an opset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics import quantized
from castsmith.numerics.codec import Array
from castsmith.numerics.elements import elements_of
from castsmith.numerics.errors import QuantizeError
from castsmith.numerics.granularity import Box, pieces, require_shapes
from castsmith.numerics.types import TypeLike, parse_type, type_name


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one node, checked, and the types that follow from them.

    `compute` is the type of the division or product, `output` that of the result; `stated` says that an attribute
    fixes `compute`.
    """

    x: Array
    scale: Array
    zero_point: Array | None
    axis: int
    block_size: int
    compute: DataType
    output: DataType
    stated: bool

    def pieces(self) -> Iterator[tuple[Box, Array, Array | None]]:
        """The boxes that `x` falls into, each with the scale and the zero point of its elements."""
        if self.zero_point is None:
            for box, (scale,) in pieces(self.x, self.axis, self.block_size, self.scale):
                yield box, scale, None
            return
        for box, (scale, zero) in pieces(self.x, self.axis, self.block_size, self.scale, self.zero_point):
            yield box, scale, zero


def quantize_operands(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None,
    *,
    axis: int,
    block_size: int,
    saturate: bool,
    output_dtype: TypeLike | None,
    precision: TypeLike | None,
    opset: int,
) -> Operands:
    """The operands of a QuantizeLinear, checked. Raises as `quantize_linear` does."""
    op = "QuantizeLinear"
    quantized.require_opset(op, opset)
    quantized.require_attributes(
        op, opset, axis=axis, block_size=block_size, saturate=saturate, output_dtype=output_dtype, precision=precision
    )
    data, source = elements_of(x)
    divisor, scale_type = elements_of(scale)
    zero, output = _zero_and_type(op, zero_point, output_dtype, DataType.UINT8)
    for place, dtype in (("x", source), ("y_scale", scale_type), ("y", output)):
        quantized.require_type(op, place, dtype, opset)
    if 19 <= opset < 23 and source is not scale_type:
        names = f"{type_name(source)} and {type_name(scale_type)}"
        raise QuantizeError(f"{op} at opset {opset} wants x and y_scale of one type, not {names}.")
    require_shapes(data, divisor, zero, axis, block_size)
    compute = quantized.division_type(source, scale_type, None if precision is None else parse_type(precision))
    return Operands(data, divisor, zero, axis, block_size, compute, output, precision is not None)


def dequantize_operands(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None,
    *,
    axis: int,
    block_size: int,
    output_dtype: TypeLike | None,
    opset: int,
) -> Operands:
    """The operands of a DequantizeLinear, checked. Raises as `dequantize_linear` does."""
    op = "DequantizeLinear"
    quantized.require_opset(op, opset)
    quantized.require_attributes(op, opset, axis=axis, block_size=block_size, output_dtype=output_dtype)
    data, source = elements_of(x)
    factor, scale_type = elements_of(scale)
    zero, _ = _zero_and_type(op, zero_point, source, source)
    output = scale_type if output_dtype is None else parse_type(output_dtype)
    for place, dtype in (("x", source), ("x_scale", scale_type), ("y", output)):
        quantized.require_type(op, place, dtype, opset)
    require_shapes(data, factor, zero, axis, block_size)
    return Operands(data, factor, zero, axis, block_size, output, output, output_dtype is not None)


def _zero_and_type(
    op: str, zero_point: npt.ArrayLike | None, stated: TypeLike | None, default: DataType
) -> tuple[Array | None, DataType]:
    """The zero point and the quantized type, which it and `stated` must agree on."""
    wanted = None if stated is None else parse_type(stated)
    if zero_point is None:
        return None, wanted or default
    zero, dtype = elements_of(zero_point)
    if wanted is not None and wanted is not dtype:
        names = f"{type_name(dtype)} and not {type_name(wanted)}"
        raise QuantizeError(f"The zero point of a {op} has the quantized type; this one is {names}.")
    return zero, dtype
