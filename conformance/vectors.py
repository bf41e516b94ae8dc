"""A vector: one operator with its attributes, its inputs, and the output that the standard requires or leaves open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.values import WHOLE_BITS, values_for
from castsmith.numerics.cast.convert import bit_cast, cast
from castsmith.numerics.cast.settings import FIRST_OPSET, NEWEST_OPSET, policy_for
from castsmith.numerics.status import Definedness, Span, judge_cast
from castsmith.numerics.types import ELEMENT_TYPES, ElementType, Kind, Specials, element_type, type_name

Array = npt.NDArray[Any]
Attribute = int | float | str

OLDEST_OPSET = 13
"""Models import at least this opset, which all runtimes of today take."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One input: its name in the model, its elements, and the file that holds them, which vectors may share."""

    name: str
    elements: Array
    file: str

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return DataType.from_numpy(self.elements.dtype)


@dataclass(frozen=True, slots=True)
class Vector:
    """One case of the suite.

    Attributes:
        name: Unique, of letters, digits and underscores: `cast_float_to_float8e4m3fn_no_saturate`.
        op: The operator.
        opset: The opset that the model imports.
        last_opset: The newest opset at which the same inputs give the same output.
        attributes: The attributes that are not at their defaults.
        inputs: The operands; the first is the data.
        output: The elements that the standard requires; where it leaves them open, those that this program gives.
        spans: The spans of the output that the standard leaves open, or in which it is ambiguous.
        clause: The sentence of the standard that decides the other elements.
        domain: The domain of the operator; empty for the standard's.
        domain_version: The version of the domain, if it is not the standard's.
        model: The model that makes the output of the inputs, if it is not the operator alone.
    """

    name: str
    op: str
    opset: int
    last_opset: int
    attributes: Mapping[str, Attribute]
    inputs: Sequence[Operand]
    output: Array
    spans: Sequence[Span]
    clause: str
    domain: str = ""
    domain_version: int = 1
    model: bytes = b""

    @property
    def output_type(self) -> DataType:
        """The element type of the output."""
        return DataType.from_numpy(self.output.dtype)

    def defined(self) -> npt.NDArray[np.bool_]:
        """Return a mask, in the shape of the output, of the elements that the standard fixes."""
        mask = np.ones(self.output.size, np.bool_)
        for span in self.spans:
            mask[span.start : span.stop] = False
        return mask.reshape(self.output.shape)


_INTEGER_CLAUSE = "Cast: truncation toward zero within the range of the integer type"
_SAME_CLAUSE = "Cast: a value keeps its type and its bits"
_WRAP_CLAUSE = "Cast: between integers, the higher bits are discarded (two's complement)"
_BOOL_CLAUSE = "Cast: zero, of either sign, gives False, every other number True; True gives 1"
_FLOAT_CLAUSE = "Cast: the nearest number, ties to the even one (IEEE 754); beyond the range infinity"
_TABLE_CLAUSE = "Cast: the tables of float8 for saturate = {saturate}; between numbers to nearest, ties to even"
_E8M0_CLAUSE = "Cast: the table of float8e8m0 for round_mode = {mode}, saturate = {saturate}"
_SATURATING_CLAUSE = "Cast: types without infinity and NaN saturate; between numbers to nearest, ties to even"
_TEXT_CLAUSE = "Cast: the number that the text spells, rounded once"
_PRINT_CLAUSE = "Cast: a number as text in plain or scientific notation"


def clause_of(source: ElementType, target: ElementType, *, saturate: bool = True, round_mode: str = "up") -> str:
    """Return what the schema of Cast says of a conversion."""
    if source is target:
        return _SAME_CLAUSE
    if target.kind is Kind.STRING:
        return _PRINT_CLAUSE
    if source.kind is Kind.STRING:
        return _TEXT_CLAUSE
    if Kind.BOOLEAN in (source.kind, target.kind):
        return _BOOL_CLAUSE
    if target.kind is Kind.INTEGER:
        return _WRAP_CLAUSE if source.kind is Kind.INTEGER else _INTEGER_CLAUSE
    if target.specials is Specials.E8M0:
        return _E8M0_CLAUSE.format(mode=round_mode, saturate=int(saturate))
    if target.bits == 8:
        return _TABLE_CLAUSE.format(saturate=int(saturate))
    return _FLOAT_CLAUSE if target.has_infinity else _SATURATING_CLAUSE


@dataclass(frozen=True, slots=True)
class Setting:
    """Attributes of a Cast and what they are called in the names of vectors."""

    saturate: bool = True
    round_mode: str = "up"

    def attributes(self) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {} if self.saturate else {"saturate": 0}
        return attributes if self.round_mode == "up" else {**attributes, "round_mode": self.round_mode}

    def words(self) -> list[str]:
        return ([] if self.saturate else ["no_saturate"]) + ([] if self.round_mode == "up" else [self.round_mode])


_SINCE = {"Cast": 1, "CastLike": 15}
_LAST_TYPES = {"Cast": NEWEST_OPSET, "CastLike": 25}
"""CastLike has no version with the types that came later."""
_WHOLE_BITS = {"Cast": WHOLE_BITS, "CastLike": 8}
"""CastLike converts as Cast does: fewer inputs tell whether an implementation does."""
_NEVER = NEWEST_OPSET + 1
"""For types that no opset converts."""


