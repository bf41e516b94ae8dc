"""Status of each element of a cast in the standard, and the reason if the standard does not fix it.

Source: the Cast schemas of opsets 1 to 28. Where they leave room, the comments at the rules state the interpretation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import flag
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import check_cast, code_chunks, elements_of, texts_of
from castsmith.numerics.cast.narrowing import widen
from castsmith.numerics.cast.settings import NEWEST_OPSET, Policy, policy_for
from castsmith.numerics.cast.strings import fits, is_integer, is_number, parse_floats
from castsmith.numerics.errors import CastError
from castsmith.numerics.types import ElementType, Kind, Specials, TypeLike, element_type, type_name


class Definedness(enum.IntEnum):
    """Status of one element of a result in the ONNX standard.

    DEFINED: the schema fixes the bits. DISPUTED: the schema is ambiguous, or runtimes disagree. UNDEFINED: the schema
    says that the result is undefined. The values are ordered by severity, so that the maximum over a tensor is the
    status of the whole.
    """

    DEFINED = 0
    DISPUTED = 1
    UNDEFINED = 2


Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_DISPUTED, _UNDEFINED = Definedness.DISPUTED, Definedness.UNDEFINED


@dataclass(frozen=True, slots=True)
class Rule:
    """Elements for which `holds` are at best `standing`, for the reason given.

    `holds` takes numbers in float64, exact except for 64-bit integers, of which only the sign and magnitude matter; a
    rule for text takes one text.
    """

    standing: Definedness
    reason: str
    holds: Callable[[Any], Any]


def rules_for(source: DataType, target: DataType, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules for numbers of the type `source`, worst first; empty if every cast is DEFINED."""
    from_row, to_row = element_type(source), element_type(target)
    if source is target:
        return ()
    if to_row.kind is Kind.STRING:
        return (
            Rule(_DISPUTED, "runtimes print the digits of a number differently", lambda x: np.ones(x.shape, np.bool_)),
        )
    if to_row.kind is Kind.INTEGER:
        return tuple(_to_integer(to_row)) if from_row.kind is not Kind.INTEGER else ()
    return tuple(_to_float(to_row, policy)) if to_row.kind is Kind.FLOATING else ()


def text_rules_for(target: DataType) -> tuple[Rule, ...]:
    """Return the rules for text read as a number, worst first; those of `rules_for` apply to the number too."""
    row = element_type(target)
    if row.kind is Kind.STRING:
        return ()
    no_number = Rule(_UNDEFINED, "the text is not a number", lambda text: not is_number(text))
    if row.kind is Kind.BOOLEAN:
        return no_number, Rule(_DISPUTED, "the schema has no rule for text to bool", lambda _: True)
    return (no_number, *_text_to_integer(row)) if row.kind is Kind.INTEGER else (no_number,)


def _text_to_integer(row: ElementType) -> Iterator[Rule]:
    name = type_name(row.dtype)
    yield Rule(
        _UNDEFINED,
        f"the text of a floating-point number has no fixed value in {name}",
        lambda text: not is_integer(text),
    )
    yield Rule(
        _UNDEFINED,
        f"the number is out of range for {name}, which holds {row.min} to {row.max}",
        lambda text: is_integer(text) and not fits(text, row),
    )


def _to_integer(row: ElementType) -> Iterator[Rule]:
    """Truncate, so that 127.9 is within int8; below 8 bits the runtimes also round, in two ways."""
    name = type_name(row.dtype)
    low, end = float(row.min), float(row.max + 1)
    yield Rule(_UNDEFINED, f"NaN has no value in {name}", np.isnan)
    yield Rule(_UNDEFINED, f"infinity is out of range for {name}", np.isinf)
    yield Rule(
        _UNDEFINED,
        f"the number is out of range for {name}, which holds {row.min} to {row.max}",
        lambda x: (np.trunc(x) < low) | (np.trunc(x) >= end),
    )
    if row.bits < 8:
        yield Rule(
            _DISPUTED,
            f"truncation and rounding differ here, and runtimes disagree on which to use for {name}",
            lambda x: np.abs(x - np.trunc(x)) >= 0.5,
        )


def _to_float(row: ElementType, policy: Policy) -> Iterator[Rule]:
    name = type_name(row.dtype)
    if row.specials is Specials.E8M0:
        yield from _to_e8m0(row, policy)
    if not row.has_nan:
        yield Rule(_UNDEFINED, f"{name} has no NaN, and no rule says what replaces one", np.isnan)
    if policy.saturate and not policy.infinity_saturates:
        reason = f"before opset 24 the schema makes infinity NaN in {name}, and runtimes make it the maximum"
        yield Rule(_DISPUTED, reason, np.isinf)


def _to_e8m0(row: ElementType, policy: Policy) -> Iterator[Rule]:
    """Read the two columns of the schema's table, saturating up and not saturating to nearest, as one rule.

    Disputed are the corners that a column does not define, or where the reference evaluator departs from it: zero (the
    table makes it 0, which the type lacks), infinity, numbers below the minimum, and those above it without saturation.
    """
    low, high = float(row.min), float(row.max)
    tabled = not policy.saturate and policy.round_mode == "nearest"
    yield Rule(_UNDEFINED, "the cast of a negative number to float8e8m0 is unspecified", lambda x: x < 0)
    yield Rule(_UNDEFINED, "the cast of -0 to float8e8m0 is unspecified", lambda x: (x == 0) & np.signbit(x))
    yield Rule(_DISPUTED, "float8e8m0 has no zero", lambda x: x == 0)
    yield Rule(_DISPUTED, "the number is below the smallest float8e8m0", lambda x: (x > 0) & (x < low))
    if not tabled:
        yield Rule(_DISPUTED, "float8e8m0 has no infinity", np.isposinf)
    if not policy.saturate:
        yield Rule(_DISPUTED, "the number is above the largest float8e8m0", lambda x: (x > high) & np.isfinite(x))


