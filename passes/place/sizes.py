"""Numbers of elements of values, as far as shapes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import onnx_ir

from castsmith.analysis.shapes.elements import Dims
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.numerics.symbols import Poly, Symbol

_MOST = 1 << 40
"""Largest number of elements of an array; larger sizes count as this one."""


@dataclass
class Sizes:
    """Element counts: exact products of dimensions, where a symbol has its given size or the default one.

    Shapes are found on demand. A moved value of unknown size is assumed to be as large as
    the largest one that it was moved from. Sizes affect the choice, never the results.
    """

    shapes: Shapes
    default: int
    named: Mapping[str, int]
    _noted: dict[onnx_ir.Value, int] = field(default_factory=dict[onnx_ir.Value, int])
    _before_casts: dict[onnx_ir.Value, onnx_ir.Value] = field(default_factory=dict[onnx_ir.Value, onnx_ir.Value])
    """For results of casts that were looked at, the value at the beginning of the chain, which has their shape."""

    def of(self, value: onnx_ir.Value) -> int:
        """Return the number of elements. The sizes of moved values are known after `note_move` of their node."""
        if value in self._noted:
            return self._noted[value]
        shape = self._shape(value)
        if shape is None:
            return self.default
        known = [dim if isinstance(dim, int) else dim.at(self._size) for dim in shape if isinstance(dim, int | Poly)]
        return min(prod(known), _MOST)

    def dims(self, value: onnx_ir.Value) -> tuple[int | None, ...] | None:
        """Return the sizes of the axes, None for one that is not a number; None if the shape is unknown."""
        shape = self._shape(value)
        return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)

    def note_move(self, operands: Sequence[onnx_ir.Value], outputs: Sequence[onnx_ir.Value]) -> None:
        """Guess the sizes of outputs whose shape is partly unknown; called in the order of the graph.

        A symbol without a name carries no information: `?` elements out of 2 must not count as more than those 2.
        """
        for output in outputs:
            shape = self._shape(output)
            if shape is None or any(isinstance(dim, Poly) and dim.has_nameless for dim in shape):
                self._noted[output] = max(self.of(value) for value in operands)

    def _size(self, symbol: Symbol) -> int:
        return self.named.get(symbol.name, self.default)

    def _shape(self, value: onnx_ir.Value) -> Dims | None:
        passed = list[onnx_ir.Value]()
        while (source := self._before_casts.get(value) or _before_cast(value)) is not None:
            passed.append(value)
            value = source
        self._before_casts.update(dict.fromkeys(passed, value))
        return self.shapes.shape(value)


def _before_cast(value: onnx_ir.Value) -> onnx_ir.Value | None:
    """Return the value that a Cast converts to this one, which has its shape; None if no Cast makes it."""
    node = value.producer()
    if node is None or node.op_type not in CASTS or node.domain not in DEFAULT_DOMAINS:
        return None
    return node.inputs[0]


def parse_sizes(text: str) -> dict[str, int]:
    """Parse the sizes in `batch=1,N=128`. Raises ValueError for text of another form."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): int(size) for name, _, size in pairs}
