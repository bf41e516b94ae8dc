"""Two models read into one book, and the outputs that have one number there."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.prove.normal import Normal
from castsmith.ir.prove.tables import BITS_OF_NAN
from castsmith.ir.prove.values import Book, Expressions, expressions
from castsmith.numerics.promotion import PromotionRules


def prove(
    a: onnx_ir.Model, b: onnx_ir.Model, *, rules: PromotionRules | None = None, nan_bits: bool = False
) -> dict[str, str]:
    """The outputs of two models of one interface that are equal for all inputs, each with the reason.

    rules: how operands that disagree are promoted. nan_bits: whether another NaN is a difference; without it the
    payload of a NaN counts only where something looks at it.
    """
    plain = Book()
    same = _alike(expressions(a, plain), expressions(b, plain))
    found = dict.fromkeys(same, "computed in the same way")
    strict = nan_bits
    while len(found) < len(a.graph.outputs):
        book, ours, theirs = normal_forms(a, b, rules=rules, strict=strict)
        alike = {
            name
            for name, number in ours.outputs.items()
            if name not in found and name in theirs.outputs and book.refines(number, theirs.outputs[name])
        }
        exact = {
            name
            for name in alike
            if strict or not any(_looks_at_nan(book, side.outputs[name]) for side in (ours, theirs))
        }
        found |= dict.fromkeys(exact, "by functions known for every element")
        if strict or alike == exact:
            break
        strict = True
    return found


def normal_forms(
    a: onnx_ir.Model, b: onnx_ir.Model, *, rules: PromotionRules | None = None, strict: bool = False
) -> tuple[Normal, Expressions, Expressions]:
    """Both models in one book that brings expressions to one form. strict: the payload of a NaN counts."""
    book = Normal(strict=strict, rules=rules)
    return book, expressions(a, book), expressions(b, book)


def _alike(a: Expressions, b: Expressions) -> set[str]:
    return {name for name, number in a.outputs.items() if b.outputs.get(name) == number}


def _looks_at_nan(book: Book, number: int) -> bool:
    """Whether anything that the expression is made of may tell one NaN from another."""
    stack: list[int] = [number]
    met: set[int] = set()
    while stack:
        here = stack.pop()
        if here in met:
            continue
        met.add(here)
        key = book.keys[here]
        if key[0] == "function":
            if key[2].endswith(BITS_OF_NAN):
                return True
        elif key[0] == "operator" and (key[1][0] or key[1][1] == "BitCast"):
            return True
        stack += book.parts(here)
    return False
