"""Encoding by ordinary arithmetic, for opsets before BitCast: exact products of powers of two, and one Round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.lowering.builder import Builder, at_least, dtype_of
from castsmith.lowering.formats import NarrowPolicy, corners, sign_bit, top_exponent
from castsmith.lowering.qonnx import round_as
from castsmith.numerics.errors import present, require
from castsmith.numerics.types import ElementType, Specials, element_type

# Rounding in place: a float becomes a value of a narrower format, and stays a float.

_FLOAT_TOP = 127
_MANTISSA_BITS = 23
_ALMOST_INFINITE = (2 - 2.0**-12) * 2.0**127
"""Rounds to 2**128 in every format narrower than float, and is a finite float."""
_SCALE = 2.0**24
"""Divides numbers above 1 of a format whose range is that of float, so that no intermediate result overflows."""
_BARRIER = 2.0**125
"""Larger than any intermediate result."""


def round_in_place(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the result of a Cast to the signed format `to` and back, for a float or double tensor.

    Exact for every number, both zeros and both infinities; NaN is unchanged. A float is rounded by sums, a double by a
    ladder: there every product is by a power of two and exact, a Round separates any two that could be contracted, and
    the sign is never split off, so that -0 is kept. Formats without negative zero get +0.
    """
    require(x.dtype in (DataType.FLOAT, DataType.DOUBLE), f"rounding of {x.dtype} by a ladder")
    row = element_type(to)
    if x.dtype == DataType.DOUBLE:
        return with_specials(build, x, to_the_grid(build, x, row), to, policy)
    # A number beyond the largest bfloat16 is already infinity in float.
    clipped = top_exponent(row) == _FLOAT_TOP
    return with_specials(build, x, _round_by_sums(build, x, row), to, policy, clipped=clipped)


