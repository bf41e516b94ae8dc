"""Arithmetic of shapes, element by element, and its casts: each operator's definition on exact numbers.

An operator means the same at every opset that has it. Integers: division is toward zero, Mod has the sign of the
divisor. Floats: only exact operations whose zeros are not -0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import ceil, floor, isqrt, prod
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.shapes.elements import MOST, Content, Derived, Operation, array_of, holds, is_number
from castsmith.numerics.symbols import UNKNOWN, Element, Unknown, compared, high_of, low_of, quotient
from castsmith.numerics.types import Kind, element_type

Scalar = Callable[..., Element]


def _whole(element: Any) -> Element:
    """Return an integral Fraction as an int."""
    return element.numerator if isinstance(element, Fraction) and element.denominator == 1 else element


def _equal(a: Element, b: Element) -> Element:
    sign = compared(a, b)
    return UNKNOWN if isinstance(sign, Unknown) else int(sign == 0)


def _less(a: Element, b: Element) -> Element:
    return _below(a, b, equal=False)


def _less_or_equal(a: Element, b: Element) -> Element:
    return _below(a, b, equal=True)


def _below(a: Element, b: Element, *, equal: bool) -> Element:
    sign = compared(a, b)
    if not isinstance(sign, Unknown):
        return int(sign == -1 or (equal and sign == 0))
    difference = a - b
    low, high = low_of(difference), high_of(difference)
    if equal and high is not None and high <= 0:
        return 1
    return 0 if not equal and low is not None and low >= 0 else UNKNOWN


def _and(a: Element, b: Element) -> Element:
    return 0 if 0 in (a, b) else UNKNOWN if UNKNOWN in (a, b) else 1


def _or(a: Element, b: Element) -> Element:
    return 1 if 1 in (a, b) else UNKNOWN if UNKNOWN in (a, b) else 0


def _not(a: Element) -> Element:
    return 1 - a


def _choose(condition: Element, a: Element, b: Element) -> Element:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else UNKNOWN


def _of_numbers(function: Callable[..., Any]) -> Scalar:
    """Return a function that is evaluated only if all operands are known numbers."""

    def scalar(*operands: Element) -> Element:
        return _whole(function(*operands)) if all(map(is_number, operands)) else UNKNOWN

    return scalar


def _without_minus_zero(function: Callable[..., Any]) -> Scalar:
    """Return UNKNOWN for a floating-point zero from a negative operand, which is -0."""

    def scalar(*operands: Element) -> Element:
        if not all(map(is_number, operands)):
            return UNKNOWN
        result = _whole(function(*operands))
        return UNKNOWN if result == 0 and any(operand < 0 for operand in operands) else result  # pyright: ignore

    return scalar


def _float_quotient(a: Any, b: Any) -> Element:
    return UNKNOWN if b == 0 else Fraction(a) / Fraction(b)


def _root(a: Any) -> Element:
    number = Fraction(a)
    if number < 0:
        return UNKNOWN
    root = Fraction(isqrt(number.numerator), isqrt(number.denominator))
    return root if root * root == number else UNKNOWN


def _round_half_even(a: Any) -> int:
    return round(Fraction(a))


def _integer_power(a: Any, b: Any) -> Element:
    """Return a power within the exact range of C's pow, which runtimes call."""
    power = a**b if 0 <= b <= 64 else None
    return UNKNOWN if power is None or abs(power) > 1 << 53 else power


