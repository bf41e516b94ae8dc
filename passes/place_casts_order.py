"""Casts across operators that go by the order of elements: Max, Min, MaxPool and Sign.

A cast commutes with them where it keeps the order of the values that there are, and their signs. The standard does not
say what these operators make of a NaN, or of a zero of each sign, and runtimes do it otherwise in other types:
measured, ONNX Runtime 1.31.1 and the reference implementation give other bits for NaN in float16 than in float. So the
values must be integers, as their types say or those that they were cast from; or the user says that it does not matter.

    a = Cast <to = float> (x)  # (uint8[N, 3, H, W])
    y = MaxPool (a)            # the same numbers as the Cast of MaxPool (x)
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_ir import DataType

from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import Kind, element_type
from castsmith.passes.place_casts_chains import Chain, type_of
from castsmith.passes.place_casts_plans import Choice, Mode

_NARROW = 8


def keeps_order(choice: Choice, dtype: DataType, histories: Sequence[Chain], *, any_float: bool) -> bool:
    """Whether an operator on values of `dtype` with these histories gives the same when it moves as `choice` says.

    any_float: what becomes of NaN, and of zeros of both signs, does not matter.
    """
    starts = [type_of(history[:1]) for history in histories]
    if choice.mode is Mode.BEFORE:
        return _kind(choice.dtype) is Kind.INTEGER and _monotone(choice.dtype, dtype)
    if all(_kind(start) is Kind.INTEGER for start in starts):
        return _monotone(dtype, choice.dtype) or all(embeds(start, choice.dtype) for start in starts)
    return any_float and all(embeds(start, choice.dtype) for start in starts)


def _monotone(source: DataType, to: DataType) -> bool:
    """Whether a cast of integers that are values of `source` keeps their order."""
    if _kind(to) is Kind.INTEGER:
        return _kind(source) is Kind.INTEGER and embeds(source, to)
    return _kind(to) is Kind.FLOATING and element_type(to).bits > _NARROW


def _kind(dtype: DataType) -> Kind:
    return element_type(dtype).kind
