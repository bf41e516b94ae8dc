"""Numbers of the source text: rank-0 constants that keep their value without widening the other operands.

An exporter writes the 1.5 of `x + 1.5` as a constant of some type, mostly wider than `x`. If `weak_scalars` is set:
- a constant of the same or a lower kind is ignored if the common type of the others holds its value exactly;
- a constant of a higher kind takes the library's own type for such numbers (float32 for a float in PyTorch) if that
  type holds its value exactly;
- an integer that the common type does not hold counts as dimensioned, so that it widens the others and does not wrap
  (PyTorch refuses it, or wraps it, depending on its origin);
- any other constant is an ordinary operand.

Source: PyTorch's "wrapped numbers" (torch.result_type with Python numbers), NumPy's NEP 50, JAX's weak types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.common import Operand, common_type
from castsmith.numerics.promotion.libraries import library_of
from castsmith.numerics.promotion.rules import PromotionRules, Rank
from castsmith.numerics.types import Kind, element_type, parse_type

Scalar = Any
"""A numpy scalar or rank-0 array of any element type."""

_NUMERIC = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOATING)


def common_type_of_constants(
    operands: Sequence[tuple[DataType, Rank, Scalar | None]], rules: PromotionRules
) -> DataType | None:
    """Return the common type as `common_type` does; rank-0 constant operands carry their value, the others None."""
    if rules.half_constants:
        operands = _without_half_constants(operands)
        operands = [
            (dtype, rank, None if value is None or np.ndim(value) else value) for dtype, rank, value in operands
        ]
    plain: list[Operand] = [(dtype, rank) for dtype, rank, _ in operands]
    strong: list[Operand] = [(dtype, rank) for dtype, rank, value in operands if value is None]
    if not rules.weak_scalars or len(strong) in (0, len(operands)):
        return common_type(plain, rules)
    base = common_type(strong, rules)
    if base is None:
        return common_type(plain, rules)
    weak = [(dtype, rank, value) for dtype, rank, value in operands if value is not None]
    return common_type([*strong, *(kept for pair in weak if (kept := _kept(*pair, base, rules)))], rules)


def _without_half_constants(
    operands: Sequence[tuple[DataType, Rank, Scalar | None]],
) -> Sequence[tuple[DataType, Rank, Scalar | None]]:
    """Return the operands without the constants that give way to 16-bit operands, and to no others."""
    strong = {dtype for dtype, _, value in operands if value is None}
    if len(strong) != 1 or not strong <= {DataType.FLOAT16, DataType.BFLOAT16}:
        return operands
    (half,) = strong
    return [operand for operand in operands if operand[2] is None or not fits(operand[2], operand[0], half)]


def fits(value: Scalar, dtype: DataType, half: DataType) -> bool:
    """True if rounding a floating-point constant to the type makes no infinity, and not all of it zero."""
    array = np.asarray(value)
    if element_type(dtype).kind is not Kind.FLOATING or not array.size:
        return False
    converted = cast(array, half).astype(np.float64)
    numbers = array.astype(np.float64)
    return bool(np.array_equal(np.isfinite(converted), np.isfinite(numbers)) and (converted.any() or not numbers.any()))


def _kept(dtype: DataType, rank: Rank, value: Scalar, base: DataType, rules: PromotionRules) -> Operand | None:
    """Return the operand as which the constant counts, or None if it does not count.

    A rank above 0 belongs to a parameter, which is stored and not an operand of arithmetic: it always counts.
    """
    kind, base_kind = element_type(dtype).kind, element_type(base).kind
    if kind not in _NUMERIC or base_kind not in _NUMERIC:
        return dtype, rank
    library = library_of("torch" if rules.library == "openvino" else rules.library)
    default = parse_type(library.weak_float if kind is Kind.FLOATING else library.weak_integer)
    stand_in = default if kind > base_kind else base
    if holds(value, dtype, stand_in):
        return (stand_in, rank) if kind > base_kind else None
    return dtype, int(bool(rank) or kind is base_kind is Kind.INTEGER)


def holds(value: Scalar, dtype: DataType, target: DataType) -> bool:
    """True if `value`, of type `dtype`, is a value of `target`."""
    row = element_type(target)
    if row.kind is Kind.FLOATING:
        converted = cast(np.asarray(value), target)
        exact = float if element_type(dtype).kind is Kind.FLOATING else int
        back = float(converted)
        if not np.isfinite(back):
            return str(back) == str(float(value))
        return exact(value) == (int(back) if exact is int and back.is_integer() else back)
    number = float(value)
    return np.isfinite(number) and number.is_integer() and row.min <= int(value) <= row.max
