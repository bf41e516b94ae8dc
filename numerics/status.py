"""How firmly the standard fixes each element of a cast, and the reason where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import flag
from castsmith.numerics.cast import check_cast
from castsmith.numerics.codec import Array
from castsmith.numerics.definedness import Definedness
from castsmith.numerics.elements import code_chunks, elements_of, texts_of
from castsmith.numerics.errors import CastError
from castsmith.numerics.narrowing import widen
from castsmith.numerics.opsets import NEWEST_OPSET, Policy, policy_for
from castsmith.numerics.standing import Mask, rules_for, text_rules_for
from castsmith.numerics.strings import parse_floats
from castsmith.numerics.types import TypeLike, element_type


@dataclass(frozen=True, slots=True)
class Finding:
    """One element whose cast the standard does not fix: where it is, what it is, and why."""

    index: tuple[int, ...]
    value: str
    standing: Definedness
    reason: str


@dataclass(frozen=True, slots=True)
class _Mark:
    """The elements of one run of a tensor that one rule catches."""

    where: slice
    standing: Definedness
    reason: str
    caught: Mask


def cast_status(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> npt.NDArray[np.uint8]:
    """How firmly the standard fixes each element of `cast` with the same arguments.

    Returns an array of the shape of `input` that holds the values of Definedness. Raises as `cast` does.
    """
    elements, source, target, policy = _resolve(input, to, saturate, round_mode, opset)
    status = np.zeros(elements.size, np.uint8)
    for mark in _marks(elements, source, target, policy):
        part = status[mark.where]
        np.maximum(part, np.uint8(mark.standing), out=part, where=mark.caught)
    return status.reshape(elements.shape)


def status_reason(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> Finding | None:
    """The first element, in C order, of the worst standing in `cast` with the same arguments; None if all are DEFINED.

    Raises as `cast` does.
    """
    elements, source, target, policy = _resolve(input, to, saturate, round_mode, opset)
    worst: tuple[int, _Mark] | None = None
    for mark in _marks(elements, source, target, policy):
        if not mark.caught.any():
            continue
        place = mark.where.start + int(mark.caught.argmax())
        if worst is None or (mark.standing, -place) > (worst[1].standing, -worst[0]):
            worst = place, mark
    if worst is None:
        return None
    place, mark = worst
    index = tuple(int(i) for i in np.unravel_index(place, elements.shape))
    element = elements[index]
    shown = repr(texts_of(np.array(element))[0]) if source is DataType.STRING else str(element)
    return Finding(index, shown, mark.standing, mark.reason)


def _resolve(
    array: npt.ArrayLike, to: TypeLike, saturate: bool, round_mode: str, opset: int
) -> tuple[Array, DataType, DataType, Policy]:
    elements, source = elements_of(array)
    saturate = flag("saturate", saturate, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    return elements, source, target, policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset)


def _marks(elements: Array, source: DataType, target: DataType, policy: Policy) -> Iterator[_Mark]:
    if source is DataType.STRING:
        return _text_marks(texts_of(elements), target, policy)
    return _number_marks(elements, source, target, policy)


def _number_marks(elements: Array, source: DataType, target: DataType, policy: Policy) -> Iterator[_Mark]:
    rules, row = rules_for(source, target, policy), element_type(source)
    for where, codes in code_chunks(elements) if rules else ():
        with np.errstate(all="ignore"):
            numbers = widen(codes, row).astype(np.float64)
            marks = [_Mark(where, rule.standing, rule.reason, rule.holds(numbers)) for rule in rules]
        yield from marks


def _text_marks(texts: list[str], target: DataType, policy: Policy) -> Iterator[_Mark]:
    everywhere = slice(0, len(texts))
    for rule in text_rules_for(target):
        yield _Mark(everywhere, rule.standing, rule.reason, np.array([rule.holds(text) for text in texts], np.bool_))
    if element_type(target).exponent_bits:
        numbers = parse_floats(texts)
        for rule in rules_for(DataType.DOUBLE, target, policy):
            with np.errstate(all="ignore"):
                yield _Mark(everywhere, rule.standing, rule.reason, rule.holds(numbers))
