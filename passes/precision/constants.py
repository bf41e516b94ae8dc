"""Constants in another precision: the effects of rounding, the constants that fit, and tensors rounded when written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.io.streaming import computed, in_threads, is_large, is_stored, pieces, rounded_from
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import element_type, type_name

Array = NDArray[Any]

MASK = -1e5
"""Upper bound of mask values of scores that the precision lacks; attention fills with -1e9 or finfo.min."""

MOST_LOST = 0.5
"""Largest share of a constant's elements that may become zero or subnormal before the constant keeps its type.

Trained weights hold many elements that are negligible beside the largest; an epsilon is one that is not.
"""


_CACHED = 1 << 16
"""Elements that are counted at a time."""


@dataclass(frozen=True)
class Limits:
    """The numbers at which the effect of rounding to a type changes, as double.

    Attributes:
        overflow: The least magnitude that becomes infinity.
        vanish: The greatest magnitude that becomes zero.
        normal: The least normal number.
        lowest: The least finite number.
    """

    overflow: float
    vanish: float
    normal: float
    lowest: float


@cache
def limits(to: DataType) -> Limits:
    """Return the limits of a precision, which has infinities and subnormal numbers."""
    row = element_type(to)
    step = 2.0 ** (row.bias - row.mantissa_bits)
    return Limits(float(row.max) + step / 2, float(row.quantum) / 2, 2.0**row.min_exponent, -float(row.max))


@dataclass(frozen=True)
class RoundingLoss:
    """The effects of rounding on the elements of a constant.

    Attributes:
        overflow: The number of finite elements that become infinity.
        masks: Those of them, and negative infinities, that are mask values.
        lost: The number of elements that become zero.
        subnormal: The number of elements that keep fewer bits.
        plain: True if the other elements are 0 and 1.
        greatest: The largest magnitude.
    """

    elements: int
    overflow: int = 0
    masks: int = 0
    lost: int = 0
    subnormal: int = 0
    plain: bool = True
    greatest: float = 0.0

    def with_others(self, other: RoundingLoss) -> RoundingLoss:
        """Return the effects on these elements and on others."""
        return RoundingLoss(
            self.elements + other.elements,
            self.overflow + other.overflow,
            self.masks + other.masks,
            self.lost + other.lost,
            self.subnormal + other.subnormal,
            self.plain and other.plain,
            max(self.greatest, other.greatest),
        )

    @property
    def is_mask(self) -> bool:
        """True if all overflowing elements are mask values, and the others are 0 or 1."""
        return self.masks > 0 and self.plain


@dataclass(frozen=True)
class Carried:
    """Facts about a value computed from constants.

    Attributes:
        unfit: The reason why it must not be converted.
        masks: The constants with mask values in it.
        counts: True if it is computed only from integers, predicates and constants.
        integers: The reason why integers among them do not fit the precision.
    """

    unfit: str = ""
    masks: tuple[onnx_ir.Value, ...] = ()
    counts: bool = False
    integers: bool = False
    constant: bool = False


NOTHING = Carried()


def rounding_loss(tensor: onnx_ir.TensorProtocol, to: DataType) -> RoundingLoss:
    """Return the effects of rounding the constant to the type; it is read once, in pieces."""
    if embeds(tensor.dtype, to):
        return RoundingLoss(tensor.size, plain=False)
    total, within = RoundingLoss(0), limits(to)

    def of_piece(piece: Array) -> list[RoundingLoss]:
        return list(_losses_of_parts(piece, within))

    for part in in_threads(of_piece, pieces(tensor)) if is_large(tensor) else map(of_piece, pieces(tensor)):
        for loss in part:
            total = total.with_others(loss)
    return total


class RoundingLosses:
    """The effects of rounding constants to a type, found once for each."""

    def __init__(self, to: DataType) -> None:
        self.to = to
        self._losses = dict[onnx_ir.TensorProtocol, RoundingLoss]()

    def of(self, tensor: onnx_ir.TensorProtocol) -> RoundingLoss:
        """Return the effects on the constant."""
        if tensor not in self._losses:
            self._losses[tensor] = rounding_loss(tensor, self.to)
        return self._losses[tensor]


def _losses_of_parts(piece: Array, bounds: Limits) -> Iterator[RoundingLoss]:
    """Yield the losses of parts that stay in the cache of a processor while they are counted."""
    if piece.dtype.itemsize < 4 or piece.dtype.kind != "f":
        piece = piece.astype(np.float32)
    return (_loss_of_part(piece[start : start + _CACHED], bounds) for start in range(0, piece.size, _CACHED))


def _loss_of_part(piece: Array, bounds: Limits) -> RoundingLoss:
    """Return the effects on some elements."""
    sizes = np.abs(piece)
    greatest = float(np.fmax.reduce(sizes))
    small = int(np.count_nonzero(sizes < bounds.normal))
    zeros = piece.size - int(np.count_nonzero(piece)) if small else 0
    lost = int(np.count_nonzero(sizes <= bounds.vanish)) - zeros if small else 0
    subnormal = small - zeros - lost
    if not greatest >= bounds.overflow:
        plain = piece[0] in (0, 1) and bool(np.all((piece == 0) | (piece == 1)))
        return RoundingLoss(piece.size, lost=lost, subnormal=subnormal, plain=plain, greatest=greatest)
    too_large = sizes >= bounds.overflow
    overflow = int(np.count_nonzero(too_large & np.isfinite(piece)))
    masks = (piece <= MASK) & too_large
    unmasked = piece[~masks]
    plain = bool(np.all((unmasked == 0) | (unmasked == 1)))
    finite_masks = int(np.count_nonzero(masks))
    return RoundingLoss(piece.size, overflow, finite_masks, lost, subnormal, plain, greatest)


def unfit(name: str, loss: RoundingLoss, to: DataType) -> str:
    """Return the reason why the constant keeps its type; empty if it fits the precision."""
    if loss.overflow:
        return f"{loss.overflow} of {loss.elements} elements of {name} exceed {type_name(to)}"
    lost = loss.subnormal + loss.lost
    if lost > MOST_LOST * loss.elements:
        what = "lose bits" if loss.subnormal else "become zero"
        return f"{lost} of {loss.elements} elements of {name} {what} in {type_name(to)}"
    return ""


def rounded(
    tensor: onnx_ir.TensorProtocol, to: DataType, opset: int, name: str, *, within: DataType | None = None
) -> onnx_ir.TensorProtocol:
    """Return the constant rounded once to the type; a large one is rounded when it is written.

    Args:
        within: The type whose lowest and largest numbers are bounds; None: overflow becomes infinity.
    """

    def convert(array: Array) -> Array:
        if within is not None:
            largest = np.asarray(-limits(within).lowest, array.dtype)
            array = np.clip(array, -largest, largest)
        return array if DataType.from_numpy(array.dtype) == to else cast(array, to, opset=max(opset, 6))

    if is_large(tensor) or is_stored(tensor):
        lazy = computed(tensor, to, convert, name)
        return lazy if within is not None else rounded_from(lazy, tensor)
    return onnx_ir.tensor(np.array(convert(tensor.numpy()), order="C"), dtype=to, name=name)
