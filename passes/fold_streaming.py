"""Folding casts of constants that are too large to hold: judged a piece at a time, and computed when they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.pieces import computed, in_threads, is_large, pieces
from castsmith.numerics.codec import Array
from castsmith.numerics.opsets import policy_for
from castsmith.numerics.standing import rules_for
from castsmith.numerics.status import Finding
from castsmith.passes.fold_conversions import CastTo, Conversion
from castsmith.passes.fold_values import Known


def streamed_source(conversion: Conversion, operands: Sequence[Known]) -> onnx_ir.TensorProtocol | None:
    """The tensor that the conversion converts element by element, where it is large; None for all else."""
    if not isinstance(conversion, CastTo) or operands[0].how is not None:
        return None
    source = operands[0].tensor
    if source is None or not is_large(source) or DataType.STRING in (source.dtype, conversion.to):
        return None
    return source


def finding_in_pieces(cast: CastTo, source: onnx_ir.TensorProtocol) -> Finding | None:
    """What `cast.finding` says of the whole tensor: the first element of the worst standing."""
    policy = policy_for(cast.to, saturate=cast.saturate, round_mode=cast.round_mode, opset=cast.opset)
    if not rules_for(source.dtype, cast.to, policy):
        return None
    worst: tuple[int, Finding] | None = None
    start = 0
    for size, found in in_threads(lambda piece: (piece.size, cast.finding([piece])), pieces(source)):
        if found is not None and (worst is None or found.standing > worst[1].standing):
            worst = start + found.index[0], found
        start += size
    if worst is None:
        return None
    place, found = worst
    index = tuple(map(int, np.unravel_index(place, source.shape.numpy())))
    return Finding(index, found.value, found.standing, found.reason)


def cast_in_pieces(cast: CastTo, source: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """The tensor that the cast gives, to be computed when it is asked for."""
    return computed(source, cast.to, partial(_convert, cast), source.name or "")


def _convert(cast: CastTo, array: Array) -> Array:
    return cast.compute([array])
