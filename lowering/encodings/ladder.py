"""Encoding and rounding in place by ordinary arithmetic, for opsets before BitCast.

A number is rounded by sums, or by a ladder of products of powers of two if it is a double that may be computed in
float. The code of a rounded number follows from its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.records import Effect
from castsmith.lowering.builder import Builder, at_least, dtype_of
from castsmith.lowering.formats import NarrowPolicy, corners, sign_bit, top_exponent
from castsmith.lowering.qonnx.trunc import round_as
from castsmith.numerics.errors import present, require
from castsmith.numerics.types import ElementType, Specials, element_type

_FLOAT_TOP = 127
_SCALE = 2.0**24
"""Divides numbers above 1 of a format whose range is that of float, so that no intermediate result overflows."""
_BARRIER = {DataType.FLOAT: 2.0**125, DataType.DOUBLE: 2.0**1000}
"""Larger than any intermediate result."""
_BULGE = 1 - 1 / math.log(2) - math.log2(math.log(2))
"""The most by which log2(1 + f) exceeds f: 0.0861, at f = 0.443."""

ROUND_IN_PLACE = Rule(
    "round-in-place",
    "A result in float is rounded to the precision of the type it replaces.",
    why="The next operator expects a value of that type.",
    example="+ y = the float nearest to s that bfloat16 has",
    safety=(Effect.BIT_EXACT, Effect.BIT_EXACT_BUT_NAN, Effect.IN_WIDER_TYPE),
    certified=False,
)


def round_in_place(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the result of a Cast to the signed format `to` and back, for a float or double tensor.

    Exact for every number, both zeros and both infinities; NaN stays NaN. The magnitude is rounded, and multiplied by
    the sign. Formats without negative zero get +0.
    """
    row = element_type(to)
    if row.bits < 8 or (row.bits == 8 and policy.saturate):
        return _saturated_in_place(build, x, row, policy)
    if not row.has_infinity:
        # NaN beyond the largest, whatever the sign.
        limit = 2 * float(row.max)
        near = build.op("Clip", x, -limit, limit)
        magnitude = build.op("Abs", near)
        is_number = build.op("Less", magnitude, _first_beyond(x, row))
        result = build.op("Where", is_number, _to_the_grid(build, magnitude, row), float("nan"))
        return build.op("Mul", result, _by_sign(build, near, limit, row, 1.0, -1.0))
    magnitude = build.op("Abs", x)
    rounded = _to_the_grid(build, magnitude, row)
    if top_exponent(row) == _FLOAT_TOP and dtype_of(x) == DataType.FLOAT:
        # Rounded up beyond the largest, it is infinity already.
        finite, infinity = build.op("Less", magnitude, float("inf")), magnitude
    else:
        largest = 2.0 ** (np.finfo(dtype_of(x).numpy()).maxexp - 1)
        finite = build.op("Less", magnitude, _first_beyond(x, row))
        infinity = build.op("Mul", magnitude, largest)
    # The sign is set last: some runtimes drop that of a zero from the first branch.
    result = build.op("Where", finite, rounded, infinity)
    return build.op("Mul", result, _by_sign(build, build.op("Clip", x, -1.0, 1.0), 1.0, row, 1.0, -1.0))


def _saturated_in_place(build: Builder, x: onnx_ir.Value, row: ElementType, policy: NarrowPolicy) -> onnx_ir.Value:
    largest = float(row.max)
    near = build.op("Clip", x, -largest, largest)
    rounded = _to_the_grid(build, build.op("Abs", near), row)
    rounded = build.op("Mul", rounded, _by_sign(build, near, largest, row, 1.0, -1.0))
    if _infinity_is_apart(row, policy):
        return build.op("Where", build.op("Less", build.op("Abs", x), float("inf")), rounded, float("nan"))
    return build.op("Where", build.op("IsNaN", x), x, rounded)


def _by_sign(
    build: Builder, x: onnx_ir.Value, limit: float, row: ElementType, plus: float, minus: float
) -> onnx_ir.Value:
    """Return `plus` or `minus`, by the sign of a number x, clipped to a magnitude of at most `limit`, and of its zeros.

    A quotient by x has its sign, of a zero too, and need not be exact. In a format without negative zero, numbers that
    become 0 count as positive: x plus half the smallest number has the sign. Since x was clipped, no constant that was
    added to it before can be combined with that half.
    """
    far = math.copysign(2 * max(abs(plus), abs(minus)), plus - minus)
    if row.has_negative_zero:
        far_on_its_side = build.op("Div", far * limit, x)
    else:
        half = 2.0 ** (row.min_exponent - row.mantissa_bits - 1)
        least = half * 2.0 ** -(element_type(dtype_of(x)).mantissa_bits + 1)
        far_on_its_side = build.op("Mul", build.op("Add", x, half), far / least)
    return build.op("Clip", far_on_its_side, min(plus, minus), max(plus, minus))


