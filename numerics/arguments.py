"""Argument checks of the public functions: by Python type first, then by value.

A value of the wrong Python type raises ArgumentTypeError, which is a TypeError; an unsupported value raises the error
that the caller names, which is a ValueError.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from castsmith.numerics.errors import ArgumentTypeError, CastsmithError, OptionError

_BOOLS: tuple[type, ...] = (bool, np.bool_)


def flag(name: str, value: object, error: type[CastsmithError]) -> bool:
    """Return `value` as a bool: True or False, or the 1 or 0 of an ONNX attribute."""
    if isinstance(value, _BOOLS):
        return bool(value)
    number = whole_number(name, value, "True or False")
    if number not in (0, 1):
        raise error(f"{name} must be True or False, not {number}.")
    return bool(number)


def whole_number(name: str, value: object, expected: str = "an integer") -> int:
    """Return `value` as an int; bools and floating-point numbers are not integers."""
    if not isinstance(value, _BOOLS):
        try:
            return operator.index(value)  # pyright: ignore[reportArgumentType]  # raises TypeError
        except TypeError:
            pass
    raise ArgumentTypeError(f"{name} must be {expected}, not {described(value)}.")


def text(name: str, value: object) -> str:
    """Return `value`, which must be a str."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be a str, not {described(value)}.")
    return value


def texts(name: str, value: object) -> frozenset[str]:
    """Return the texts of a collection; a text alone is one. Raises ArgumentTypeError for anything else."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return frozenset([text(name, value)])
    return frozenset(text(name, entry) for entry in cast("Iterable[object]", value))


def number(name: str, value: object, *, above: bool = False) -> float:
    """Return `value` as a finite float of at least 0, or with `above` of more than 0."""
    expected = "a number above 0" if above else "a number of at least 0"
    if not is_number(value):
        raise ArgumentTypeError(f"{name} must be {expected}, not {described(value)}.")
    if not 0 <= float(value) < math.inf or (above and not value):
        raise OptionError(f"{name} must be {expected}, not {value}.")
    return float(value)


def count(name: str, value: object, least: int = 0) -> int:
    """Return `value` as an int of at least `least`."""
    whole = whole_number(name, value)
    if whole < least:
        raise OptionError(f"{name} must be an integer of at least {least}, not {whole}.")
    return whole


def mapping(name: str, value: object) -> Mapping[Any, Any]:
    """Return `value`, which must be a mapping by names; an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f"{name} must map names, not be {described(value)}.")
    return cast("Mapping[Any, Any]", value)


def function(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is None, or can be called."""
    if value is not None and not callable(value):
        raise ArgumentTypeError(f"{name} must be a function, not {described(value)}.")


def as_array(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return `value` as an array; ArgumentTypeError if its rows have different lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ArgumentTypeError(f"{name} must be an array, not nested sequences of different lengths.") from None


def described(value: object) -> str:
    """Describe the kind of a value for a message: `None`, or `a float`."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def range_of(name: str, value: object) -> tuple[float, float]:
    """Return the ends of the range of a value: two finite numbers, the lower first."""
    ends = list(cast("Iterable[object]", value)) if isinstance(value, Iterable) else []
    if len(ends) != 2 or not all(is_number(end) for end in ends):
        raise ArgumentTypeError(
            f"invalid range {reprlib.repr(cast('object', value))} for {name}; expected two numbers."
        )
    low, high = (float(cast("float", end)) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise OptionError(f"invalid range {low:g}:{high:g} for {name}; expected two finite numbers, the lower first.")
    return low, high


def is_number(value: object) -> TypeGuard[Real]:
    """True for a number of Python or numpy."""
    return isinstance(value, Real)
