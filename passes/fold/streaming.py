"""Casts of constants that are too large to hold: judged in pieces, and computed when they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.io.streaming import computed, in_threads, is_large, pieces
from castsmith.ir.ops.moves import Dims
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.status import Finding, rules_for
from castsmith.passes.fold.conversions import CastTo, Conversion
from castsmith.passes.fold.values import Known

_Judged = tuple[Dims, Finding | None]
"""The shape of a stretch of elements, and the first of the worst status in it."""


@dataclass(frozen=True)
class Streamed:
    """A conversion of a large tensor: the result of `Conversion.finding`, and the tensor that it gives."""

    finding: Callable[[], Finding | None]
    tensor: Callable[[], onnx_ir.TensorProtocol]


def streamed_cast(conversion: Conversion, operand: Known, dtype: DataType) -> Streamed | None:
    """Return the cast to the type if the operand is large; None otherwise."""
    source = operand.tensor if operand.how is None else None
    if source is None or not is_large(source) or DataType.STRING in (source.dtype, dtype):
        return None
    if not isinstance(conversion, CastTo):
        return None
    return Streamed(partial(_cast_finding, conversion, source), partial(_cast, conversion, source))


def _cast(cast: CastTo, source: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    return computed(source, cast.to, lambda array: cast.compute([array]), source.name or "")


def _cast_finding(cast: CastTo, source: onnx_ir.TensorProtocol) -> Finding | None:
    policy = policy_for(cast.to, saturate=cast.saturate, round_mode=cast.round_mode, opset=cast.opset)
    if not rules_for(source.dtype, cast.to, policy):
        return None
    return _worst(in_threads(lambda piece: (piece.shape, cast.finding([piece])), pieces(source)), source)


def _worst(judged: Iterable[_Judged], source: onnx_ir.TensorProtocol) -> Finding | None:
    """Return the first element of the worst status in the whole tensor."""
    worst: tuple[int, Finding] | None = None
    start = 0
    for shape, stretches in judged:
        if stretches is not None and (worst is None or stretches.standing > worst[1].standing):
            worst = start + int(np.ravel_multi_index(stretches.index, shape)), stretches
        start += int(np.prod(shape))
    if worst is None:
        return None
    place, stretches = worst
    return replace(stretches, index=tuple(map(int, np.unravel_index(place, source.shape.numpy()))))
