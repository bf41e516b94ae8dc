"""Proof that two models compute the same, for all inputs: `prove(a, b)` names the outputs for which it holds, and why.

    proof    `prove`: two models read into one book
    values   the values of models, each written once into a `Book`: what is computed in the same way has one number
    tables   functions of one element, known for every element that there is
    normal   a book that brings expressions to one form by those functions and by what moves elements

Two outputs of one number are equal whatever is fed; nothing follows from two numbers. It covers what this program does
to models: casts removed, moved and folded, sequences of operators in place of casts, functions written out. Nothing is
shared with the passes but `castsmith.numerics` and the schemas, so that it can contradict them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.prove.proof import Held, normal_forms, prove
    from castsmith.ir.prove.values import Book, Expressions, expressions

__all__ = ["Book", "Expressions", "Held", "expressions", "normal_forms", "prove"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "proof": ("Held", "normal_forms", "prove"),
            "values": ("Book", "Expressions", "expressions"),
        },
    )
