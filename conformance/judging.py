"""Judgement of an engine's output: right, wrong, or other where the standard leaves the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.exporting import codes_of
from castsmith.conformance.reading import from_raw
from castsmith.conformance.vectors import Vector
from castsmith.numerics.status import Definedness
from castsmith.numerics.types import element_type

Array = npt.NDArray[Any]
Status = Literal["right", "wrong", "refuses", "crashes"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """One element that differs: the input as text, what the standard requires, and what the engine gives."""

    index: int
    input: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of an engine for one vector, judged.

    Attributes:
        name: The name of the vector.
        status: Whether the elements that the standard fixes are right; or the engine refuses the vector, or crashes.
        elements: The number of elements of the output.
        wrong: Elements that the standard fixes and the engine gives otherwise.
        disputed: Elements that differ from this program's where the standard is ambiguous.
        undefined: The same where the standard says that the result is undefined.
        nan_bits: NaN with other bits than this program's; they count as right.
        first: The first wrong element.
        reason: Why the engine refuses.
    """

    name: str
    status: Status
    elements: int = 0
    wrong: int = 0
    disputed: int = 0
    undefined: int = 0
    nan_bits: int = 0
    first: Deviation | None = None
    reason: str = ""


def judge(vector: Vector, content: bytes) -> Outcome:
    """Compare the raw bytes of an engine's output with a vector."""
    try:
        actual = from_raw(content, vector.output_type, vector.output.shape).reshape(-1)
    except ValueError:
        reason = f"the output has {len(content)} bytes, which are not {vector.output.size} elements"
        return Outcome(vector.name, "refuses", reason=reason)
    expected = vector.output.reshape(-1)
    differ, other_nan = _differences(expected, actual, vector.output_type)
    counts = _by_standing(vector, differ)
    fixed = np.flatnonzero(differ & vector.defined().reshape(-1))
    first = None
    if fixed.size:
        at = int(fixed[0])
        first = Deviation(at, _input_text(vector, at), element_text(expected, at), element_text(actual, at))
    status: Status = "wrong" if fixed.size else "right"
    return Outcome(vector.name, status, expected.size, *counts, int(other_nan.sum()), first)


def _differences(expected: Array, actual: Array, dtype: DataType) -> tuple[Array, Array]:
    """Return masks of the elements with other bits that are not both NaN, and of those that are."""
    if dtype is DataType.STRING:
        return expected != actual, np.zeros(expected.shape, np.bool_)
    differ = codes_of(expected) != codes_of(actual)
    row = element_type(dtype)
    if not row.has_nan:
        return differ, np.zeros(expected.shape, np.bool_)
    with np.errstate(invalid="ignore"):
        both = np.isnan(expected) & np.isnan(actual)
    return differ & ~both, differ & both


def _by_standing(vector: Vector, differ: Array) -> tuple[int, int, int]:
    """Return how many of the elements are fixed, disputed and undefined."""
    standing = np.zeros(differ.shape, np.uint8)
    for span in vector.spans:
        standing[span.start : span.stop] = span.standing
    fixed, disputed, undefined = (int((differ & (standing == definedness)).sum()) for definedness in Definedness)
    return fixed, disputed, undefined


def _input_text(vector: Vector, at: int) -> str:
    """Return the data of an element, and of a quantization its scale and zero point."""
    data, *others = vector.inputs
    flat = data.elements.reshape(-1)
    if vector.op in ("CastLike", "Trunc"):
        return element_text(flat, at)
    shape = data.elements.shape
    index = np.unravel_index(at, shape)
    texts = [element_text(flat, at)]
    for operand in others:
        array = operand.elements
        place: tuple[Any, ...] = () if array.ndim == 0 else (index[0],)
        if array.ndim == 2:
            place = (index[0], int(index[1]) // (shape[1] // array.shape[1]))
        texts.append(f"{operand.name} {element_text(array[place].reshape(1), 0)}")
    return ", ".join(texts)


def element_text(elements: Array, at: int) -> str:
    """Return an element as text: a number with its code, so that -0, NaN and neighbours are told apart."""
    element = elements[at]
    if elements.dtype.kind in "OUST":
        return repr(str(element))
    code = int(elements[at : at + 1].view(f"u{elements.itemsize}")[0])
    if elements.dtype.kind in "biu" or "int" in elements.dtype.name:
        return str(element)
    return f"{np.float64(element)!s} (0x{code:0{2 * elements.itemsize}x})"


def count(outcomes: Sequence[Outcome]) -> dict[Status, int]:
    """Return how many vectors have each status."""
    statuses: tuple[Status, ...] = ("right", "wrong", "refuses", "crashes")
    return {status: sum(outcome.status == status for outcome in outcomes) for status in statuses}