def _first_beyond(x: onnx_ir.Value, row: ElementType) -> float:
    """Return the first number, of the type of x, that becomes a number beyond the largest."""
    step = 2.0 ** (top_exponent(row) - row.mantissa_bits)
    tie = np.array(float(row.max) + step / 2, dtype_of(x).numpy())
    stays = float(row.max) / step % 2 == 0
    return np.nextafter(tie, np.array(np.inf, tie.dtype)).item() if stays else tie.item()


def _infinity_is_apart(row: ElementType, policy: NarrowPolicy) -> bool:
    """True if infinity becomes NaN, though finite numbers saturate."""
    return row.specials is Specials.FNUZ and policy.saturate and policy.opset < 24


# The nearest number of a format, without an upper bound.


def _to_the_grid(build: Builder, magnitude: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Round a number of at least 0 to a multiple of the step of its binade, to nearest with ties to even.

    Infinity, and floats that are far beyond the largest, give any number or NaN.
    """
    require(magnitude.dtype in (DataType.FLOAT, DataType.DOUBLE), f"rounding of {magnitude.dtype} by arithmetic")
    is_double = magnitude.dtype == DataType.DOUBLE
    if is_double and not build.doubles:
        # A runtime that computes double in float rounds twice on a ladder, and would give anything by sums.
        return to_the_grid(build, magnitude, row)
    if is_double or top_exponent(row) < _FLOAT_TOP:
        return by_sums(build, magnitude, row)
    large = build.op("Greater", magnitude, 1.0)
    less = build.op("Where", large, 1 / _SCALE, 1.0, dtype=DataType.FLOAT)
    more = build.op("Where", large, _SCALE, 1.0, dtype=DataType.FLOAT)
    return build.op("Mul", by_sums(build, build.op("Mul", magnitude, less), row), more)


def by_sums(build: Builder, a: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Round the number a, at least 0, to a multiple of the step of its binade.

    With p mantissa bits, and 23 in a float, s = (2**(23 - p) + 1) a is a multiple of the step, and s - a lies in a
    binade in which that step is the last bit of a float: the difference is rounded as a should be, and s less the
    difference is the result. Where a is subnormal in the format, a constant of that binade replaces s. Ties go to even
    because s is an even number of steps then.

        e4m3fn, p 3, where floats of the size of s - a have steps of 0.125, as those of the size of a have in e4m3fn:

            a      s          s - a        s - (s - a)
            1.07   1121977.5  1121976.375  1.125

    Max keeps a compiler from contracting the product with the difference, Min from cancelling s against (s - a).
    """
    shift = 2.0 ** (element_type(dtype_of(a)).mantissa_bits - row.mantissa_bits)
    s = build.op("Max", build.op("Mul", a, shift + 1), 1.5 * shift * 2.0**row.min_exponent)
    return build.op("Sub", s, build.op("Min", build.op("Sub", s, a), _BARRIER[dtype_of(a)]))


def to_the_grid(
    build: Builder,
    x: onnx_ir.Value,
    row: ElementType,
    mode: str = "ROUND",
    ends: Callable[[int, int], NDArray[Any]] | None = None,
) -> onnx_ir.Value:
    """Round x to a multiple of the step of its binade, by default to nearest with ties to even, without an upper bound.

    t = |x| / 2**emin is brought into [0, 2) by dividing it by 2**k for k = ..., 8, 4, 2, 1 wherever t >= 2**k. The same
    divisions, and a product by 2**(p - emin), bring x to y, where a step is 1; Round(y) times what undoes them is the
    result.

        e4m3fn, emin -6, p 3:   x      |x| * 2**6  rungs  y = x * 2**6 / 2**(sum) * 2**3  Round  result
                                1.07   68.5        4, 2   8.56                            9      1.125
                                -0.01  0.64               -5.12                           -5     -5 * 2**-9

    bfloat16 has binades above and below 1 that no power of two in float spans, and other formats a least step whose
    reciprocal exceeds float: there t is |x| itself from 1 on.

    ends: gives, for a number of binades from that of an exponent on, the t in [1, 2] from which a number of each has
    the step of the next one; by default 2.
    """
    p, magnitude = row.mantissa_bits, build.op("Abs", x)
    binades = min(top_exponent(row), _FLOAT_TOP) + 1 - row.min_exponent
    up, down = 2.0**-row.min_exponent, 2.0**row.min_exponent
    ups: onnx_ir.Value | float = up
    downs: onnx_ir.Value | None = None
    binade: onnx_ir.Value | None = None
    if binades > _FLOAT_TOP or p - row.min_exponent > _FLOAT_TOP:
        large, binades = at_least(build, magnitude, 1.0), _FLOAT_TOP
        ups = build.op("Where", large, 1.0, up, dtype=dtype_of(x))
        downs = build.op("Where", large, 1.0, down, dtype=dtype_of(x))
        if ends is not None:
            binade = build.op("Where", large, -float(row.min_exponent), 0.0, dtype=dtype_of(x))
    t = build.op("Mul", magnitude, ups)
    # x is not multiplied by a constant, which may lose the sign of a zero: constants go into the factors instead.
    y, factor, inverse = (x, up, down) if downs is None else (build.op("Mul", x, ups), 1.0, 1.0)
    factor, inverse = factor * 2.0**p, inverse * 2.0**-p
    back: onnx_ir.Value | None = None
    for k in (2**bit for bit in reversed(range(binades.bit_length()))):
        above = at_least(build, t, 2.0**k)
        less = build.op("Where", above, factor * 2.0**-k, factor, dtype=dtype_of(x))
        more = build.op("Where", above, inverse * 2.0**k, inverse, dtype=dtype_of(x))
        y, back = build.op("Mul", y, less), more if back is None else build.op("Mul", back, more)
        if ends is not None:
            passed = build.op("Where", above, float(k), 0.0, dtype=dtype_of(x))
            binade = passed if binade is None else build.op("Add", binade, passed)
        if k > 1 or ends is not None:
            t = build.op("Mul", t, less if factor == 1.0 else build.op("Where", above, 2.0**-k, 1.0, dtype=dtype_of(x)))
        factor, inverse = 1.0, 1.0
    back = present(back, "the power of two")
    if ends is not None:
        count = 2 ** binades.bit_length() + max(-row.min_exponent, 0)
        constant = build.constant(ends(row.min_exponent, count), "binade_ends")
        end = build.look_up(constant, present(binade, "the number of the binade"))
        beyond = at_least(build, t, end)
        y = build.op("Mul", y, build.op("Where", beyond, 0.5, 1.0, dtype=dtype_of(x)))
        back = build.op("Mul", back, build.op("Where", beyond, 2.0, 1.0, dtype=dtype_of(x)))
    result = build.op("Mul", round_as(build, y, mode), back)
    return result if downs is None else build.op("Mul", result, downs)


# Codes.


def encode_ladder(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the uint8 codes of the signed format `to`, of at most 8 bits, for a float or double tensor.

    Exact for every number, both zeros and both infinities; a NaN gives the POSITIVE NaN code, since before BitCast no
    operator distinguishes a NaN's sign. Contraction to FMA, combined constants and flushed float subnormals change
    nothing. Only Abs, Clip, Min, Max, Add, Sub, Mul, Div, Log, Where, Less, IsNaN and Cast are used (and for a double
    Round and other comparisons), all in the source's own type.
    """
    row, corner = element_type(to), corners(to, policy)
    # A number saturates, or becomes the code after the largest, which is that of the number after it.
    saturates = corner.overflow == corner.largest
    last = float(row.max) + (0.0 if saturates else 2.0 ** (top_exponent(row) - row.mantissa_bits))
    start, sign = _start(row), float(sign_bit(row))
    near = build.op("Clip", x, -last, last)
    magnitude = build.op("Abs", near)
    begin = _by_sign(build, near, last, row, start, start + sign)
    code = build.op("Add", _level(build, _to_the_grid(build, magnitude, row), row), begin)
    code = build.cast(code, DataType.UINT8) if build.chooses_bytes else code
    # The NaN of a type without negative zero has no sign, and is also the result for numbers or infinity.
    if _infinity_is_apart(row, policy):
        result = build.op("Where", build.op("Less", build.op("Abs", x), float("inf")), code, corner.nan)
    elif saturates or row.has_negative_zero:
        result = build.op("Where", build.op("IsNaN", x), corner.nan, code)
    else:
        result = build.op("Where", build.op("Less", magnitude, _first_beyond(x, row)), code, corner.nan)
    return build.cast(result, DataType.UINT8)


def _level(build: Builder, v: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Return a logarithm that with `_start` added lies between the code of v and the next, for v >= 0 of the format.

    With p mantissa bits, a number 2**e (1 + f) of at least the smallest normal one, 2**emin, has the code
    2**p (e - emin + 1 + f). Its logarithm, 2**p (e - emin + 1 + log2(1 + f)), is larger by at most 2**p 0.0861: less
    than a unit for p of at most 3. That is the logarithm of 2 v; the same function of v + 2**emin gives the code of a
    subnormal number. A logarithm may be wrong by `_start`'s margin on either side, 0.155 of a unit for p = 3: by
    0.0135, or 1.3 % of the number whose logarithm it is.

        e4m3fn, p 3, emin -6:   v          v + max(v, 2**emin)  8 log2 + 48   + 0.155, truncated
                                1.0        2.0                  56            0x38
                                1.375      2.75                 59.68         0x3b
                                3 * 2**-9  1.375 * 2**-6        3.68          0x03
    """
    lifted = build.op("Add", v, build.op("Max", v, 2.0**row.min_exponent))
    return build.op("Mul", build.op("Log", lifted), 2.0**row.mantissa_bits / math.log(2))


def _start(row: ElementType) -> float:
    """Return what added to `_level` is as far above the code of a number as below the next one."""
    per_binade = 2.0**row.mantissa_bits
    require(per_binade * _BULGE < 1, f"codes of {row.dtype.name} by a logarithm")
    return (1 - per_binade * _BULGE) / 2 - per_binade * row.min_exponent
