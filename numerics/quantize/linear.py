"""QuantizeLinear and DequantizeLinear, element by element.

    quantize      q = x / y_scale, rounded once to the type in which the division is carried out
                  integers   saturate(rne(q) + y_zero_point), the sum exact
                  floats     Cast(q + y_zero_point), with `saturate` as Cast has it
    dequantize    y = (x - x_zero_point) * x_scale, the difference rounded once to the output's type, and the product

Both operands of a division or product are first rounded to the type in which it is carried out. `quantize_status` says
where another reading of the schema, or a runtime, gives something else.

Source: the schemas of both operators at opsets 10 to 28; `castsmith.numerics.quantize.schema` has their types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast import NEWEST_OPSET, Array, Policy, cast, narrow
from castsmith.numerics.quantize.granularity import folded
from castsmith.numerics.quantize.schema import dequantize_operands, quantize_operands
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type

# Quotients, products and sums in a floating-point type of ONNX, each rounded once, on arrays that broadcast.
#
# Operands are first rounded to the type. float and double are numpy's own. A quotient, product or sum of two numbers of
# at most 11 bits is rounded to double on its way: that cannot move it onto a tie of theirs, since a quotient off a tie
# is
# off by more than double's rounding, and the product and the sum of zero points are exact there.
#
# The NaN that an invalid operation makes (0/0, infinity times 0) is positive; processors differ on its sign.


def quotient(x: Array, y: Array, dtype: DataType) -> Array:
    """x / y in `dtype`, which is float16, bfloat16, float or double; operands of any numeric type."""
    return _operate(np.divide, cast(x, dtype), cast(y, dtype), dtype)


def product(x: Array, y: Array, dtype: DataType) -> Array:
    """x * y in `dtype`, as `quotient`."""
    return _operate(np.multiply, cast(x, dtype), cast(y, dtype), dtype)


def add(x: Array, y: Array, dtype: DataType) -> Array:
    """x + y in `dtype`, as `quotient`."""
    return _operate(np.add, cast(x, dtype), cast(y, dtype), dtype)


def difference(x: Array, y: Array | None) -> Array:
    """x - y in double, which is exact for integers of 32 bits and for the types of at most 8; `x` where `y` is None."""
    left = cast(x, DataType.DOUBLE)
    return left if y is None else _operate(np.subtract, left, cast(y, DataType.DOUBLE), DataType.DOUBLE)


def _operate(operation: Callable[[Array, Array], Array], x: Array, y: Array, dtype: DataType) -> Array:
    native = dtype in (DataType.FLOAT, DataType.DOUBLE)
    result = operation(x, y) if native else cast(operation(x.astype(np.float64), y.astype(np.float64)), dtype)
    made = np.isnan(result)
    if made.any():
        made &= ~(np.isnan(x) | np.isnan(y))
        result[made] = np.nan
    return result


def quantize_linear(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    saturate: bool = True,
    output_dtype: TypeLike | None = None,
    precision: TypeLike | None = None,
    opset: int = NEWEST_OPSET,
) -> Array:
    """QuantizeLinear of `opset`: a new array of the shape of `x` and the quantized type.

    That type is the one of `zero_point`, else `output_dtype`, else uint8. `scale` and `zero_point` are scalars, vectors
    along `axis`, or hold one number for each block of `block_size` along it. What the schema leaves open is fixed here:
    NaN counts as 0 where the output is an integer. Numpy never warns.

    Raises ElementTypeError for a type that the operator does not take at `opset`, QuantizeError for shapes that do not
    fit together and attributes that the opset does not have.
    """
    given = quantize_operands(
        x,
        scale,
        zero_point,
        axis=axis,
        block_size=block_size,
        saturate=saturate,
        output_dtype=output_dtype,
        precision=precision,
        opset=opset,
    )
    result = np.empty(given.x.shape, given.output.numpy())
    source, out = folded(given.x, given.scale, axis), folded(result, given.scale, axis)
    with np.errstate(all="ignore"):
        for box, divisor, zero in given.pieces():
            out[box] = quantize_piece(source[box], divisor, zero, given.compute, given.output, saturate, opset)
    return result


def dequantize_linear(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: TypeLike | None = None,
    opset: int = NEWEST_OPSET,
) -> Array:
    """DequantizeLinear of `opset`: a new array of the shape of `x`, of `output_dtype`, else of the type of `scale`.

    `scale` and `zero_point` as in `quantize_linear`, and the errors too. A scale of float8e8m0 needs `output_dtype`.
    """
    given = dequantize_operands(
        x, scale, zero_point, axis=axis, block_size=block_size, output_dtype=output_dtype, opset=opset
    )
    result = np.empty(given.x.shape, given.output.numpy())
    source, out = folded(given.x, given.scale, axis), folded(result, given.scale, axis)
    with np.errstate(all="ignore"):
        for box, factor, zero in given.pieces():
            out[box] = product(difference(source[box], zero), factor, given.compute)
    return result


def quantize_piece(
    x: Array, scale: Array, zero: Array | None, compute: DataType, output: DataType, saturate: bool, opset: int
) -> Array:
    """QuantizeLinear of arrays that broadcast against each other, the division carried out in `compute`."""
    row, divided = element_type(output), quotient(x, scale, compute)
    if row.kind is Kind.INTEGER:
        return _to_integer(divided, zero, row)
    total = divided if zero is None else add(divided, zero, compute)
    return cast(total, output, saturate=saturate, opset=opset)


def _to_integer(divided: Array, zero: Array | None, row: ElementType) -> Array:
    rounded = np.rint(divided.astype(np.float64))
    rounded[np.isnan(rounded)] = 0
    if zero is not None:
        # Exact wherever the sum is not out of range anyway.
        rounded += cast(zero, DataType.DOUBLE)
    return narrow(rounded, row, Policy()).view(row.dtype.numpy())
