"""QuantizeLinear and DequantizeLinear of one element, in exact rational arithmetic on `tests.numerics.oracle`."""

from __future__ import annotations

from fractions import Fraction

from tests.numerics import oracle
from tests.numerics.oracle import Number, Settings

NAN = Number(False, "nan", Fraction(0))
ZERO = Number(False, "number", Fraction(0))


def rounded(x: Number, to: str) -> Number:
    """`x` as the type `to` holds it, rounded once."""
    return oracle.decode(to, oracle.encode(x, to, Settings(), keep_payload=False))


def divided(x: Number, y: Number) -> Number:
    """Return x / y as in IEEE 754, unrounded."""
    sign = x.negative != y.negative
    if x.kind == "nan" or y.kind == "nan":
        return x if x.kind == "nan" else y
    if y.kind == "inf":
        return NAN if x.kind == "inf" else Number(sign, "number", Fraction(0))
    if x.kind == "inf":
        return Number(sign, "inf", Fraction(0))
    if y.size == 0:
        return NAN if x.size == 0 else Number(sign, "inf", Fraction(0))
    return Number(sign, "number", x.size / y.size)


def multiplied(x: Number, y: Number) -> Number:
    sign = x.negative != y.negative
    if x.kind == "nan" or y.kind == "nan":
        return x if x.kind == "nan" else y
    if "inf" in (x.kind, y.kind):
        other = y if x.kind == "inf" else x
        return NAN if other.kind == "number" and other.size == 0 else Number(sign, "inf", Fraction(0))
    return Number(sign, "number", x.size * y.size)


def value(x: Number) -> Fraction:
    return -x.size if x.negative else x.size


def number(v: Fraction | int, *, negative_zero: bool = False) -> Number:
    return Number(v < 0 or (v == 0 and negative_zero), "number", abs(Fraction(v)))


def quantized(x: Number, scale: Number, zero: int, to: str, precision: str, settings: Settings) -> int:
    """The code; `zero` is for integers alone, and `precision` a floating-point type."""
    quotient = rounded(divided(rounded(x, precision), rounded(scale, precision)), precision)
    if to in oracle.FLOATS:
        return oracle.encode(quotient, to, settings, keep_payload=False)
    row = oracle.INTS[to]
    if quotient.kind == "inf":
        result = row.low if quotient.negative else row.high
    else:
        # Python's round is half to even.
        result = (0 if quotient.kind == "nan" else round(value(quotient))) + zero
    return min(max(result, row.low), row.high) % 2**row.bits


def dequantized(x: Number, scale: Number, zero: int, to: str) -> int:
    """The code; `zero` is for integers alone."""
    exact = number(value(x) - zero) if zero else x
    product = multiplied(rounded(exact, to), rounded(scale, to))
    return oracle.encode(product, to, Settings(), keep_payload=False)
