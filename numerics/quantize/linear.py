"""QuantizeLinear and DequantizeLinear, element by element.

    quantize      q = x / y_scale, rounded once to the type in which the division is carried out
                  integers   saturate(rne(q) + y_zero_point), the sum exact
                  floats     Cast(q + y_zero_point), with the attribute `saturate` of Cast
    dequantize    y = (x - x_zero_point) * x_scale, the difference rounded once to the output's type, and the product

Both operands of a division or product are first rounded to the type in which it is carried out. float and double use
numpy's arithmetic. A quotient, product or sum of two numbers of at most 11 bits is computed in double and then rounded:
the first rounding cannot reach a tie of the narrower type, since a quotient that is not a tie differs from it by more
than double's rounding, and the product and the sum of zero points are exact in double. The NaN of an invalid operation
(0/0, infinity times 0) is positive, and of two NaN the first is passed on; processors differ on both.

`judge_quantize` reports where another reading of the schema, or a runtime, gives a different result.

Source: the schemas of both operators at opsets 10 to 28; `castsmith.numerics.quantize.schema` has their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.narrowing import narrow
from castsmith.numerics.cast.settings import NEWEST_OPSET, Policy
from castsmith.numerics.quantize.schema import Operands, Settings, dequantize_operands, quantize_operands
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type


def quotient(x: Array, y: Array, dtype: DataType) -> Array:
    """Return x / y in `dtype`, which is float16, bfloat16, float or double; operands of any numeric type."""
    return _operate(np.divide, cast(x, dtype), cast(y, dtype), dtype)


def product(x: Array, y: Array, dtype: DataType) -> Array:
    """Return x * y in `dtype`, like `quotient`."""
    return _operate(np.multiply, cast(x, dtype), cast(y, dtype), dtype)


def add(x: Array, y: Array, dtype: DataType) -> Array:
    """Return x + y in `dtype`, like `quotient`."""
    return _operate(np.add, cast(x, dtype), cast(y, dtype), dtype)


def difference(x: Array, y: Array | None) -> Array:
    """Return x - y in double, exact for integers of 32 bits and for types of at most 8 bits; `x` if `y` is None."""
    left = cast(x, DataType.DOUBLE)
    return left if y is None else _operate(np.subtract, left, cast(y, DataType.DOUBLE), DataType.DOUBLE)


def _operate(operation: Callable[[Array, Array], Array], x: Array, y: Array, dtype: DataType) -> Array:
    native = dtype in (DataType.FLOAT, DataType.DOUBLE)
    if np.isnan(y).any():  # which of two NaN is passed on depends on the processor: here it is the first
        y = np.where(np.isnan(x) & np.isnan(y), np.ones((), y.dtype), y)
    result = operation(x, y) if native else cast(operation(x.astype(np.float64), y.astype(np.float64)), dtype)
    undefined = np.isnan(result)
    if undefined.any():
        undefined &= ~(np.isnan(x) | np.isnan(y))
        result[undefined] = np.nan
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
    """Compute QuantizeLinear of `opset`.

    Args:
        x: The array to quantize, of any shape.
        scale: A scalar, a vector along `axis`, or one number for each block of `block_size` along it.
        zero_point: The zero points, in the shape of `scale`; its type is the quantized type.
        output_dtype: The quantized type if there is no `zero_point`; uint8 if neither is given.

    Returns:
        A new array of the shape of `x` and the quantized type. What the schema leaves open is fixed here: NaN counts as
        0 if the output is an integer. Numpy emits no warnings.

    Raises:
        ElementTypeError: The operator does not support a type at `opset`.
        QuantizeError: The shapes do not fit together, or the opset does not have an attribute.
    """
    settings = Settings(opset, axis, block_size, saturate, output_dtype, precision)
    operands = quantize_operands(x, scale, zero_point, settings)
    return _joined(operands, _quantized(operands))


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
    """Compute DequantizeLinear of `opset`; arguments and errors as in `quantize_linear`.

    Returns:
        A new array of the shape of `x`, of `output_dtype` or of the type of `scale`. A scale of float8e8m0 requires
        `output_dtype`.
    """
    settings = Settings(opset, axis, block_size, output_dtype=output_dtype)
    operands = dequantize_operands(x, scale, zero_point, settings)
    return _joined(operands, _dequantized(operands))


def quantized_pieces(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None = None, **settings: Any
) -> Iterator[Array]:
    """Yield the elements of `quantize_linear` with the same arguments in C order, in one-dimensional arrays."""
    return _quantized(quantize_operands(x, scale, zero_point, Settings(**settings)))


def dequantized_pieces(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None = None, **settings: Any
) -> Iterator[Array]:
    """Yield the elements of `dequantize_linear` as `quantized_pieces` does."""
    return _dequantized(dequantize_operands(x, scale, zero_point, Settings(**settings)))


def _quantized(operands: Operands) -> Iterator[Array]:
    for part, divisor, zero in operands.pieces():
        with np.errstate(all="ignore"):
            quantized = quantize_piece(part, divisor, zero, operands, operands.compute)
        yield quantized.reshape(-1)


def _dequantized(operands: Operands) -> Iterator[Array]:
    for part, factor, zero in operands.pieces():
        with np.errstate(all="ignore"):
            dequantized = product(difference(part, zero), factor, operands.compute)
        yield dequantized.reshape(-1)


def _joined(operands: Operands, parts: Iterable[Array]) -> Array:
    result, end = np.empty(operands.x.size, operands.output.numpy()), 0
    for part in parts:
        result[end : end + part.size] = part
        end += part.size
    return result.reshape(operands.x.shape)


def quantize_piece(x: Array, scale: Array, zero: Array | None, operands: Operands, compute: DataType) -> Array:
    """Compute the QuantizeLinear of arrays that broadcast against each other, with the division in `compute`."""
    row, divided = element_type(operands.output), quotient(x, scale, compute)
    if row.kind is Kind.INTEGER:
        return _to_integer(divided, zero, row)
    total = divided if zero is None else add(divided, zero, compute)
    return cast(total, operands.output, saturate=operands.settings.saturate, opset=operands.settings.opset)


def _to_integer(divided: Array, zero: Array | None, row: ElementType) -> Array:
    rounded = np.rint(divided.astype(np.float64))
    rounded[np.isnan(rounded)] = 0
    if zero is not None:
        # Exact if the sum is in range.
        rounded += cast(zero, DataType.DOUBLE)
    return narrow(rounded, row, Policy()).view(row.dtype.numpy())
