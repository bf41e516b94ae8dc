"""Proof that two models compute the same: their values as expressions, brought to one form by facts that are proven.

`expressions` writes the values of models into a `Book`, in which what is computed in the same way has one number.
Nothing here is shared with the passes but `castsmith.numerics` and the schemas, so that it can contradict them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.prove.values import Book, Expressions, expressions

__all__ = ["Book", "Expressions", "expressions"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "values": ("Book", "Expressions", "expressions"),
        },
    )
