"""Input and output of the cast command: decimal text or code bits in, shortest text and code bits out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_dtype, code_mask
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.strings import fits, is_number
from castsmith.numerics.errors import CastError
from castsmith.numerics.status import Definedness, status_reason
from castsmith.numerics.types import ElementType, Kind, element_type

_CODE = re.compile(r"0x[0-9a-f]+", re.IGNORECASE)
_BOOLEANS = {"0": 0, "1": 1, "false": 0, "true": 1}


@dataclass(frozen=True)
class Conversion:
    """One cast, as text: codes are hexadecimal, empty for strings; `reason` is empty if the result is DEFINED."""

    text: str
    value: str
    code: str
    result: str
    result_code: str
    standing: str
    reason: str


def read_value(text: str, source: DataType) -> Array:
    """Return the scalar of type `source` in `text`: code bits after 0x, or a number rounded once to nearest even.

    Raises:
        CastError: The text is not a value of the type.
    """
    row = element_type(source)
    if row.kind is Kind.STRING:
        return np.array(text, dtype=object)
    if row.kind is Kind.COMPLEX:
        raise CastError(f"Cast does not support {row.name}.")
    if _CODE.fullmatch(text):
        return _from_code(text, row)
    if row.kind is Kind.BOOLEAN:
        if text.lower() not in _BOOLEANS:
            raise CastError(f"{text!r} is not a bool: write 0, 1, true or false.")
        return np.array(_BOOLEANS[text.lower()], np.bool_)
    if not is_number(text):
        raise CastError(f"{text!r} is not a number.")
    return _integer(text, row) if row.kind is Kind.INTEGER else _float(text, row)


def convert(text: str, value: Array, to: DataType, *, saturate: bool, round_mode: str, opset: int) -> Conversion:
    """Return the cast of the scalar `value`, whose text is given."""
    settings: dict[str, Any] = {"saturate": saturate, "round_mode": round_mode, "opset": opset}
    result = cast(value, to, **settings)
    finding = status_reason(value, to, **settings)
    standing = Definedness.DEFINED if finding is None else finding.standing
    reason = "" if finding is None else finding.reason
    return Conversion(text, shown(value), _code(value), shown(result), _code(result), standing.name, reason)


def _from_code(text: str, row: ElementType) -> Array:
    code = int(text, 16)
    if code > code_mask(row):
        raise CastError(f"{text} is not a code of {row.name}, which has {row.bits} bits.")
    if row.kind is Kind.INTEGER and row.signed and code >> (row.bits - 1):
        code |= 2 ** (8 * code_dtype(row).itemsize) - 2**row.bits  # numpy requires the sign in the unused bits too
    return np.array(code, code_dtype(row)).view(row.dtype.numpy())


def _integer(text: str, row: ElementType) -> Array:
    finite = any(character.isdigit() for character in text)
    if not finite or Decimal(text) != Decimal(text).to_integral_value():
        raise CastError(f"{text} is not an integer, so {row.name} does not hold it.")
    if not fits(text, row):
        raise CastError(f"{text} is out of range for {row.name}, which holds {row.min} to {row.max}.")
    code = int(Decimal(text)) & (2 ** (8 * code_dtype(row).itemsize) - 1)
    return np.array(code, code_dtype(row)).view(row.dtype.numpy())


def _float(text: str, row: ElementType) -> Array:
    settings: dict[str, Any] = {"round_mode": "nearest"}
    words = np.array(text, dtype=object)
    finding = status_reason(words, row.dtype, **settings)
    if finding is not None:
        raise CastError(f"{text} has no fixed value in {row.name}: {finding.reason}.")
    return cast(words, row.dtype, **settings)


def shown(value: Array) -> str:
    """Return the shortest text that round-trips for float and double; the exact number for narrower types."""
    if value.dtype == object:
        return repr(value.item())
    row = element_type(DataType.from_numpy(value.dtype))
    if row.kind is Kind.FLOATING and row.bits < 32:
        return repr(float(cast(value, DataType.DOUBLE).item()))
    return str(value[()])


def _code(value: Array) -> str:
    if value.dtype == object:
        return ""
    row = element_type(DataType.from_numpy(value.dtype))
    code = int(value.view(code_dtype(row)).item()) & code_mask(row)
    return f"0x{code:0{-(-row.bits // 4)}x}"
