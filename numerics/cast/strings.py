"""Numbers parsed from text and printed as text, by the string paragraphs of the Cast schema (opset 9 on).

Parsed: plain and scientific decimal, INF, +INF, -INF and NaN in any case; nothing else, not even surrounding blanks.
Printed: the shortest plain decimal that parses to the same number, NaN, INF and -INF, and a bool as 1 or 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_dtype, code_mask
from castsmith.numerics.cast.narrowing import narrow, widen
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.types import ElementType, Kind

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?inf|nan", re.IGNORECASE)
_BEYOND_64_BITS = 1e20


def is_number(text: str) -> bool:
    """True if the schema defines `text` as the literal of a number, infinity and NaN included."""
    return bool(_NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text))


def is_integer(text: str) -> bool:
    """True if `text` is a number with neither a fraction nor an exponent."""
    return bool(_INTEGER.fullmatch(text))


def fits(text: str, row: ElementType) -> bool:
    """True if the integer literal `text` is within the range of the integer type `row`."""
    return abs(float(text)) < _BEYOND_64_BITS and row.min <= int(Decimal(text)) <= row.max


def parse_codes(texts: Sequence[str], row: ElementType, policy: Policy) -> Array:
    """Return the codes of the numbers that `texts` spell, rounded once to `row`. Shape (len(texts),)."""
    if row.kind is Kind.INTEGER:
        integers = [parse_integer(text, row) & code_mask(row) for text in texts]
        return np.array(integers, code_dtype(row))
    if row.dtype is DataType.DOUBLE:
        nearest = [math.nan if not is_number(text) else float(text) for text in texts]
        return np.array(nearest, np.float64).view(np.uint64)
    values = parse_floats(texts)
    if row.kind is Kind.BOOLEAN:
        values[[not is_number(text) for text in texts]] = 0.0
    return narrow(values, row, policy)


def parse_floats(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the numbers that `texts` spell, rounded to odd for one later rounding; NaN for other text."""
    return np.array([_round_to_odd(text) for text in texts], np.float64)


def parse_integer(text: str, row: ElementType) -> int:
    """Return the number that `text` spells, truncated and clamped to the range of `row`; 0 for NaN and other text."""
    low, high = int(row.min), int(row.max)
    value = float(text) if is_number(text) else math.nan
    if math.isnan(value):
        return 0
    if abs(value) >= _BEYOND_64_BITS:
        return low if value < 0 else high
    whole = int(Decimal(text)) if value else 0
    return min(max(whole, low), high)


def print_codes(codes: Array, row: ElementType) -> npt.NDArray[np.object_]:
    """Return the numbers that `codes` of `row` stand for as an object array of str, one-dimensional like `codes`."""
    values = codes.view(row.dtype.numpy()) if row.dtype is DataType.FLOAT16 else widen(codes, row)
    printed = np.empty(codes.shape, object)
    printed[...] = [_print_float(value) if values.dtype.kind == "f" else str(int(value)) for value in values]
    return printed


def _print_float(value: np.float16 | np.float32 | np.float64) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return np.format_float_positional(value, unique=True, trim="-")


def _round_to_odd(text: str) -> float:
    nearest = float(text) if is_number(text) else math.nan
    if _SPECIAL.fullmatch(text) or math.isnan(nearest):
        return nearest
    if math.isinf(nearest):
        return math.copysign(math.nextafter(math.inf, 0.0), nearest)
    if nearest == 0.0:
        says_zero = not re.search("[1-9]", re.split("[eE]", text)[0])
        return nearest if says_zero else math.copysign(math.ulp(0.0), nearest)
    exact, held = Decimal(text), Decimal(nearest)
    if exact == held or np.float64(nearest).view(np.uint64) & np.uint64(1):
        return nearest
    return math.nextafter(nearest, math.inf if exact > held else -math.inf)
