"""Status of each element of a cast in the standard, and the reason if the standard does not fix it.

Source: the Cast schemas of opsets 1 to 28. Where they leave room, the comments at the rules state the interpretation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

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

    `holds` takes numbers in float64: exact except for 64-bit integers, of which only the sign and magnitude matter.
    """

    standing: Definedness
    reason: str
    holds: Callable[[Numbers], Mask]


@dataclass(frozen=True, slots=True)
class TextRule:
    """Strings for which `holds` are at best `standing`, for the reason given."""

    standing: Definedness
    reason: str
    holds: Callable[[str], bool]


def rules_for(source: DataType, target: DataType, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules for numbers of the type `source`, worst first; empty if every cast is DEFINED."""
    from_row, to_row = element_type(source), element_type(target)
    if source is target:
        return ()
    if to_row.kind is Kind.STRING:
        return (Rule(_DISPUTED, "runtimes print the digits of a number differently", _always),)
    if to_row.kind is Kind.INTEGER:
        return tuple(_to_integer(to_row)) if from_row.kind is not Kind.INTEGER else ()
    return tuple(_to_float(to_row, policy)) if to_row.kind is Kind.FLOATING else ()


def text_rules_for(target: DataType) -> tuple[TextRule, ...]:
    """Return the rules for text read as a number, worst first; those of `rules_for` apply to the number too."""
    row = element_type(target)
    if row.kind is Kind.STRING:
        return ()
    no_number = TextRule(_UNDEFINED, "the text is not a number", lambda text: not is_number(text))
    if row.kind is Kind.BOOLEAN:
        return no_number, TextRule(_DISPUTED, "the schema has no rule for text to bool", lambda _: True)
    return (no_number, *_text_to_integer(row)) if row.kind is Kind.INTEGER else (no_number,)


def _text_to_integer(row: ElementType) -> Iterator[TextRule]:
    name = type_name(row.dtype)
    yield TextRule(
        _UNDEFINED,
        f"the text of a floating-point number has no fixed value in {name}",
        lambda text: not is_integer(text),
    )
    yield TextRule(
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


def _always(x: Numbers) -> Mask:
    return np.ones(x.shape, np.bool_)


@dataclass(frozen=True, slots=True)
class Finding:
    """One element whose cast the standard does not fix: its position, its value, and the reason."""

    index: tuple[int, ...]
    value: str
    standing: Definedness
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The elements of one part of a tensor to which one rule applies.

    Attributes:
        where: The part: a slice, or one slice for each axis.
        standing: The best status that the elements have.
        reason: The reason for it.
        caught: A mask of the elements, in the shape of the part.
    """

    where: slice | tuple[slice, ...]
    standing: Definedness
    reason: str
    caught: Mask


def note_worst(marks: Iterable[Mark], status: npt.NDArray[np.uint8]) -> None:
    """Store the worst status of each element in `status`, which the marks cut."""
    for mark in marks:
        part = status[mark.where]
        np.maximum(part, np.uint8(mark.standing), out=part, where=mark.caught)


@dataclass(frozen=True, slots=True)
class Span:
    """Successive elements, in C order, from `start` to before `stop`, whose status has one reason."""

    start: int
    stop: int
    standing: Definedness
    reason: str


def spans_of(marks: Iterable[Mark], causes: npt.NDArray[np.int32], whole: npt.NDArray[np.int32]) -> list[Span]:
    """Return the spans that are not DEFINED, each with the worst status of its elements and the first reason for it.

    Args:
        marks: The marks.
        causes: Zeros in the shape of the tensor that the marks cut; changed.
        whole: The same elements in the shape of the result.
    """
    statuses: list[tuple[Definedness, str]] = [(Definedness.DEFINED, "")]
    worst = np.zeros(1, np.uint8)
    for mark in marks:
        if (mark.standing, mark.reason) not in statuses:
            statuses.append((mark.standing, mark.reason))
            worst = np.array([standing for standing, _ in statuses], np.uint8)
        part = causes[mark.where]
        part[mark.caught & (worst[part] < mark.standing)] = statuses.index((mark.standing, mark.reason))
    flat = whole.reshape(-1)
    starts: list[int] = np.flatnonzero(np.diff(flat, prepend=-1)).tolist()
    stops = [*starts[1:], flat.size][: len(starts)]
    values: list[int] = flat[starts].tolist()
    return [Span(a, b, *statuses[cause]) for a, b, cause in zip(starts, stops, values, strict=True) if cause]


def first_of_worst(marks: Iterable[Mark], shape: tuple[int, ...]) -> tuple[int, Mark] | None:
    """Return the place, in C order, of the first element of the worst status, and its mark; None if nothing is caught.

    Args:
        marks: The marks.
        shape: The shape of the tensor that they cut.
    """
    worst: tuple[int, Mark] | None = None
    for mark in marks:
        if not mark.caught.any():
            continue
        slices = mark.where if isinstance(mark.where, tuple) else (mark.where,)
        first = np.unravel_index(int(mark.caught.argmax()), mark.caught.shape)
        index = tuple(int(at) + part.start for at, part in zip(first, slices, strict=True))
        place = int(np.ravel_multi_index(index, shape))
        if worst is None or (mark.standing, -place) > (worst[1].standing, -worst[0]):
            worst = place, mark
    return worst


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
    elements, source, target, policy = _resolve(input, to, saturate, round_mode, opset)
    status = np.zeros(elements.size, np.uint8)
    note_worst(_marks(elements, source, target, policy), status)
    return status.reshape(elements.shape)


def status_reason(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> Finding | None:
    """Return the first element, in C order, of the worst status in `cast`; None if all are DEFINED.

    Raises as `cast` does.
    """
    elements, source, target, policy = _resolve(input, to, saturate, round_mode, opset)
    worst = first_of_worst(_marks(elements, source, target, policy), (elements.size,))
    if worst is None:
        return None
    place, mark = worst
    index = tuple(int(i) for i in np.unravel_index(place, elements.shape))
    element = elements[index]
    shown = repr(texts_of(np.array(element))[0]) if source is DataType.STRING else str(element)
    return Finding(index, shown, mark.standing, mark.reason)


def cast_spans(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> list[Span]:
    """Return the spans of `input`, in C order, whose cast the standard does not fix, each with the reason.

    Raises as `cast_status` does.
    """
    elements, source, target, policy = _resolve(input, to, saturate, round_mode, opset)
    causes = np.zeros(elements.size, np.int32)
    return spans_of(_marks(elements, source, target, policy), causes, causes)


def _resolve(
    array: npt.ArrayLike, to: TypeLike, saturate: bool, round_mode: str, opset: int
) -> tuple[Array, DataType, DataType, Policy]:
    elements, source = elements_of(array)
    saturate = flag("saturate", saturate, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    return elements, source, target, policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset)


def _marks(elements: Array, source: DataType, target: DataType, policy: Policy) -> Iterator[Mark]:
    if source is DataType.STRING:
        return _text_marks(texts_of(elements), target, policy)
    return _number_marks(elements, source, target, policy)


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