def cast_vectors(op: str, types: Collection[DataType], opset: int | None = None) -> Iterator[Vector]:
    """Yield the vectors of Cast or CastLike between all pairs of the types, in their order.

    Args:
        op: "Cast" or "CastLike".
        types: Element types; those that the operator lacks give no vector.
        opset: The opset of the models; None for each at which a conversion changes.
    """
    for source in types:
        for target in types:
            first = max(OLDEST_OPSET, _SINCE[op], *(FIRST_OPSET.get(dtype, _NEVER) for dtype in (source, target)))
            if first > _LAST_TYPES[op]:
                continue
            for setting in settings_of(element_type(target)):
                for begin, end in _regimes(target, setting, first, opset):
                    yield _cast_vector(op, source, target, setting, (begin, end))


def settings_of(target: ElementType) -> Iterator[Setting]:
    """Yield the settings that casts to the type distinguish."""
    modes = ("up", "down", "nearest") if target.specials is Specials.E8M0 else ("up",)
    saturating = (True, False) if target.kind is Kind.FLOATING and target.bits == 8 else (True,)
    yield from (Setting(saturate, mode) for mode in modes for saturate in saturating)


def _regimes(target: DataType, setting: Setting, first: int, opset: int | None) -> list[tuple[int, int]]:
    """Return the ranges of opsets within which the conversion is the same; of `opset` alone if it is given."""
    if opset is not None:
        return [(opset, opset)] if first <= opset else []
    policies = [
        policy_for(target, saturate=setting.saturate, round_mode=setting.round_mode, opset=opset)
        for opset in range(first, NEWEST_OPSET + 1)
    ]
    begins = [first + k for k in range(len(policies)) if k == 0 or policies[k] != policies[k - 1]]
    return list(zip(begins, [*(begin - 1 for begin in begins[1:]), NEWEST_OPSET], strict=True))


def _cast_vector(op: str, source: DataType, target: DataType, setting: Setting, opsets: tuple[int, int]) -> Vector:
    begin, end = opsets
    pair = f"{type_name(source)}_to_{type_name(target)}"
    whole_bits = _WHOLE_BITS[op]
    data = values_for(source, target, whole_bits=whole_bits)
    settings: dict[str, Any] = {"saturate": setting.saturate, "round_mode": setting.round_mode, "opset": begin}
    attributes = setting.attributes()
    inputs = [Operand("input", data, _file_of(source, target, whole_bits))]
    if op == "CastLike":
        like = np.zeros(1, target.numpy()) if target is not DataType.STRING else np.array([""], object)
        inputs.append(Operand("target_type", like, f"one_{type_name(target)}"))
    else:
        attributes = {"to": int(target), **attributes}
    return Vector(
        "_".join([op.lower(), pair, *setting.words(), f"opset{begin}"]),
        op,
        begin,
        end,
        attributes,
        inputs,
        cast(data, target, **settings),
        _same_type_spans(data, setting) if source is target else judge_cast(data, target, **settings).spans(),
        clause_of(element_type(source), element_type(target), saturate=setting.saturate, round_mode=setting.round_mode),
    )


def _same_type_spans(data: Array, setting: Setting) -> list[Span]:
    """Return the infinities of a saturating cast to the same type, of which the table says FLT_MAX."""
    if data.dtype != DataType.FLOAT8E5M2.numpy() or not setting.saturate:
        return []
    reason = "the table makes infinity the maximum, and runtimes leave out a cast to the same type"
    return [Span(at, at + 1, Definedness.DISPUTED, reason) for at in np.flatnonzero(np.isinf(data)).tolist()]


def _file_of(source: DataType, target: DataType, whole_bits: int = WHOLE_BITS) -> str:
    """Return the name of the file of inputs, which all casts from one type share where its whole domain is taken."""
    name = type_name(source)
    if element_type(source).bits <= (8 if target is DataType.STRING else whole_bits):
        return name
    return f"{name}_for_{type_name(target)}" if whole_bits == WHOLE_BITS else f"{name}_like_{type_name(target)}"


_BIT_CAST_SINCE = 26


def bit_cast_vectors(types: Sequence[DataType], opset: int | None = None) -> Iterator[Vector]:
    """Yield the vectors of BitCast between the types of one width."""
    if opset is not None and opset < _BIT_CAST_SINCE:
        return
    begin = opset or _BIT_CAST_SINCE
    for source in types:
        for target in types:
            if source is target or not _same_width(element_type(source), element_type(target)):
                continue
            data = values_for(source, target)
            yield Vector(
                f"bitcast_{type_name(source)}_to_{type_name(target)}_opset{begin}",
                "BitCast",
                begin,
                opset or NEWEST_OPSET,
                {"to": int(target)},
                [Operand("input", data, _file_of(source, target))],
                bit_cast(data, target, opset=begin),
                [],
                "BitCast: the bits are kept",
            )


def _same_width(source: ElementType, target: ElementType) -> bool:
    """True if BitCast takes the types and every input gives a valid output: a bool of 8 bits is 0 or 1."""
    if Kind.STRING in (source.kind, target.kind) or target.kind is Kind.BOOLEAN:
        return False
    newest = max(FIRST_OPSET.get(row.dtype, _NEVER) for row in (source, target))
    return newest <= _BIT_CAST_SINCE and target.bits == source.stored_bits


def every_type() -> tuple[DataType, ...]:
    """Return the types that a conversion takes, in the order of the table."""
    return tuple(dtype for dtype, row in ELEMENT_TYPES.items() if row.kind is not Kind.COMPLEX)
