"""QONNX Trunc, both versions: drop the low bits of integers that a scale and a zero point represent as real numbers.

    version 1    q = rne(x/scale + zero_point);  t = 2**(in_bitwidth - out_bitwidth)
                 y = (round(q/t) - zero_point) * scale
    version 2    q = rne(x/scale + zero_point);  t = 2**rne(log2(out_scale/scale))
                 y = (round(clip(q/t, MIN, MAX)) - zero_point/t) * out_scale

Version 1 neither clips nor rescales the zero point, and keeps the input's scale. Version 2 does not use `in_bitwidth`.
Every step is numpy's own, in the type that numpy promotes to, because qonnx computes it so and the bits must agree:
float32 stays float32 as long as no parameter is float64. An integer array of bit widths makes version 1 float64
(2.0**int), and so does a Python float as a scale in version 2 (log2 of it), as in qonnx.

One step is not copied: qonnx computes MIN and MAX in the type of `out_bitwidth`, where 2**32 - 1 of an int32 wraps to
-1 and 2**25 - 1 of a float32 rounds. Here they are the numbers that QONNX documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from castsmith.numerics.arguments import as_array, flag, text, whole_number
from castsmith.numerics.errors import ArgumentTypeError, TruncError

# The seven rounding modes of QONNX, to an integer in the array's own type. Source: `resolve_rounding_mode` of qonnx
# 1.0.0, whose formulas are used so that the sign of a zero agrees.
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


ROUNDING_MODES: dict[str, Rounding] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}
"""Each mode under its name in capitals."""


def rounding_function(mode: str) -> Rounding:
    """Return the rounding function named `mode`, in any case.

    Raises:
        TruncError: The mode is unknown; the message names it.
    """
    try:
        return ROUNDING_MODES[text("rounding_mode", mode).upper()]
    except KeyError:
        modes = ", ".join(ROUNDING_MODES)
        raise TruncError(f"unknown QONNX rounding mode {mode!r}; expected {modes}.") from None


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
    """Truncate `x` with parameters that broadcast against it: scalars, or arrays with one value per channel.

    The calls in the QONNX documents work unchanged:

        trunc(x, scale, zeropt, in_bitwidth, out_bitwidth, "ROUND")
        trunc(x, scale, zeropt, in_bitwidth, narrow, signed, out_scale, out_bitwidth, "ROUND")

    Args:
        x: The array to truncate, of any shape.
        scale: The scale of `x`.
        zero_point: The zero point of `x`.
        in_bitwidth: The bit width of the integers that `x` represents.
        out_bitwidth: The bit width of the result.
        out_scale: The scale of the result; only version 2 has it.
        *positional: The operands in the order of the QONNX documents, and the rounding mode.
        rounding_mode: ROUND (half to even), CEIL, FLOOR, UP, DOWN, HALF_UP or HALF_DOWN, in any case; FLOOR by default.
            It may also follow the operands.
        signed: Clip to signed integers (version 2 only).
        narrow: Clip to the narrow range, one value less (version 2 only).
        version: 1 or 2; by default 2 if `out_scale` is given, else 1.

    Returns:
        The truncated numbers, with the bits that qonnx 1.0.0 (`custom_op/general/trunc.py`) gives.

    Raises:
        TruncError: The mode or version is unknown, `out_scale` does not fit the version, a bit width is not an integer
            of at least 1, or the shapes do not broadcast.
        ArgumentTypeError: An argument has the wrong Python type.
    """
    others: list[Any] = [operand for operand in (out_scale, *positional) if operand is not None]
    if others and isinstance(others[-1], str):
        if rounding_mode is not None:
            raise ArgumentTypeError("trunc got rounding_mode twice: after the operands and by keyword.")
        rounding_mode = cast("str", others.pop())
    if len(others) == 3:  # the order in the document of version 2: narrow and signed precede out_scale
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
    """Return the power of two t by which Trunc divides: that of version 2 if `out_scale` is given."""
    if out_scale is None:
        return 2.0 ** (_bit_width("in_bitwidth", in_bitwidth) - _bit_width("out_bitwidth", out_bitwidth))
    return 2 ** rounding_function("ROUND")(np.log2(out_scale / scale))


def _clip(y: Array, lower: Array, upper: Array) -> Array:
    """Return `y` with out-of-bounds values replaced; unlike numpy's own clip it keeps the type of `y`, and NaN."""
    y = np.where(y > upper, upper.astype(y.dtype), y)
    return np.where(y < lower, lower.astype(y.dtype), y)


def clip_bounds(bitwidth: ArrayLike, *, signed: bool, narrow: bool) -> tuple[Array, Array]:
    """Return MIN and MAX of integers of `bitwidth` bits as float64: exact up to 53 bits, then rounded to nearest.

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
    """Return Python numbers unchanged, for numpy to promote weakly, and anything else as an array of numbers."""
    if isinstance(value, (int, float)):
        return value
    array = as_array(f"the {name}", value)
    if array.dtype.kind in "cmMOSTU":
        raise ArgumentTypeError(f"the {name} of QONNX Trunc must hold real numbers, not {array.dtype}.")
    return array


def _bit_width(name: str, value: ArrayLike) -> Any:
    widths = np.asarray(_operand(name, value))
    if widths.dtype.kind not in "iuf" or not np.all((widths >= 1) & (widths <= _WIDEST) & (widths == np.round(widths))):
        raise TruncError(f"the {name} of QONNX Trunc must be an integer from 1 to {_WIDEST}, not {value!r}.")
    if isinstance(value, (int, float)):
        return value
    # A difference of unsigned widths must not wrap; 2.0**int is float64 for integers of every width.
    return widths if widths.dtype.kind == "f" else widths.astype(np.int64)


def _require_broadcast(*operands: Any) -> None:
    try:
        np.broadcast_shapes(*(np.shape(operand) for operand in operands))
    except ValueError:
        shapes = ", ".join(str(np.shape(operand)) for operand in operands)
        raise TruncError(f"the operands of QONNX Trunc do not broadcast: their shapes are {shapes}.") from None
