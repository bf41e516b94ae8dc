"""Constant folding of casts, quantization and moves of their elements, with the exact codec.

Run `FoldConstants`. A node is folded only if the standard fixes every element of the result and the file does not
grow by more than the limit; large weights are computed in pieces when the file is written. `movement` gives the moves
of elements that are folded, also to other packages; `run` is the pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.fold.movement import Operands, movement_of, moves_elements
    from castsmith.passes.fold.moves import MoveError, move
    from castsmith.passes.fold.run import FoldConstants

__all__ = ["FoldConstants", "MoveError", "Operands", "move", "movement_of", "moves_elements"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "movement": ("Operands", "movement_of", "moves_elements"),
            "moves": ("MoveError", "move"),
            "run": ("FoldConstants",),
        },
    )
