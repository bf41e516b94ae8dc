"""Element types and settings that Cast supports at each opset.

Source: the type constraints, attributes and float8 tables of the Cast schemas 1, 6, 9, 13, 19, 21, 23, 24, 25 and 28.
CastLike has the same types and tables at the opsets it shares with Cast: it has no version 28, and so no float6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from onnx_ir import DataType

from castsmith.numerics.arguments import text, whole_number
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import ELEMENT_TYPES, Kind, Specials, element_type, type_name

NEWEST_OPSET = 28
"""The newest opset whose Cast is supported; newer ones are refused, not guessed."""

ROUND_MODES = ("up", "down", "nearest")
"""Values of the attribute `round_mode`, which affects float8e8m0 only."""

FIRST_OPSET: dict[DataType, int] = {
    dtype: row.since.cast for dtype, row in ELEMENT_TYPES.items() if row.since.cast is not None
}
"""The first opset at which Cast takes each type, as input and as output alike. Complex types are absent."""

_FNUZ_INFINITY_SATURATES_FROM = 24


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a conversion; those that the target type ignores have their default values."""

    saturate: bool = True
    round_mode: str = "up"
    infinity_saturates: bool = True


@lru_cache(maxsize=1024)
def policy_for(to: DataType, *, saturate: bool, round_mode: str, opset: int) -> Policy:
    """Return the settings in force for casts to `to`.

    Settings that `to` does not distinguish give equal results, so that the result can be a cache key.
    """
    row = element_type(to)
    if row.kind is not Kind.FLOATING or row.bits != 8:
        return Policy()
    if row.specials is Specials.E8M0:
        return Policy(saturate, round_mode)
    old_fnuz = row.specials is Specials.FNUZ and opset < _FNUZ_INFINITY_SATURATES_FROM
    return Policy(saturate, infinity_saturates=saturate and not old_fnuz)


def require_settings(round_mode: str, opset: int) -> None:
    """Raise CastError for a rounding mode or an opset that Cast does not have."""
    opset = whole_number("opset", opset)
    if text("round_mode", round_mode) not in ROUND_MODES:
        raise CastError(f"unknown round_mode {round_mode!r}; expected {', '.join(ROUND_MODES)}.")
    if opset < 1:
        raise CastError(f"invalid opset {opset}; the first is 1.")
    if opset > NEWEST_OPSET:
        raise CastError(f"unsupported opset {opset}; the newest supported is {NEWEST_OPSET}.")


def require_type(dtype: DataType, opset: int) -> None:
    """Raise ElementTypeError if Cast at `opset` does not take `dtype`; the message names the first opset that does."""
    name, first = type_name(dtype), FIRST_OPSET.get(dtype)
    if first is None:
        raise ElementTypeError(f"Cast does not support {name}: its schema excludes complex types at every opset.")
    if opset < first:
        raise ElementTypeError(f"Cast does not support {name} at opset {opset}; it needs opset {first} or newer.")
