"""Steps of QONNX operators in standard ones, each bit-identical to numpy in the qonnx executor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.lowering.builder import Builder

# Ends of the binades of QONNX's FloatQuant, which computes floor(log2(x)) in float, where log2 is rounded.
# Just below 2**k the logarithm rounds up to k, so that such a number has the exponent k. The nearest float below k is
# k - u, and the midpoint rounds to k, whose last digit is even: from x = 2**(k - u/2) on. That is n floats
# below 2**k, with (1 - n * 2**-24) >= 2**(-u/2). numpy 2 agrees at every k from -100 to 127, with and without AVX-512.
#     k    -100  -64  -16  -8  -2  -1  0  1  2  3  4  5  8  9  16  17  64  127
#     n      44   44   11   5   1   0  0  0  0  1  1  2  2  5   5  11  22   44

_DIGITS = 24


def floats_below(k: int) -> int:
    """Return the number of floats just below 2**k whose logarithm, in float, is k."""
    power = np.float32(k)
    half_step = (float(power) - float(np.nextafter(power, np.float32(-np.inf)))) / 2
    return math.floor(-math.expm1(-half_step * math.log(2)) * 2**_DIGITS)


def binade_ends(first: int, count: int) -> NDArray[np.float32]:
    """Return for each of `count` binades from 2**first on the x / 2**exponent from which it counts as the next."""
    ends = [2 - floats_below(k + 1) * 2.0 ** (1 - _DIGITS) for k in range(first, first + count)]
    return np.array(ends, np.float32)


def combine(build: Builder, op_type: str, lhs: onnx_ir.Value, rhs: onnx_ir.Value) -> onnx_ir.Value:
    """Add the operator in the type to which numpy promotes the two, as in QONNX's executor."""
    dtype = DataType.from_numpy(np.result_type(dtype_of(lhs).numpy(), dtype_of(rhs).numpy()))
    return build.op(op_type, build.cast(lhs, dtype), build.cast(rhs, dtype))


def with_zero_point(
    build: Builder, op_type: str, y: onnx_ir.Value, zero: onnx_ir.Value, elements: NDArray[Any] | None
) -> onnx_ir.Value:
    """Return y + zero_point, or y - zero_point for Sub.

    Adding +0, or subtracting -0, turns -0 into +0; other zeros change nothing. Optimizers drop an addition of zero:
    Where is used instead.
    """
    if elements is None or elements.any():
        return combine(build, op_type, y, zero)
    y = build.cast(y, DataType.from_numpy(np.result_type(dtype_of(y).numpy(), elements.dtype)))
    clears = np.signbit(elements) if op_type == "Sub" else ~np.signbit(elements)
    if not clears.any():
        return y
    is_zero = build.op("Equal", y, 0.0)
    if not clears.all():
        is_zero = build.op("And", is_zero, build.constant(clears, "clears"))
    return build.op("Where", is_zero, 0.0, y)


def clip(build: Builder, y: onnx_ir.Value, lower: NDArray[Any], upper: NDArray[Any]) -> onnx_ir.Value:
    """Clip by two selections as QONNX does, which keep NaN and -0; the Clip operator guarantees neither."""
    dtype = dtype_of(y).numpy()
    top, bottom = build.constant(upper.astype(dtype), "max"), build.constant(lower.astype(dtype), "min")
    y = build.op("Where", build.op("Greater", y, top), top, y)
    return build.op("Where", build.op("Less", y, bottom), bottom, y)


def dtype_of(value: onnx_ir.Value) -> DataType:
    tensor = constant_tensor(value)
    dtype = value.dtype if tensor is None else tensor.dtype
    return dtype or DataType.FLOAT  # QONNX: X is tensor(float32) where nothing else is declared
