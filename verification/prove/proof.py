"""Two models read into one book, and the outputs that have one number there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.embedding import embeds
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.prove.normal import Normal
from castsmith.verification.prove.tables import BITS_OF_NAN
from castsmith.verification.prove.values import Book, Expressions, expressions

_BY_FUNCTIONS = "by functions known for every element"


@dataclass(frozen=True)
class Held:
    """The two types in which two models hold an input or an output. by_code: as bits, not as the same number."""

    a: DataType
    b: DataType
    by_code: bool


@dataclass(frozen=True)
class Proof:
    """What is proven of two models, and their expressions in one book.

    Attributes:
        proven: The outputs that are equal for all inputs, each with the reason.
        ours: The expressions of the first model; normalized, unless both models are written alike.
        theirs: Those of the second.
    """

    proven: dict[str, str]
    book: Book
    ours: Expressions
    theirs: Expressions

    @classmethod
    def of_nothing(cls) -> Proof:
        """Return the proof of models that were not read."""
        return cls({}, Book(), Expressions({}, {}), Expressions({}, {}))


def prove(
    a: onnx_ir.Model,
    b: onnx_ir.Model,
    *,
    rules: PromotionRules | None = None,
    nan_bits: bool = False,
    held: Mapping[str, Held] | None = None,
    pause: Callable[[], None] | None = None,
) -> Proof:
    """Compare the outputs of two models of one interface as expressions.

    Args:
        rules: The promotion rules for operands that disagree.
        nan_bits: Another NaN is a difference; otherwise the payload of a NaN counts only if an operator depends on it.
        held: The inputs and outputs that have two types.
        pause: Called after each expression; what it raises ends the proof.
    """
    names = {value.name or "" for value in a.graph.outputs}
    plain = Book()
    ours, theirs = expressions(a, plain), expressions(b, plain)
    proven = dict.fromkeys(_alike(ours, theirs), "computed in the same way") if not held else dict[str, str]()
    if proven.keys() == names:
        return Proof(proven, plain, ours, theirs)
    how: dict[str, Any] = {"rules": rules, "held": held, "pause": pause}
    book, ours, theirs = normal_forms(a, b, strict=nan_bits, **how)
    alike = _alike(ours, theirs) - proven.keys()
    seeing = set[str]() if nan_bits else {name for name in alike if _looks_at_nan(book, ours.outputs[name])}
    proven |= dict.fromkeys(alike - seeing, _BY_FUNCTIONS)
    if seeing:
        _, *strictly = normal_forms(a, b, strict=True, **how)
        proven |= dict.fromkeys(_alike(*strictly) & seeing, _BY_FUNCTIONS)
    return Proof(proven, book, ours, theirs)


def normal_forms(
    a: onnx_ir.Model,
    b: onnx_ir.Model,
    *,
    rules: PromotionRules | None = None,
    strict: bool = False,
    held: Mapping[str, Held] | None = None,
    pause: Callable[[], None] | None = None,
) -> tuple[Normal, Expressions, Expressions]:
    """Return both models in one book that normalizes expressions. strict: the payload of a NaN counts."""
    book, numbers = Normal(strict=strict, rules=rules, pause=pause), held or {}
    ours = expressions(a, book)
    inputs = {value.name or "": book.input(value.name or "", value.dtype, ()) for value in a.graph.inputs}
    entering = {name: _converted(book, inputs[name], how, how.b) for name, how in numbers.items() if name in inputs}
    theirs = expressions(b, book, entering)
    for name, how in numbers.items():
        if name not in ours.outputs or name not in theirs.outputs:
            continue
        if how.by_code or embeds(how.a, how.b):
            ours.outputs[name] = _converted(book, ours.outputs[name], how, how.b)
        else:
            theirs.outputs[name] = _converted(book, theirs.outputs[name], how, how.a)
    return book, ours, theirs


def _converted(book: Normal, number: int, how: Held, dtype: DataType) -> int:
    op = ("", "BitCast" if how.by_code else "Cast", NEWEST_OPSET)
    return book.operator(op, (("to", ("INT", str(int(dtype)))),), (number,), 0, 1)


def _alike(a: Expressions, b: Expressions) -> set[str]:
    return {name for name, number in a.outputs.items() if b.outputs.get(name) == number}


def _looks_at_nan(book: Book, number: int) -> bool:
    """True if a part of the expression may distinguish NaNs."""
    stack: list[int] = [number]
    visited: set[int] = set()
    while stack:
        part = stack.pop()
        if part in visited:
            continue
        visited.add(part)
        key = book.keys[part]
        if key[0] == "function":
            if key[2].endswith(BITS_OF_NAN):
                return True
        elif key[0] == "operator" and (key[1][0] or key[1][1] == "BitCast"):
            return True
        stack += book.parts(part)
    return False
