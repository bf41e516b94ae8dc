"""Codes of the wide types on which a conversion is likely to go wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from tests.numerics import oracle
from tests.sampling import shortened

RANDOM = shortened("random codes of a type", 4000, 1000)
TIES = shortened("ties of a type", 1000, 250)


@cache
def samples(source: str, target: str) -> list[int]:
    """Codes of `source`: about the numbers and the ties of `target`, about powers of two, extremes, and at random."""
    generator = random.Random(f"{source} {target}")
    codes = set(_general(source))
    for number in _critical(target, generator):
        for code in _around(number, source):
            codes.add(code)
    return sorted(codes)


@cache
def _general(source: str) -> tuple[int, ...]:
    """Codes at random, and the neighbourhood of every power of two and of the ends of the range of codes."""
    generator = random.Random(source)
    bits = 8 * oracle.unsigned(source).itemsize
    codes = {generator.getrandbits(bits) for _ in range(RANDOM)}
    codes |= {generator.getrandbits(bits) >> generator.randrange(bits) for _ in range(RANDOM)}
    if source in oracle.INTS:
        codes |= {-(generator.getrandbits(bits) >> generator.randrange(bits)) for _ in range(RANDOM)}
        codes |= {sign * 2**k + d for k in range(bits) for d in range(-3, 4) for sign in (1, -1)}
    else:
        row = oracle.FLOATS[source]
        moderate = [generator.uniform(-1, 1) * 2.0 ** generator.randrange(-30, 40) for _ in range(2 * RANDOM)]
        with np.errstate(over="ignore"):
            codes |= {int(code) for code in np.array(moderate, row.dtype).view(oracle.unsigned(source))}
        steps = (e << row.mantissa for e in range(2**row.exponent))
        codes |= {step + d + sign for step in steps for d in range(-3, 4) for sign in (0, 1 << (bits - 1))}
        specials = (row.inf or 0, row.nan or 0, row.top)
        codes |= {special + d + sign for special in specials for d in range(4) for sign in (0, 1 << (bits - 1))}
        codes |= {generator.getrandbits(row.mantissa) + (row.inf or 0) for _ in range(200)}
    return tuple(sorted(code % 2**bits for code in codes))


def _critical(target: str, generator: random.Random) -> Iterator[Fraction]:
    """Positive numbers that `target` holds, its ties, and what lies just beyond its maximum."""
    if target in oracle.INTS:
        row = oracle.INTS[target]
        near = {*range(-20, 20), *range(row.low - 3, row.low + 4), *range(row.high - 3, row.high + 4), 2**63, 2**64}
        yield from (abs(Fraction(2 * n + half, 2)) for n in near for half in (0, 1))
        return
    top = oracle.FLOATS[target].top
    codes = range(top + 1) if top < 256 else sorted({*(generator.randrange(top) for _ in range(TIES)), *range(9), top})
    for code in codes:
        this, above = _size(target, code), _size(target, code + 1)
        yield from (this, (this + above) / 2, above)


def _size(target: str, code: int) -> Fraction:
    """The number of a code without sign, as if the exponent had no end."""
    row = oracle.FLOATS[target]
    exponent, mantissa = divmod(code, 2**row.mantissa)
    hidden = 0 if exponent == 0 and row.sign else 2**row.mantissa
    exponent = max(exponent, int(row.sign))
    return (hidden + mantissa) * Fraction(2) ** (exponent - row.bias - row.mantissa)


def _around(number: Fraction, source: str) -> Iterator[int]:
    """The codes of `source` next to `number` under both signs."""
    bits = 8 * oracle.unsigned(source).itemsize
    if source in oracle.INTS:
        whole = number.numerator // number.denominator
        yield from (sign * (whole + d) % 2**bits for d in (-1, 0, 1, 2) for sign in (1, -1) if whole < 2**bits)
        return
    row = oracle.FLOATS[source]
    code = min(oracle.round_even(number, row), row.top)
    yield from ((code + d + sign) % 2**bits for d in (-1, 0, 1) for sign in (0, 1 << (bits - 1)))
