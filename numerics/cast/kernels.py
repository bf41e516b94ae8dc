"""Kernels for numba to compile: one loop over an array, each element read once and written once.

A kernel compiled for the types of its arrays serves several formats, whose facts are arguments. The loops have neither
branches nor tables, so that the compiler makes vector instructions of them. This module needs numba.

The type of each intermediate result is written out: numba computes with integers of 32 bits in 64 otherwise.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

_numba: Any = import_module("numba")
_u, _f, _d, _i, _l = np.uint32, np.float32, np.float64, np.int32, np.int64
_SIZE, _INFINITY, _QUIET = _u(0x7FFF_FFFF), _u(0x7F80_0000), _u(0x0040_0000)
_LEAST = _u(0x0080_0000)
"""Codes of float: the bits other than the sign, infinity, the bit that makes NaN quiet, the least normal number."""


@_numba.njit(nogil=True)
def _narrowed(bits: Any, facts: Any) -> Any:
    """Return the code of the float with the code `bits` in a format.

    `facts` are those of `narrow_facts`, or None for bfloat16, which has the exponents of float: its codes round alike.
    The compiler removes the branch that the type of `facts` excludes.
    """
    size = _u(bits & _SIZE)
    if facts is None:
        rounded = _u(bits + _u(_u(0x7FFF) + _u(_u(bits >> _u(16)) & _u(1))))
        return _u(_u(_u(bits | _QUIET) if size > _INFINITY else rounded) >> _u(16))
    shift, base, least, magic, limit, infinity, nan, payload, sign, zero = facts
    shift, sign = _u(shift & _u(31)), _u(sign & _u(31))  # tells the compiler that 32 bits suffice
    normal = _u(_u(size + base + _u(_u(size >> shift) & _u(1))) >> shift)
    # A sum with a number whose last bit is worth the format's least number is rounded to multiples of it: their count.
    small = _u(_f(_u(size).view(_f) + _u(magic).view(_f)).view(_u) - magic)
    code = min(normal if size >= least else small, limit)
    code = infinity if size == _INFINITY else code
    code = _u(nan | _u(_u(size >> shift) & payload)) if size > _INFINITY else code
    negative = _u(_u(bits >> _u(31)) << sign)
    return _u(code | (negative if _u(code | zero) != _u(0) else _u(0)))


@_numba.njit(nogil=True)
def _float_to_odd(number: Any) -> Any:
    """Return the code of the double rounded to odd: a float that rounds to at most 11 significant bits as it does."""
    nearest = _f(number)
    bits = _f(nearest).view(_u)
    bits = _u(bits - _u(abs(_d(nearest)) > abs(number)))
    return _u(bits | _u(_d(nearest) != number))


@_numba.njit(nogil=True)
def _truncated(number: Any, low: Any, high: Any, zero: Any) -> Any:
    """Return float or double as an integer from `low` to `high`, which int32 holds; NaN as 0."""
    inside = number if number == number else zero
    inside = inside if inside > low else low
    return _i(inside if inside < high else high)


def narrow_exact(values: Any, out: Any, facts: Any) -> None:
    """Narrow float, or integers that float holds."""
    for i in range(values.size):
        out[i] = _narrowed(_f(values[i]).view(_u), facts)


def narrow_bfloat16(codes: Any, out: Any, facts: Any) -> None:
    for i in range(codes.size):
        out[i] = _narrowed(_u(_u(codes[i]) << _u(16)), facts)


def narrow_inexact(values: Any, out: Any, facts: Any) -> None:
    """Narrow double, or integers that double holds."""
    for i in range(values.size):
        out[i] = _narrowed(_float_to_odd(_d(values[i])), facts)


def narrow_int32(values: Any, out: Any, facts: Any) -> None:
    """Narrow integers of 32 bits; where float does not hold one, its last 8 bits are rounded to odd first."""
    for i in range(values.size):
        value = values[i]
        last = _i(value & _i(0xFF))
        odd = _i(_i(value - last) | (_i(0x80) if last != 0 else _i(0)))
        fits = _i(value >> _i(24)) == _i(value >> _i(31))
        out[i] = _narrowed(_f(_i(value if fits else odd)).view(_u), facts)


def narrow_int64(values: Any, out: Any, facts: Any) -> None:
    """Narrow integers of 64 bits; where double does not hold one, its last 11 bits are rounded to odd first."""
    for i in range(values.size):
        value = values[i]
        last = value & _l(0x7FF)
        odd = (value - last) | (_l(0x400) if last != 0 else _l(0))
        fits = (value >> _l(53)) == (value >> _l(63))
        out[i] = _narrowed(_float_to_odd(_d(value if fits else odd)), facts)


def truncate(values: Any, out: Any, low: Any, high: Any, zero: Any) -> None:
    for i in range(values.size):
        out[i] = _truncated(values[i], low, high, zero)


def truncate_bfloat16(codes: Any, out: Any, low: Any, high: Any, zero: Any) -> None:
    for i in range(codes.size):
        out[i] = _truncated(_u(_u(codes[i]) << _u(16)).view(_f), low, high, zero)


def widen_bfloat16(codes: Any, out: Any) -> None:
    """Widen bfloat16 to float or double."""
    for i in range(codes.size):
        bits = _u(_u(codes[i]) << _u(16))
        bits = _u(bits | _QUIET) if _u(bits & _SIZE) > _INFINITY else bits
        out[i] = _u(bits).view(_f)


def widen(codes: Any, out: Any, facts: Any) -> None:
    """Widen a format of 16 bits to float or double; `facts` are those of `widen_facts`."""
    shift, bias, infinity = facts
    shift = _u(shift & _u(31))
    for i in range(codes.size):
        code = _u(codes[i])
        size = _u(_u(code & _u(0x7FFF)) << shift)
        normal = _u(size + bias)
        small = _f(_u(normal + _LEAST).view(_f) - _u(bias + _LEAST).view(_f)).view(_u)
        bits = normal if size >= _LEAST else small
        bits = _u(size | _INFINITY) if size >= infinity else bits
        bits = _u(bits | _QUIET) if size > infinity else bits
        out[i] = _u(bits | _u(_u(code & _u(0x8000)) << _u(16))).view(_f)
