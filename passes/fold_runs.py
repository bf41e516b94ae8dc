"""QuantizeLinear and DequantizeLinear of constants that are too large to hold: runs of elements, each with its scales.

A tensor is seen as its sizes before, along and after the axis. A run is a stretch of it in C order:

    one scale for all                          any stretch
    a scale for each slice along the axis      whole stretches before the axis, or whole slices of one, or a part of one
    a scale for each block along the axis      whole stretches before the axis, or whole blocks of one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from castsmith.ir import pieces
from castsmith.numerics.codec import Array
from castsmith.numerics.granularity import folded_shape, is_scalar
from castsmith.passes.fold_moves import Dims


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """Elements of `shape`, with their scales and zero points as the operators take them along `axis`."""

    shape: Dims
    scale: Array
    zero: Array | None
    axis: int = 0
    block_size: int = 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    def arrays(self, x: Array) -> list[Array]:
        """The operands of the run, `x` its elements in C order."""
        return [x.reshape(self.shape), self.scale, *(() if self.zero is None else (self.zero,))]


def runs(shape: Dims, scale: Array, zero: Array | None, axis: int, block_size: int) -> Iterator[Run]:
    """The runs of a tensor of `shape`, in order, of about a piece each. Its operands fit together."""
    if is_scalar(scale):
        scales = scale.reshape(()), None if zero is None else zero.reshape(())
        for start in range(0, prod(shape), pieces.PIECE):
            yield Run((min(pieces.PIECE, prod(shape) - start),), *scales)
    elif scale.ndim == 1 and not (block_size and len(shape) == 1):
        yield from _slices(folded_shape(shape, axis), scale, zero)
    else:
        yield from _blocks(folded_shape(shape, axis), scale, zero, block_size)


def _slices(sizes: tuple[int, int, int], scale: Array, zero: Array | None) -> Iterator[Run]:
    before, along, after = sizes
    stretches, slices = pieces.PIECE // max(along * after, 1), pieces.PIECE // max(after, 1)
    for first in range(0, before, max(stretches, 1)):
        if stretches:
            yield Run((min(stretches, before - first), along, after), scale, zero, 1)
            continue
        for place in range(0, along, max(slices, 1)):
            here = slice(place, min(place + max(slices, 1), along))
            if slices:
                yield Run((here.stop - place, after), scale[here], None if zero is None else zero[here])
                continue
            for start in range(0, after, pieces.PIECE):
                length = min(pieces.PIECE, after - start)
                yield Run((length,), scale[place], None if zero is None else zero[place])


def _blocks(sizes: tuple[int, int, int], scale: Array, zero: Array | None, block_size: int) -> Iterator[Run]:
    before, along, after = sizes
    count = -(-along // block_size)
    scales = scale.reshape(before, count, after)
    zeros = None if zero is None else zero.reshape(before, count, after)
    together = pieces.PIECE // max(along * after, 1)
    for first in range(0, before, max(together, 1)):
        if together:
            here = slice(first, min(first + together, before))
            shape = (here.stop - first, along, after)
            yield Run(shape, scales[here], None if zeros is None else zeros[here], 1, block_size)
            continue
        step = max(pieces.PIECE // (block_size * after), 1)
        for block in range(0, count, step):
            here = slice(block, block + step)
            shape = (min((block + step) * block_size, along) - block * block_size, after)
            yield Run(shape, scales[first, here], None if zeros is None else zeros[first, here], 0, block_size)