@dataclass(frozen=True, slots=True)
class Finding:
    """One element whose cast the standard does not fix: its position, its value, and the reason."""

    index: tuple[int, ...]
    value: str
    standing: Definedness
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The elements of one part of a tensor, in C order, to which one rule applies.

    Attributes:
        where: The part.
        standing: The best status that the elements have.
        reason: The reason for it.
        caught: A mask of the elements of the part, in any shape.
    """

    where: slice
    standing: Definedness
    reason: str
    caught: Mask


@dataclass(frozen=True, slots=True)
class Span:
    """Successive elements, in C order, from `start` to before `stop`, whose status has one reason."""

    start: int
    stop: int
    standing: Definedness
    reason: str


class Judgement:
    """What the standard says of each element of a result: an array, the first of the worst status, or spans."""

    def __init__(self, elements: Array, marks: Iterable[Mark]) -> None:
        """Judge a result by the marks of its operand's elements; the first that gives the worst status counts."""
        self._elements = elements
        self._verdicts: list[tuple[Definedness, str]] = [(Definedness.DEFINED, "")]
        self._causes = np.zeros(elements.size, np.uint8)
        for mark in marks:
            if not mark.caught.any():
                continue
            if (mark.standing, mark.reason) not in self._verdicts:
                self._verdicts.append((mark.standing, mark.reason))
            part = self._causes[mark.where]
            worse = mark.caught.reshape(-1) & (self._worst[part] < mark.standing)
            part[worse] = self._verdicts.index((mark.standing, mark.reason))

    @property
    def _worst(self) -> npt.NDArray[np.uint8]:
        return np.array([standing for standing, _ in self._verdicts], np.uint8)

    def status(self) -> npt.NDArray[np.uint8]:
        """Return the status of each element, as values of Definedness, in the shape of the operand."""
        return self._worst[self._causes].reshape(self._elements.shape)

    def finding(self) -> Finding | None:
        """Return the first element, in C order, of the worst status; None if all elements are DEFINED."""
        if len(self._verdicts) == 1:
            return None
        place = int(self._worst[self._causes].argmax())
        index = tuple(int(i) for i in np.unravel_index(place, self._elements.shape))
        element = self._elements[index]
        shown = repr(texts_of(np.array(element))[0]) if self._elements.dtype.kind in "OUST" else str(element)
        return Finding(index, shown, *self._verdicts[int(self._causes[place])])

    def spans(self) -> list[Span]:
        """Return the spans of elements that the standard does not fix, with the reasons."""
        starts: list[int] = np.flatnonzero(np.diff(self._causes.astype(np.int16), prepend=-1)).tolist()
        stops = [*starts[1:], self._causes.size][: len(starts)]
        causes: list[int] = self._causes[starts].tolist()
        return [Span(a, b, *self._verdicts[cause]) for a, b, cause in zip(starts, stops, causes, strict=True) if cause]


def cast_status(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> npt.NDArray[np.uint8]:
    """Return the status of each element of `cast` with the same arguments.

    Args:
        input: An array of any shape and layout, as in `cast`.
        to: The element type, as in `cast`.
        saturate: The attribute `saturate` of Cast.
        round_mode: The attribute `round_mode` of Cast.
        opset: The opset whose Cast is meant.

    Returns:
        An array of the shape of `input` that holds values of Definedness.

    Raises:
        ElementTypeError: Cast does not support a type at `opset`.
        CastError: Cast does not have these settings.
    """
    return judge_cast(input, to, saturate=saturate, round_mode=round_mode, opset=opset).status()


def status_reason(input: npt.ArrayLike, to: TypeLike, **settings: Any) -> Finding | None:
    """Return the first element, in C order, of the worst status in `cast`; None if all are DEFINED.

    Arguments and errors are those of `cast_status`.
    """
    return judge_cast(input, to, **settings).finding()


def judge_cast(
    input: npt.ArrayLike, to: TypeLike, *, saturate: bool = True, round_mode: str = "up", opset: int = NEWEST_OPSET
) -> Judgement:
    """Return the judgement of `cast` with the same arguments; raises as it does."""
    elements, source = elements_of(input)
    saturate = flag("saturate", saturate, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    policy = policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset)
    if source is DataType.STRING:
        return Judgement(elements, _text_marks(texts_of(elements), target, policy))
    return Judgement(elements, _number_marks(elements, source, target, policy))


def _number_marks(elements: Array, source: DataType, target: DataType, policy: Policy) -> Iterator[Mark]:
    rules, row = rules_for(source, target, policy), element_type(source)
    for where, codes in code_chunks(elements) if rules else ():
        with np.errstate(all="ignore"):
            numbers = widen(codes, row).astype(np.float64)
            marks = [Mark(where, rule.standing, rule.reason, rule.holds(numbers)) for rule in rules]
        yield from marks


def _text_marks(texts: list[str], target: DataType, policy: Policy) -> Iterator[Mark]:
    everywhere = slice(0, len(texts))
    for rule in text_rules_for(target):
        yield Mark(everywhere, rule.standing, rule.reason, np.array([rule.holds(text) for text in texts], np.bool_))
    if element_type(target).exponent_bits:
        numbers = parse_floats(texts)
        for rule in rules_for(DataType.DOUBLE, target, policy):
            with np.errstate(all="ignore"):
                yield Mark(everywhere, rule.standing, rule.reason, rule.holds(numbers))
