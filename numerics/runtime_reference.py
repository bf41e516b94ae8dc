"""What the reference evaluator of onnx 1.23 computes: the conversions of numpy and ml_dtypes, and a few steps before.

    to float8, saturating    clipped to the extremes first, infinity too at every opset; ml_dtypes' clip and cast
    to float8e8m0            the exponent bits of the float, so that signs are lost, subnormals round to one of two
                             values, infinity is NaN, and `saturate` only keeps the maximum from rounding up
    everything else          ml_dtypes by way of float, hence two roundings from double; numpy's printing

Source: `onnx/reference/ops/op_cast.py` and `onnx/numpy_helper.py`, functions `saturate_cast` and `to_float8e8m0`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.codec import Array
from castsmith.numerics.errors import CastError
from castsmith.numerics.types import FLOAT8_TYPES, type_name


def cast_as_reference(elements: Array, source: DataType, target: DataType, saturate: bool, round_mode: str) -> Array:
    """The result for contiguous `elements` of the type `source`, which is not `target`. Raises CastError."""
    try:
        return _convert(elements, target, saturate, round_mode)
    except (TypeError, ValueError, OverflowError) as error:
        names = f"{type_name(source)} to {type_name(target)}"
        raise CastError(f"The reference evaluator fails to cast {names}: {error}") from None


def _convert(elements: Array, target: DataType, saturate: bool, round_mode: str) -> Array:
    if target is DataType.STRING:
        return elements.astype(np.str_).astype(object)
    dtype: Any = target.numpy()
    if target is DataType.FLOAT8E8M0:
        return _to_e8m0(np.asarray(elements, np.float32), saturate, round_mode).view(dtype)
    if target in FLOAT8_TYPES and saturate:
        finfo: Any = ml_dtypes.finfo
        limits = finfo(dtype)
        return np.clip(elements, limits.min, limits.max).astype(dtype)
    return elements.astype(dtype)


def _to_e8m0(values: npt.NDArray[np.float32], saturate: bool, round_mode: str) -> npt.NDArray[np.uint8]:
    bits = values.view(np.uint32)
    exponent = (bits >> 23) & 0xFF
    if round_mode == "nearest":
        up = ((bits & 0x40_0000) != 0) & (((bits & 0x3F_FFFF) != 0) | (exponent > 0))
    else:
        up = ((bits & 0x7F_FFFF) != 0) & (round_mode == "up")
    up &= exponent != 0xFF
    if saturate:
        up &= exponent != 0xFE
    return (exponent + up).astype(np.uint8)
