"""Quotients, products and sums in a floating-point type of ONNX, each rounded once, on arrays that broadcast.

Operands are first rounded to the type. float and double are numpy's own. A quotient, product or sum of two numbers of
at most 11 bits is rounded to double on its way: that cannot move it onto a tie of theirs, since a quotient off a tie is
off by more than double's rounding, and the product and the sum of zero points are exact there.

The NaN that an invalid operation makes (0/0, infinity times 0) is positive; processors differ on its sign.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast import cast
from castsmith.numerics.codec import Array


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
