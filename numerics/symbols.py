"""Integers known only symbolically: sums of products of symbols, such as `7*batch + 1`.

An element of shape arithmetic is an int, an exact Fraction (of a floating-point type), a Poly, or UNKNOWN. All of them
support `+`, `-` and `*`, so that arrays of them do too; the functions here do the rest. An undecidable result is
UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Union

_TERMS = 12
_DEGREE = 8
"""The limits of a Poly; a larger one is UNKNOWN."""


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """An unknown number: a dimension, or a quantity derived from one. Symbols compare by identity.

    Attributes:
        name: The declared name, or empty.
        low: The lower bound, included; None if unbounded.
        high: The upper bound, included; None if unbounded.
    """

    name: str
    low: int | None = 0
    high: int | None = None


Monomial = tuple[Symbol, ...]
"""A product of symbols, in a fixed order."""


class Unknown:
    """The class of UNKNOWN: every operation on it gives UNKNOWN."""

    def __add__(self, _: object) -> Unknown:
        return self

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__

    def __neg__(self) -> Unknown:
        return self

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()

Element = Union[int, Fraction, "Poly", Unknown]


class Poly:
    """A sum of products of symbols with integer coefficients; equal if it is the same for all numbers."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self) -> str:
        return " + ".join(_term_text(monomial, factor) for monomial, factor in self.terms.items())

    def __add__(self, other: object) -> Element:
        others = _terms(other)
        if others is None:
            return UNKNOWN
        terms = dict(self.terms)
        for monomial, factor in others.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _element(terms)

    def __neg__(self) -> Element:
        return _element({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: object) -> Element:
        return self + (-other) if isinstance(other, int | Poly) else UNKNOWN

    def __rsub__(self, other: object) -> Element:
        return -(self - other)

    def __mul__(self, other: object) -> Element:
        others = _terms(other)
        if others is None:
            return UNKNOWN
        terms: dict[Monomial, int] = {}
        for mine, factor in self.terms.items():
            for theirs, times in others.items():
                monomial = tuple(sorted((*mine, *theirs), key=id))
                terms[monomial] = terms.get(monomial, 0) + factor * times
        return _element(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def low(self) -> int | None:
        """The lower bound, from the bounds of its symbols."""
        return _bound(self, lambda symbol: symbol.low, lambda symbol: symbol.high)

    @property
    def high(self) -> int | None:
        """The upper bound, from the bounds of its symbols."""
        return _bound(self, lambda symbol: symbol.high, lambda symbol: symbol.low)

    @property
    def has_nameless(self) -> bool:
        """True if one of its symbols has no name."""
        return any(not symbol.name for monomial in self.terms for symbol in monomial)

    def at(self, value: Callable[[Symbol], int]) -> int:
        """Return the number for given values of the symbols."""
        return sum(factor * prod(map(value, monomial)) for monomial, factor in self.terms.items())


def _term_text(monomial: Monomial, factor: int) -> str:
    names = [symbol.name or "?" for symbol in monomial]
    return "*".join(names if factor == 1 and names else [str(factor), *names])


def symbol(name: str = "", low: int | None = 0, high: int | None = None) -> Poly:
    """Return a new symbol, as a Poly."""
    return Poly({(Symbol(name, low, high),): 1})


def name_of(element: Element) -> str | None:
    """Return the name of a single symbol; None if it has none, or for anything else."""
    if not isinstance(element, Poly) or [*element.terms.values()] != [1]:
        return None
    (symbols,) = element.terms
    return symbols[0].name or None if len(symbols) == 1 else None


def low_of(element: Element) -> int | None:
    """Return the lower bound of an integer; None if unknown."""
    return element if isinstance(element, int) else element.low if isinstance(element, Poly) else None


def high_of(element: Element) -> int | None:
    """Return the upper bound of an integer; None if unknown."""
    return element if isinstance(element, int) else element.high if isinstance(element, Poly) else None


def quotient(a: Element, b: Element) -> Element:
    """Return the integer q with b * q = a for all numbers for which b is not 0, or UNKNOWN."""
    numerator, divisor = _terms(a), _terms(b)
    if numerator is None or divisor is None or len(divisor) != 1:
        return UNKNOWN
    ((symbols, factor),) = divisor.items()
    terms: dict[Monomial, int] = {}
    for monomial, times in numerator.items():
        rest = list(monomial)
        for symbol in symbols:
            if symbol not in rest:
                return UNKNOWN
            rest.remove(symbol)
        if times % factor:
            return UNKNOWN
        terms[tuple(rest)] = times // factor
    return _element(terms)


def compared(a: Element, b: Element) -> Element:
    """Return the sign of a - b; UNKNOWN if it is not the same for all numbers."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return UNKNOWN
    difference = a - b
    if isinstance(difference, int | Fraction):
        return (difference > 0) - (difference < 0)
    low, high = low_of(difference), high_of(difference)
    if low is not None and low > 0:
        return 1
    return -1 if high is not None and high < 0 else UNKNOWN


def product(elements: Any) -> Element:
    """Return the product of elements."""
    return prod(elements)


def _terms(element: object) -> Mapping[Monomial, int] | None:
    if isinstance(element, Poly):
        return element.terms
    return ({(): int(element)} if element else {}) if isinstance(element, int) else None


def _element(terms: Mapping[Monomial, int]) -> Element:
    """Return an int if no symbol remains."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    if len(terms) > _TERMS or max(map(len, terms)) > _DEGREE:
        return UNKNOWN
    return Poly(terms)


def _bound(poly: Poly, near: Callable[[Symbol], int | None], far: Callable[[Symbol], int | None]) -> int | None:
    """Add the bounds of the terms: those of products of nonnegative symbols."""
    total = 0
    for monomial, factor in poly.terms.items():
        bounds = [(near if factor > 0 else far)(symbol) for symbol in monomial]
        if any(symbol.low is None or symbol.low < 0 for symbol in monomial) and len(monomial) > 1:
            return None
        if any(bound is None for bound in bounds):
            return None
        total += factor * prod(bound for bound in bounds if bound is not None)
    return total