def _round_by_sums(build: Builder, x: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Round the float x to a multiple of the step of its binade, to nearest with ties to even, without an upper bound.

    Numbers far beyond the largest, and infinity, give some number beyond it; NaN gives anything. With p mantissa bits,
    s = x + 2**(23 - p) x is a multiple of the step, and s - x lies in a binade in which that step is the last bit of a
    float: the difference is rounded as x should be, and s less the difference is the result. Where x is subnormal in
    the format, a constant of that binade replaces s. Ties go to even because s is an even number of steps then.

        e4m3fn, p 3, where floats of the size of s - x have steps of 0.125, as those of the size of x have in e4m3fn:

            x      2**20 x      s = x + 2**20 x   s - x        s - (s - x)
            1.07   1121976.375  1121977.5         1121976.375  1.125

    The product by a power of two is exact, so that contracting it with the sum changes nothing. Min keeps (s - x) from
    meeting s where a compiler cancels them. Round puts in the zero, whose sign a difference loses.
    """
    p, is_wide = row.mantissa_bits, top_exponent(row) == _FLOAT_TOP
    bound = _ALMOST_INFINITE if is_wide else 2.0 ** (top_exponent(row) + 1)
    cut = build.op("Clip", x, -bound, bound)
    magnitude = build.op("Abs", cut)
    back: onnx_ir.Value | None = None
    y = cut
    if is_wide:
        large = build.op("Greater", magnitude, 1.0)
        y = build.op("Mul", cut, build.op("Where", large, 1 / _SCALE, 1.0, dtype=dtype_of(x)))
        back = build.op("Where", large, _SCALE, 1.0, dtype=dtype_of(x))
    shift = 2.0 ** (_MANTISSA_BITS - p)
    many = build.op("Add", y, build.op("Mul", y, shift))
    normal = build.op("Greater", magnitude, 1.5 * 2.0**row.min_exponent)
    many = build.op("Where", normal, many, 1.5 * shift * 2.0**row.min_exponent)
    rest = build.op("Min", build.op("Sub", many, y), _BARRIER)
    result = build.op("Sub", many, rest)
    result = result if back is None else build.op("Mul", result, back)
    # A runtime may take a constant that is subnormal in float for zero, and lose the sign of zero in the first branch.
    smallest = 2.0 ** (row.min_exponent - p - 1)
    size, above = (build.op("Abs", result), 0.0) if is_wide else (magnitude, smallest)
    return build.op("Where", build.op("Greater", size, above), result, build.op("Round", cut))


def with_specials(
    build: Builder,
    x: onnx_ir.Value,
    rounded: onnx_ir.Value,
    to: DataType,
    policy: NarrowPolicy,
    *,
    clipped: bool = False,
) -> onnx_ir.Value:
    """Return x with overflow, infinity, unsigned zeros and NaN handled.

    `rounded` is the nearest number on the unbounded grid of the format, or already clipped to its largest.
    """
    row = element_type(to)
    if not clipped:
        over = build.op("Greater", build.op("Abs", rounded), float(row.max))
        rounded = build.op("Where", over, _beyond(build, x, row, policy.saturate), rounded)
    infinity_is_apart = row.specials is Specials.FNUZ and policy.saturate and policy.opset < 24
    if infinity_is_apart:
        infinite = build.op("Equal", build.op("Abs", x), float("inf"))
        rounded = build.op("Where", infinite, float("nan"), rounded)
    if not row.has_negative_zero:
        rounded = build.op("Where", build.op("Equal", rounded, 0.0), 0.0, rounded)
    # Greater of NaN is true on some runtimes.
    return build.op("Where", build.op("IsNaN", x), x, rounded)


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
    y, there, back_again = (x, up, down) if downs is None else (build.op("Mul", x, ups), 1.0, 1.0)
    there, back_again = there * 2.0**p, back_again * 2.0**-p
    back: onnx_ir.Value | None = None
    for k in (2**bit for bit in reversed(range(binades.bit_length()))):
        above = at_least(build, t, 2.0**k)
        less = build.op("Where", above, there * 2.0**-k, there, dtype=dtype_of(x))
        more = build.op("Where", above, back_again * 2.0**k, back_again, dtype=dtype_of(x))
        y, back = build.op("Mul", y, less), more if back is None else build.op("Mul", back, more)
        if ends is not None:
            passed = build.op("Where", above, float(k), 0.0, dtype=dtype_of(x))
            binade = passed if binade is None else build.op("Add", binade, passed)
        if k > 1 or ends is not None:
            t = build.op("Mul", t, less if there == 1.0 else build.op("Where", above, 2.0**-k, 1.0, dtype=dtype_of(x)))
        there, back_again = 1.0, 1.0
    back = present(back, "the power of two")
    if ends is not None and binade is not None:
        count = 2 ** binades.bit_length() + max(-row.min_exponent, 0)
        end = build.look_up(build.constant(ends(row.min_exponent, count), "binade_ends"), binade)
        beyond = at_least(build, t, end)
        y = build.op("Mul", y, build.op("Where", beyond, 0.5, 1.0, dtype=dtype_of(x)))
        back = build.op("Mul", back, build.op("Where", beyond, 2.0, 1.0, dtype=dtype_of(x)))
    result = build.op("Mul", round_as(build, y, mode), back)
    return result if downs is None else build.op("Mul", result, downs)


def _beyond(build: Builder, x: onnx_ir.Value, row: ElementType, saturate: bool) -> onnx_ir.Value | float:
    """Return the result for a number beyond the largest."""
    saturates = row.bits < 8 or (row.bits == 8 and saturate)
    if not saturates and not row.has_infinity:
        return float("nan")
    end = float(row.max) if saturates else float("inf")
    return build.op("Where", build.op("Less", x, 0.0), -end, end, dtype=x.dtype)


def encode_ladder(build: Builder, x: onnx_ir.Value, to: DataType, policy: NarrowPolicy) -> onnx_ir.Value:
    """Return the uint8 codes of the signed format `to`, of at most 8 bits, for a float or double tensor.

    Exact for every number, both zeros and both infinities; a NaN gives the POSITIVE NaN code, since before BitCast no
    operator distinguishes a NaN's sign. Every product is by a power of two and exact, no product feeds an addition, and
    constants are never combined, so contraction to FMA, re-association and flushed float subnormals change nothing.
    Only Abs, Min, Mul, Round, Add, Where, comparisons, IsNaN and Cast are used, all in the source's own type.
    """
    require(x.dtype in (DataType.FLOAT, DataType.DOUBLE), f"rounding of {x.dtype} by a ladder")
    row, corner = element_type(to), corners(to, policy)
    magnitude = build.op("Abs", x)
    code = build.op("Min", _rounded_code(build, magnitude, row), float(corner.overflow))
    if corner.infinity != corner.overflow:
        infinite = build.op("Equal", magnitude, float("inf"))
        code = build.op("Where", infinite, float(corner.infinity), code)
    signed = build.op("Where", _is_negative(build, x, code, row), build.op("Add", code, float(sign_bit(row))), code)
    if not row.has_negative_zero:
        # The NaN of these types is code 128, which has no sign: -NaN, and overflow to it, must not become 256.
        signed = build.op("Where", build.op("Equal", code, float(corner.nan)), code, signed)
    return build.cast(build.op("Where", build.op("IsNaN", x), float(corner.nan), signed), DataType.UINT8)


def _rounded_code(build: Builder, magnitude: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Return the code of the magnitude rounded to nearest even, as a float, continuing past the largest code.

    t = |x| / 2**emin is brought into [0, 2) by dividing it by 2**k for k = ..., 8, 4, 2, 1 wherever t >= 2**k; the
    sum of the k is how many binades x lies above the first normal one. Then t * 2**p, with p mantissa bits, counts
    steps of the format, and Round gives the significand with its implicit bit worth one exponent, as in the code.

        e4m3fn, emin -6, p 3:   x       t * 2**6  rungs taken  t     Round(8t)  code
                                1.0     64        4, 2         1     8          8 + 8 * 6 = 0x38
                                1.9375  124       4, 2         1.9.. 16         16 + 8 * 6 = 0x40
                                2**-9   0.125                  0.125 1          0x01
                                464     29696     8, 4, 2      1.8.. 14 (tie)   14 + 8 * 14 = 0x7e
    """
    binades = top_exponent(row) + 1 - row.min_exponent
    clamped = build.op("Min", magnitude, 2.0 ** (top_exponent(row) + 1))
    t = build.op("Mul", clamped, 2.0**-row.min_exponent)
    total: onnx_ir.Value | None = None
    for k in _rungs(binades):
        above = at_least(build, t, 2.0**k)
        t = build.op("Mul", t, build.op("Where", above, 2.0**-k, 1.0, dtype=t.dtype))
        step = build.op("Where", above, float(k << row.mantissa_bits), 0.0, dtype=t.dtype)
        total = step if total is None else build.op("Add", total, step)
    total = present(total, "the sum")
    return build.op("Add", build.op("Round", build.op("Mul", t, 2.0**row.mantissa_bits)), total)


def _rungs(binades: int) -> list[int]:
    """Return decreasing powers of two whose sum reaches `binades`: 15 -> 8, 4, 2, 1."""
    return [2**bit for bit in reversed(range(binades.bit_length()))]


def _is_negative(build: Builder, x: onnx_ir.Value, code: onnx_ir.Value, row: ElementType) -> onnx_ir.Value:
    """Return where the sign bit of the code must be set; a reciprocal reveals a negative zero.

    For a type without negative zero, the bit must be clear if the code is 0: then x < 0 and code > 0.
    """
    below = build.op("Less", x, 0.0)
    if not row.has_negative_zero:
        return build.op("And", below, build.op("Greater", code, 0.0))
    return build.op("Or", below, build.op("Less", build.op("Reciprocal", x), 0.0))
