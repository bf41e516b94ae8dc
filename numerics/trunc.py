"""QONNX Trunc, both versions: cut the low bits off integers that a scale and a zero point carry as real numbers.

    version 1    q = rne(x/scale + zero_point);  t = 2**(in_bitwidth - out_bitwidth)
                 y = (round(q/t) - zero_point) * scale
    version 2    q = rne(x/scale + zero_point);  t = 2**rne(log2(out_scale/scale))
                 y = (round(clip(q/t, MIN, MAX)) - zero_point/t) * out_scale

Version 1 neither clips nor rescales the zero point, and stays at the input's scale. Version 2 does not use
`in_bitwidth`. Every step is numpy's own, in the type that numpy promotes to, because that is what qonnx does and the
bits are to be the same: float32 stays float32 as long as no parameter is float64. An integer array of bit widths makes
version 1 float64 (2.0**int), and so does a Python float as a scale in version 2 (log2 of it), just as there.

One thing is not copied: qonnx computes MIN and MAX in the type of `out_bitwidth`, where 2**32 - 1 of an int32 wraps to
-1 and 2**25 - 1 of a float32 rounds. Here they are the numbers that QONNX documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from castsmith.numerics.arguments import flag, text, whole_number
from castsmith.numerics.errors import ArgumentTypeError, TruncError

# The seven rounding modes of QONNX, to an integer in the array's own type.
#
# Source: `resolve_rounding_mode` of qonnx 1.0.0; the formulas are its own, so that the sign of a zero is its own too.
#
#     x            -2.5  -1.5  -0.5   0.5   1.5   2.5
#     ROUND          -2    -2    -0     0     2     2    half to even; HALF_EVEN is another name
#     HALF_UP        -3    -2    -1     1     2     3    half away from zero
#     HALF_DOWN      -2    -1    -0     0     1     2    half toward zero
#     FLOOR          -3    -2    -1     0     1     2
#     CEIL           -2    -1    -0     1     2     3
#     UP             -3    -2    -1     1     2     3    away from zero
#     DOWN           -2    -1    -0     0     1     2    toward zero

Array = NDArray[Any]
Rounding = Callable[[Array], Array]


def _up(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x))


def _half_up(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _half_down(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x) - 0.5)


ROUNDING_MODES: dict[str, Rounding] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": _up,
    "DOWN": np.trunc,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
"""Each mode under its name in capitals."""


def rounding_function(mode: str) -> Rounding:
    """Return the rounding named `mode`, in any case. Raises TruncError, which names the mode, for any other."""
    try:
        return ROUNDING_MODES[text("rounding_mode", mode).upper()]
    except KeyError:
        known = ", ".join(ROUNDING_MODES)
        raise TruncError(f"Rounding mode {mode!r} is not one of QONNX: {known}.") from None


_WIDEST = 1023  # the largest b whose 2.0**b is a finite float64


def trunc(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    in_bitwidth: ArrayLike,
    out_bitwidth: ArrayLike,
    out_scale: ArrayLike | str | None = None,
    *positional: ArrayLike | str,
    rounding_mode: str | None = None,
    signed: bool = True,
    narrow: bool = False,
    version: int | None = None,
) -> Array:
    """Truncate `x` with parameters that broadcast against it: scalars, or arrays for one value a channel.

    x, scale, zero_point, in_bitwidth, out_bitwidth: the operands of both versions.
    out_scale: the operand that version 2 alone has.
    rounding_mode: ROUND (half to even), CEIL, FLOOR, UP, DOWN, HALF_UP or HALF_DOWN, in any case; FLOOR by
        default. It may also stand behind the operands.
    signed, narrow: which integers version 2 clips to; version 1 has no clip.
    version: 1 or 2; by default 2 where `out_scale` is given, else 1.

    The calls of the QONNX documents work as they stand there:

        trunc(x, scale, zeropt, in_bitwidth, out_bitwidth, "ROUND")
        trunc(x, scale, zeropt, in_bitwidth, narrow, signed, out_scale, out_bitwidth, "ROUND")

    Raises TruncError for an unknown mode or version, for an `out_scale` that does not fit the version, for a bit width
    that is not an integer of at least 1, and for shapes that do not broadcast; ArgumentTypeError for an argument of
    the wrong Python type.
    Source: qonnx 1.0.0, `custom_op/general/trunc.py`, whose bits it gives.
    """
    others: list[Any] = [each for each in (out_scale, *positional) if each is not None]
    if others and isinstance(others[-1], str):
        if rounding_mode is not None:
            raise ArgumentTypeError("trunc got rounding_mode twice: behind the operands and by its name.")
        rounding_mode = cast("str", others.pop())
    if len(others) == 3:  # as the document of version 2 has it: narrow and signed stand ahead of out_scale
        narrow, signed, out_scale, out_bitwidth = cast("Any", (out_bitwidth, *others))
    elif len(others) < 2:
        out_scale = others[0] if others else None
    else:
        raise ArgumentTypeError("trunc takes 5 operands, or 6 with out_scale, and then rounding_mode.")
    signed, narrow = flag("signed", signed, TruncError), flag("narrow", narrow, TruncError)
    _require_version(version, out_scale)
    nearest = rounding_function("ROUND")
    to_integer = rounding_function("FLOOR" if rounding_mode is None else rounding_mode)
    data, multiplier, zero = _operand("x", x), _operand("scale", scale), _operand("zero_point", zero_point)
    from_width, to_width = _bit_width("in_bitwidth", in_bitwidth), _bit_width("out_bitwidth", out_bitwidth)
    outer = _operand("out_scale", 1 if out_scale is None else out_scale)
    _require_broadcast(data, multiplier, zero, from_width, to_width, outer)
    with np.errstate(all="ignore"):
        q = nearest(data / multiplier + zero)
        if out_scale is None:
            return np.asarray((to_integer(q / power_of_two(multiplier, from_width, to_width)) - zero) * multiplier)
        ratio = power_of_two(multiplier, from_width, to_width, outer)
        clipped = _clip(q / ratio, *clip_bounds(to_width, signed=signed, narrow=narrow))
        return np.asarray((to_integer(clipped) - zero / ratio) * outer)


def power_of_two(scale: Any, in_bitwidth: Any, out_bitwidth: Any, out_scale: Any | None = None) -> Any:
    """The power of two t by which Trunc divides: of version 2 where `out_scale` is given. Python numbers stay weak."""
    if out_scale is None:
        return 2.0 ** (_bit_width("in_bitwidth", in_bitwidth) - _bit_width("out_bitwidth", out_bitwidth))
    return 2 ** rounding_function("ROUND")(np.log2(out_scale / scale))


def _clip(y: Array, lower: Array, upper: Array) -> Array:
    """`y` with what is out of bounds replaced; unlike numpy's own clip it keeps the type of `y`, and NaN."""
    y = np.where(y > upper, upper.astype(y.dtype), y)
    return np.where(y < lower, lower.astype(y.dtype), y)


