"""Cast as a named runtime computes it, even if wrong, for folding what the standard leaves open as that runtime would.

    onnxruntime    the CPU kernel of ONNX Runtime 1.32, one Cast at a time, on x86-64
    reference      the reference evaluator of onnx 1.23, on numpy 2 and ml_dtypes 0.6

docs/numerics.md lists how each departs from the schema. A result that differs between the body
and the tail of a vectorised loop is not reproducible and is refused: a floating-point number out of range of an integer
of 8 bits or more. The sign and payload of a NaN also depend on the lane; here every NaN has the bits that `cast` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import check_cast, elements_of
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import CastError
from castsmith.numerics.runtimes.names import Runtime
from castsmith.numerics.runtimes.onnxruntime import cast_as_onnxruntime
from castsmith.numerics.status import status_reason
from castsmith.numerics.types import FLOAT8_TYPES, Kind, TypeLike, element_type, type_name

# The reference evaluator of onnx 1.23 computes the conversions of numpy and ml_dtypes, after a few steps:
#     to float8, saturating    clipped to the extremes first, infinity too at every opset; ml_dtypes' clip and cast
#     to float8e8m0            the exponent bits of the float, so that signs are lost, subnormals round to one of two
#                              values, infinity is NaN, and `saturate` only keeps the maximum from rounding up
#     everything else          ml_dtypes by way of float, hence two roundings from double; numpy's printing
# Source: `onnx/reference/ops/op_cast.py` and `onnx/numpy_helper.py`, functions `saturate_cast` and `to_float8e8m0`.


def cast_as_reference(elements: Array, source: DataType, target: DataType, saturate: bool, round_mode: str) -> Array:
    """Return the cast of contiguous `elements` of the type `source` to another type. Raises CastError."""
    try:
        return _convert(elements, target, saturate, round_mode)
    except (TypeError, ValueError, OverflowError) as error:
        names = f"{type_name(source)} to {type_name(target)}"
        raise CastError(f"the reference evaluator fails to cast {names}: {error}") from None


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


_Runtime = Callable[[Array, DataType, DataType, bool, str], Array]

_RUNTIMES: dict[Runtime, _Runtime] = {"onnxruntime": cast_as_onnxruntime, "reference": cast_as_reference}

RUNTIMES = get_args(Runtime)
"""The runtimes whose Cast can be reproduced."""


def cast_as(
    array: npt.ArrayLike,
    to: TypeLike,
    runtime: str,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> Array:
    """Return `array` in the element type `to` as the Cast of `runtime` computes it; other rules as in `cast`.

    Raises:
        CastError: The runtime is unknown; or it does not have the cast or its result is not reproducible, in which case
            the message names the first such element.
    """
    if runtime not in _RUNTIMES:
        raise CastError(f"unknown runtime {runtime!r}; expected {', '.join(RUNTIMES)}.")
    elements, source = elements_of(array)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    elements = elements.astype(elements.dtype.newbyteorder("="), order="C")
    if source is target:
        return elements
    from_row, to_row = element_type(source), element_type(target)
    if from_row.kind is Kind.FLOATING and to_row.kind is Kind.INTEGER and to_row.bits >= 8:
        reason = status_reason(elements, target, opset=opset)
        if reason is not None:  # between these types each reason is that of an undefined value
            raise CastError(
                f"the value that {runtime} gives for {reason.value} at {list(reason.index)} in {type_name(target)} "
                f"is not reproducible: {reason.reason}."
            )
    with np.errstate(all="ignore"):
        return _RUNTIMES[runtime](elements, source, target, saturate, round_mode)
