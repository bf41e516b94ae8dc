"""Argument checks of the public functions: by Python type first, then by value.

A value of the wrong Python type raises ArgumentTypeError, which is a TypeError; an unsupported value raises the error
that the caller names, which is a ValueError.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from castsmith.numerics.errors import ArgumentTypeError, CastsmithError

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


def as_array(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return `value` as an array; ArgumentTypeError if its rows have different lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ArgumentTypeError(f"{name} must be an array, not nested sequences of different lengths.") from None


def described(value: object) -> str:
    """Describe the kind of a value for a message: `None`, or `a float`."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