def clip_bounds(bitwidth: ArrayLike, *, signed: bool, narrow: bool) -> tuple[Array, Array]:
    """MIN and MAX of integers of `bitwidth` bits, as float64: exact up to 53 bits, and then nearest.

    signed    [-2**(b-1), 2**(b-1) - 1]    narrow: the lower one is one more
    unsigned  [0, 2**b - 1]                narrow: the upper one is one less
    """
    magnitude = np.exp2(np.asarray(bitwidth, dtype=np.float64) - signed)
    if signed:
        return np.asarray(narrow - magnitude), np.asarray(magnitude - 1)
    return np.zeros_like(magnitude), np.asarray(magnitude - 1 - narrow)


def _require_version(version: int | None, out_scale: object) -> None:
    if version is None:
        return
    if whole_number("version", version) not in (1, 2):
        raise TruncError(f"QONNX Trunc has versions 1 and 2, not {version}.")
    if (version == 2) != (out_scale is not None):
        raise TruncError(f"QONNX Trunc version {version} {'needs' if version == 2 else 'has no'} out_scale.")


def _operand(name: str, value: ArrayLike) -> Any:
    """Return Python numbers as they are, for numpy to promote weakly, and everything else as an array of numbers."""
    if isinstance(value, (int, float)):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "cmMOSTU":
        raise ArgumentTypeError(f"The {name} of QONNX Trunc must hold real numbers, not {array.dtype}.")
    return array


def _bit_width(name: str, value: ArrayLike) -> Any:
    widths = np.asarray(_operand(name, value))
    if widths.dtype.kind not in "iuf" or not np.all((widths >= 1) & (widths <= _WIDEST) & (widths == np.round(widths))):
        raise TruncError(f"The {name} of QONNX Trunc must be an integer from 1 to {_WIDEST}, not {value!r}.")
    if isinstance(value, (int, float)):
        return value
    # A difference of unsigned widths must not wrap; 2.0**int is float64 for integers of every width.
    return widths if widths.dtype.kind == "f" else widths.astype(np.int64)


def _require_broadcast(*operands: Any) -> None:
    try:
        np.broadcast_shapes(*(np.shape(operand) for operand in operands))
    except ValueError:
        shapes = ", ".join(str(np.shape(operand)) for operand in operands)
        raise TruncError(f"The operands of QONNX Trunc do not broadcast: their shapes are {shapes}.") from None
