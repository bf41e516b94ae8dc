"""Steps of QONNX operators in standard ones, each with the bits that numpy gives in the qonnx executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.lowering.builder import Builder


def combine(build: Builder, op_type: str, lhs: onnx_ir.Value, rhs: onnx_ir.Value) -> onnx_ir.Value:
    """The operator in the type to which numpy promotes the two, as in QONNX's executor."""
    dtype = DataType.from_numpy(np.result_type(dtype_of(lhs).numpy(), dtype_of(rhs).numpy()))
    return build.op(op_type, build.cast(lhs, dtype), build.cast(rhs, dtype))


def add_zero_point(build: Builder, y: onnx_ir.Value, zero: onnx_ir.Value, known: NDArray[Any] | None) -> onnx_ir.Value:
    """y + zero_point. Adding zero turns -0 into +0, but optimizers drop an addition of zero: Where does it instead."""
    if known is None or known.any():
        return combine(build, "Add", y, zero)
    return build.op("Where", build.op("Equal", y, 0.0), 0.0, y)


def clip(build: Builder, y: onnx_ir.Value, lower: NDArray[Any], upper: NDArray[Any]) -> onnx_ir.Value:
    """QONNX clips with two selections, which leave NaN and -0 as they are; the Clip operator promises neither."""
    dtype = dtype_of(y).numpy()
    top, bottom = build.constant(upper.astype(dtype), "max"), build.constant(lower.astype(dtype), "min")
    y = build.op("Where", build.op("Greater", y, top), top, y)
    return build.op("Where", build.op("Less", y, bottom), bottom, y)


def dtype_of(value: onnx_ir.Value) -> DataType:
    tensor = constant_tensor(value)
    dtype = value.dtype if tensor is None else tensor.dtype
    return dtype or DataType.FLOAT  # QONNX: X is tensor(float32) where nothing else is declared
