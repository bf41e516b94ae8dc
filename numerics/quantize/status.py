"""Status of each element of a quantization in the schemas of QuantizeLinear and DequantizeLinear, with reasons.

DISPUTED elements differ under the reading that runtimes follow, arithmetic in float whatever the type of the scale,
unless `precision` states the type; they are found by computing both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.quantize.linear import add, difference, product, quantize_piece, quotient
from castsmith.numerics.quantize.schema import Operands, Settings, dequantize_operands, quantize_operands
from castsmith.numerics.status import Definedness, Judgement, Mark, Mask, rules_for
from castsmith.numerics.types import FLOAT8_TYPES, Kind, element_type, type_name

Rules = Iterator[tuple[Definedness, str, Mask]]
"""The findings of a rule for some elements: the best status they have, the reason, and a mask."""


def judge_quantize(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None = None, **settings: Any
) -> Judgement:
    """Return the judgement of `quantize_linear` with the same arguments. Raises as it does."""
    return _judged(quantize_operands(x, scale, zero_point, Settings(**settings)), _quantize_rules)


def judge_dequantize(
    x: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike | None = None, **settings: Any
) -> Judgement:
    """Return the judgement of `dequantize_linear` with the same arguments. Raises as it does."""
    return _judged(dequantize_operands(x, scale, zero_point, Settings(**settings)), _dequantize_rules)


def _judged(operands: Operands, rules: Callable[[Operands, Array, Array, Array | None], Rules]) -> Judgement:
    def marks() -> Iterator[Mark]:
        end = 0
        for part, scale, zero in operands.pieces():
            where = slice(end, end := end + part.size)
            native = part.astype(part.dtype.newbyteorder("="), copy=False)
            with np.errstate(all="ignore"):
                marked_here = [Mark(where, *rule) for rule in rules(operands, native, scale, zero)]
            yield from marked_here

    return Judgement(operands.x, marks())


_DISPUTED, _UNDEFINED = Definedness.DISPUTED, Definedness.UNDEFINED


def _quantize_rules(operands: Operands, x: Array, scale: Array, zero: Array | None) -> Rules:
    row, name = element_type(operands.output), type_name(operands.output)
    divided = quotient(x, scale, operands.compute)
    if row.kind is Kind.INTEGER:
        yield _UNDEFINED, f"NaN has no value in {name}", np.isnan(divided)
        if operands.compute is not DataType.FLOAT:
            far = np.abs(quotient(x, scale, DataType.FLOAT)) >= 2.0**31
            yield _DISPUTED, f"the quotient saturates, and beyond int32 runtimes give the smallest {name} instead", far
    else:
        yield from _float_rules(operands, x, scale, divided, zero)
    if operands.compute is not DataType.FLOAT and not operands.stated:
        ours, theirs = (quantize_piece(x, scale, zero, operands, dtype) for dtype in (operands.compute, DataType.FLOAT))
        reason = f"the division is in {type_name(operands.compute)} here, and runtimes carry it out in float"
        yield _DISPUTED, reason, _differ(ours, theirs)


def _float_rules(operands: Operands, x: Array, scale: Array, divided: Array, zero: Array | None) -> Rules:
    saturate, opset = operands.settings.saturate, operands.settings.opset
    policy = policy_for(operands.output, saturate=saturate, round_mode="up", opset=opset)
    total = divided if zero is None else add(divided, zero, operands.compute)
    numbers = total.astype(np.float64)
    for rule in rules_for(operands.compute, operands.output, policy):
        yield rule.standing, rule.reason, rule.holds(numbers)
    yield _DISPUTED, "the sign of a NaN that the division makes is not fixed", _made_nan(divided, x, scale)
    if operands.output in FLOAT8_TYPES:
        name, same = type_name(operands.output), total.view(_bits(total)) == divided.view(_bits(divided))
        yield _DISPUTED, f"runtimes ignore the zero point of {name}, even 0, to which -0 would be added", ~same


def _bits(array: Array) -> np.dtype[Any]:
    return np.dtype(f"u{array.itemsize}")


def _dequantize_rules(operands: Operands, x: Array, scale: Array, zero: Array | None) -> Rules:
    row, from_row = element_type(operands.output), element_type(DataType.from_numpy(x.dtype))
    exact = difference(x, zero)
    ours = product(exact, scale, operands.compute)
    if zero is not None and (from_row.kind is Kind.FLOATING or from_row.dtype is DataType.INT32):
        offset = np.broadcast_to(cast(zero, DataType.DOUBLE), ours.shape)
        yield _DISPUTED, f"the zero point of {from_row.name} should be 0", ~(offset == 0)
    yield _DISPUTED, "the sign of a NaN that the product makes is not fixed", _made_nan(ours, x, scale)
    if operands.compute is not DataType.FLOAT:
        theirs = cast(product(exact, scale, DataType.FLOAT), operands.output)
        reason = f"the product is in {row.name} here, and runtimes carry it out in float"
        yield _DISPUTED, reason, _differ(ours, theirs)


def _made_nan(result: Array, *operands: Array) -> Mask:
    undefined = np.isnan(result)
    for operand in operands if undefined.any() else ():
        undefined = undefined & ~np.isnan(cast(operand, DataType.DOUBLE))
    return undefined


def _differ(ours: Array, theirs: Array) -> Mask:
    return ours.view(_bits(ours)) != theirs.view(_bits(theirs))
