"""The elements of a quantization that rules catch, gathered into a status array or the worst finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from castsmith.numerics.codec import Array
from castsmith.numerics.definedness import Definedness
from castsmith.numerics.granularity import Box, folded
from castsmith.numerics.operands import Operands
from castsmith.numerics.standing import Mask
from castsmith.numerics.status import Finding

Rules = Iterator[tuple[Definedness, str, Mask]]
"""What a rule says of the elements of one box: their standing at best, the reason, and which it catches."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The elements of one box that one rule catches."""

    box: Box
    standing: Definedness
    reason: str
    caught: Mask


def marks(given: Operands, rules: Callable[[Array, Array, Array | None], Rules]) -> Iterator[Mark]:
    """The marks of all boxes; `rules` takes a part of x with its scale and zero point."""
    source = folded(given.x, given.scale, given.axis)
    source = source.astype(source.dtype.newbyteorder("="), copy=False)
    for box, scale, zero in given.pieces():
        with np.errstate(all="ignore"):
            found = [Mark(box, *rule) for rule in rules(source[box], scale, zero)]
        yield from found


def worst_of(given: Operands, found: Iterator[Mark]) -> npt.NDArray[np.uint8]:
    """The worst standing of each element, shaped as x."""
    status = np.zeros(given.x.shape, np.uint8)
    out = folded(status, given.scale, given.axis)
    for mark in found:
        part = out[mark.box]
        np.maximum(part, np.uint8(mark.standing), out=part, where=mark.caught)
    return status


def finding_of(given: Operands, found: Iterator[Mark]) -> Finding | None:
    """The first element, in C order, of the worst standing; None where no rule catches any."""
    shape = folded(given.x, given.scale, given.axis).shape
    worst: tuple[int, Mark] | None = None
    for mark in found:
        if not mark.caught.any():
            continue
        first = np.unravel_index(int(mark.caught.argmax()), mark.caught.shape)
        place = int(
            np.ravel_multi_index(tuple(int(at) + s.start for at, s in zip(first, mark.box, strict=True)), shape)
        )
        if worst is None or (mark.standing, -place) > (worst[1].standing, -worst[0]):
            worst = place, mark
    if worst is None:
        return None
    index = tuple(int(at) for at in np.unravel_index(worst[0], given.x.shape))
    return Finding(index, str(given.x[index]), worst[1].standing, worst[1].reason)
