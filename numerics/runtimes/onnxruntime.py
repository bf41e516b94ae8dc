"""The CPU Cast kernel of ONNX Runtime 1.32 on x86-64, each departure from the schema as one step.

to float8, float8e8m0, float16, bfloat16     by way of float: two roundings from double and wide integers
to int4, uint4, int2, uint2                  half away from zero, and the low bits of the int32
from float8 to bool                          true if any bit is set
from text                                    the C++ standard library's stod, stoll and stoull
to text                                      eight significant digits, as C's %.8g prints them
"""

from __future__ import annotations

import re

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_mask
from castsmith.numerics.cast.convert import cast, texts_of
from castsmith.numerics.cast.strings import is_number
from castsmith.numerics.errors import CastError
from castsmith.numerics.types import FLOAT8_TYPES, ElementType, Kind, element_type

_BY_WAY_OF_FLOAT = (*FLOAT8_TYPES, DataType.FLOAT8E8M0, DataType.FLOAT16, DataType.BFLOAT16)
_INTEGER_PREFIX = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_LEAST_INT32 = -(2.0**31)


def cast_as_onnxruntime(elements: Array, source: DataType, target: DataType, saturate: bool, round_mode: str) -> Array:
    """Return the cast of contiguous `elements` of the type `source` to another type. Raises CastError."""
    row = element_type(target)
    for facts in (element_type(source), row):
        if facts.kind is Kind.FLOATING and facts.bits < 8:
            raise CastError(f"onnxruntime has no Cast for {facts.name}.")
    if source is DataType.STRING:
        return _from_text(elements, target, saturate, round_mode)
    if target is DataType.STRING:
        return _to_text(elements, source)
    if row.kind is Kind.INTEGER and row.bits < 8 and element_type(source).kind is Kind.FLOATING:
        return _to_sub_byte(elements, row)
    if target is DataType.BOOL and element_type(source).bits == 8 and element_type(source).kind is Kind.FLOATING:
        return elements.view(np.uint8) != 0
    if target in _BY_WAY_OF_FLOAT:
        return _narrow(cast(elements, DataType.FLOAT), target, saturate, round_mode)
    return cast(elements, target)


def _narrow(values: Array, target: DataType, saturate: bool, round_mode: str) -> Array:
    result = cast(values, target, saturate=saturate, round_mode=round_mode)
    size = np.abs(values)
    if target is DataType.FLOAT8E4M3FN and not saturate:
        wrong = (size >= 480) & (size < 496)
        result.view(np.uint8)[wrong] ^= 1  # NaN 0x7f to the maximum 0x7e
    if target is DataType.FLOAT8E5M2 and not saturate:
        wrong = (size >= 61440) & (size < 65536)
        result.view(np.uint8)[wrong] |= 3  # infinity 0x7c to NaN 0x7f
    if target is DataType.FLOAT8E8M0 and saturate:
        result.view(np.uint8)[values < 0] = 0
    return result


def _to_sub_byte(elements: Array, row: ElementType) -> Array:
    wide = cast(elements, DataType.DOUBLE)
    whole = np.trunc(wide)
    whole += np.where(np.abs(wide - whole) >= 0.5, np.copysign(1, wide), 0)
    fits = (whole >= _LEAST_INT32) & (whole < -_LEAST_INT32)
    integers = np.where(fits, whole, _LEAST_INT32).astype(np.int64)
    return (integers & code_mask(row)).astype(np.uint8).view(row.dtype.numpy())


def _from_text(elements: Array, target: DataType, saturate: bool, round_mode: str) -> Array:
    texts = texts_of(elements)
    row = element_type(target)
    if row.kind <= Kind.INTEGER and (row.bits >= 8 or row.kind is Kind.BOOLEAN):
        whole = [_integer(text, row) for text in texts]
        wide = np.array([n % 2**64 for n in whole], np.uint64).reshape(elements.shape)
        return cast(wide, target)
    doubles = np.array([_double(text) for text in texts], np.float64).reshape(elements.shape)
    if target is DataType.DOUBLE:
        return doubles
    values = cast(doubles, DataType.FLOAT)
    if target is DataType.FLOAT:
        return values
    return cast_as_onnxruntime(values, DataType.FLOAT, target, saturate, round_mode)


def _integer(text: str, row: ElementType) -> int:
    """Parse as stoll and stoull do: leading digits are read, the rest is ignored; stoull lets a minus sign wrap."""
    match = _INTEGER_PREFIX.match(text)
    value = int(match[1]) if match else None
    low, high = (-(2**63), 2**63) if row.signed else (-(2**64) + 1, 2**64)
    if value is None or not low <= value < high:
        raise CastError(f"onnxruntime fails on the text {text!r} as {row.name}.")
    return value


def _double(text: str) -> float:
    if not is_number(text):
        raise CastError(
            f"the value that onnxruntime gives for the text {text!r}, which the schema does not define, is unknown."
        )
    value = float(text)
    tiny = float(np.finfo(np.float64).tiny)
    literal = text.lower().lstrip("+-") not in ("inf", "nan")
    if literal and (np.isinf(value) or (abs(value) < tiny and re.search("[1-9]", re.split("[eE]", text)[0]))):
        raise CastError(f"onnxruntime fails on the text {text!r}, which is out of range for double.")
    return value


def _to_text(elements: Array, source: DataType) -> Array:
    row = element_type(source)
    if row.kind is not Kind.FLOATING:
        return cast(elements, DataType.STRING)
    printed = np.empty(elements.shape, object)
    printed.reshape(-1)[:] = [_print(float(value)) for value in cast(elements, DataType.DOUBLE).reshape(-1)]
    return printed


def _print(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    return ("INF" if value > 0 else "-INF") if np.isinf(value) else f"{value:.8g}"