def _mod(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else UNKNOWN
    return 0 if isinstance(b, int) and not isinstance(quotient(a, b), Unknown) else UNKNOWN


def _divided(derived: Derived) -> Scalar:
    """Divide integers, toward zero."""

    def scalar(a: Element, b: Element) -> Element:
        if isinstance(a, int) and isinstance(b, int):
            return UNKNOWN if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        exact = quotient(a, b)
        low, least = low_of(a), low_of(b)
        if not isinstance(exact, Unknown) or low is None or low < 0 or least is None or least < 1:
            return exact
        return derived.symbol(("Div", a, b), 0, high_of(a))

    return scalar


def picked(derived: Derived, name: str) -> Scalar:
    """Max or Min."""
    greater = name == "Max"

    def scalar(a: Element, b: Element) -> Element:
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return UNKNOWN
        for one, other in ((a, b), (b, a)):
            if _less_or_equal(other, one) == 1:
                return one if greater else other
        lows, highs = [low_of(a), low_of(b)], [high_of(a), high_of(b)]
        ends = [low for low in lows if low is not None], [high for high in highs if high is not None]
        low = max(ends[0], default=None) if greater else min(ends[0]) if None not in lows else None
        high = (max(ends[1]) if None not in highs else None) if greater else min(ends[1], default=None)
        return derived.symbol((name, frozenset((a, b))), low, high)

    return scalar


def _absolute(a: Element) -> Element:
    if isinstance(a, int | Fraction):
        return abs(a)
    low = low_of(a)
    return a if low is not None and low >= 0 else UNKNOWN


def _sign(a: Element) -> Element:
    return compared(a, 0)


def elementwise(node: Operation) -> Content | None:
    """Compute the result of an operator of BY_ELEMENT, if its operands are known."""
    scalar = _scalar_of(node)
    operands = [content for content in node.contents if content is not None]
    if scalar is None or len(operands) < len(node.contents) or not operands:
        return None
    try:
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    except ValueError:
        return None
    if prod(shape) > MOST or (node.opset < 7 and len({operand.shape for operand in operands}) > 1):
        return None
    if node.node.op_type in _VARIADIC:
        return reduce(lambda a, b: each_of(scalar, a, b), operands)
    return each_of(scalar, *operands)


def each_of(scalar: Scalar, *operands: Content) -> Content:
    """Return the function of each element of broadcast operands."""
    spread = np.broadcast_arrays(*operands)
    return array_of(map(scalar, *(operand.ravel().tolist() for operand in spread)), spread[0].shape)


def _scalar_of(node: Operation) -> Scalar | None:
    op_type, derived = node.node.op_type, node.derived
    if op_type in ("Max", "Min"):
        return picked(derived, op_type)
    if node.floats and op_type in _OF_FLOATS:
        return _OF_FLOATS[op_type]
    if op_type == "Div":
        return _divided(derived)
    if node.integer("fmod", 0):
        return None
    return _SCALARS.get(op_type)


def _negative(a: Any) -> Element:
    return -a


def _greater(a: Element, b: Element) -> Element:
    return _less(b, a)


def _greater_or_equal(a: Element, b: Element) -> Element:
    return _less_or_equal(b, a)


def _exclusive(a: Element, b: Element) -> Element:
    return UNKNOWN if isinstance(a, Unknown) or isinstance(b, Unknown) else int(a != b)


def _open(*_: Element) -> Element:
    return UNKNOWN


def _float_negative(a: Any) -> Element:
    return -a if a else UNKNOWN


_SCALARS: Mapping[str, Scalar] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Sum": operator.add,
    "Neg": _negative,
    "Mod": _mod,
    "Pow": _of_numbers(_integer_power),
    "Abs": _absolute,
    "Sign": _sign,
    "Equal": _equal,
    "Less": _less,
    "LessOrEqual": _less_or_equal,
    "Greater": _greater,
    "GreaterOrEqual": _greater_or_equal,
    "And": _and,
    "Or": _or,
    "Xor": _exclusive,
    "Not": _not,
    "Where": _choose,
}
_OF_FLOATS: Mapping[str, Scalar] = {
    "Add": _of_numbers(operator.add),
    "Sub": _of_numbers(operator.sub),
    "Sum": _open,
    "Mul": _without_minus_zero(operator.mul),
    "Div": _without_minus_zero(_float_quotient),
    "Neg": _of_numbers(_float_negative),
    "Floor": _of_numbers(floor),
    "Ceil": _without_minus_zero(ceil),
    "Round": _without_minus_zero(_round_half_even),
    "Sqrt": _of_numbers(_root),
    "Pow": _open,
    "Mod": _open,
}
_VARIADIC = frozenset({"Max", "Min", "Sum"})

BY_ELEMENT = frozenset({*_SCALARS, *_OF_FLOATS, "Max", "Min"})
"""The operators that `elementwise` supports."""


def wrapped(number: int, dtype: DataType) -> int:
    """Return the number of an integer type that has the same low bits."""
    row = element_type(dtype)
    return (number - int(row.min)) % (1 << row.bits) + int(row.min)


def cast_content(node: Operation) -> Content | None:
    """Compute the result of a Cast or CastLike."""
    content, source, to = node.content(0), node.types[0], node.to
    if content is None or to is None or source is None or element_type(to).kind > Kind.FLOATING:
        return None
    convert = _converter(source, to, node.derived)
    return array_of(map(convert, content.ravel().tolist()), content.shape)


def _converter(source: DataType, to: DataType, derived: Derived) -> Callable[[Element], Element]:
    row = element_type(to)

    def to_bool(element: Element) -> Element:
        sign = compared(element, 0)
        return UNKNOWN if isinstance(sign, Unknown) and _equal(element, 0) != 0 else int(_equal(element, 0) == 0)

    def to_integer(element: Element) -> Element:
        if isinstance(element, Fraction) or (isinstance(element, int) and element_type(source).kind is Kind.FLOATING):
            whole = int(element)
            return whole if row.min <= whole <= row.max else UNKNOWN
        if isinstance(element, int):
            return wrapped(element, to)
        if isinstance(element, Unknown) or holds(element, to):
            return element
        return derived.cast(element, to)

    if row.kind is Kind.BOOLEAN:
        return to_bool
    return to_integer if row.kind is Kind.INTEGER else lambda element: element
