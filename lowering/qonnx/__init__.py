"""The passes that replace QONNX Trunc and Quant by standard operators that give the same bits.

Run `LowerTrunc(target=...)` and `LowerQuant(target=...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.qonnx.quant import LowerQuant
    from castsmith.lowering.qonnx.trunc import LowerTrunc, round_as

__all__ = ["LowerQuant", "LowerTrunc", "round_as"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "quant": ("LowerQuant",),
            "trunc": ("LowerTrunc", "round_as"),
        },
    )
