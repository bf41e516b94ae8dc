"""Folding constants that are too large to hold: judged a piece at a time, and computed when they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.pieces import computed, in_threads, is_large, pieces, regrouped, streamed
from castsmith.numerics.codec import Array
from castsmith.numerics.granularity import require_shapes
from castsmith.numerics.opsets import policy_for
from castsmith.numerics.standing import rules_for
from castsmith.numerics.status import Finding
from castsmith.passes.fold_conversions import CastTo, Conversion
from castsmith.passes.fold_moves import Dims
from castsmith.passes.fold_quantize import DequantizeTo, QuantizeTo
from castsmith.passes.fold_runs import Run, runs
from castsmith.passes.fold_values import Known

_Judged = tuple[Dims, Finding | None]
"""The shape of a stretch of elements, and the first of the worst standing in it."""


@dataclass(frozen=True)
class Streamed:
    """A conversion of a large tensor: what `Conversion.finding` says of it, and the tensor that it gives."""

    finding: Callable[[], Finding | None]
    tensor: Callable[[], onnx_ir.TensorProtocol]


def streamed_conversion(
    conversion: Conversion, operands: Sequence[Known], dtype: DataType, array: Callable[[Known], Array]
) -> Streamed | None:
    """How to convert element by element, where the first operand is large; None for all else.

    dtype: what the conversion gives. array: the elements of an operand. Raises QuantizeError where scales do not fit.
    """
    source = operands[0].tensor if operands[0].how is None else None
    if source is None or not is_large(source) or DataType.STRING in (source.dtype, dtype):
        return None
    if isinstance(conversion, CastTo):
        return Streamed(partial(_cast_finding, conversion, source), partial(_cast, conversion, source))
    if isinstance(conversion, QuantizeTo | DequantizeTo):
        scales = [array(known) for known in operands[1:]]
        return _quantized(conversion, source, dtype, scales[0], scales[1] if len(scales) > 1 else None)
    return None


def _cast(cast: CastTo, source: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    return computed(source, cast.to, lambda array: cast.compute([array]), source.name or "")


def _cast_finding(cast: CastTo, source: onnx_ir.TensorProtocol) -> Finding | None:
    policy = policy_for(cast.to, saturate=cast.saturate, round_mode=cast.round_mode, opset=cast.opset)
    if not rules_for(source.dtype, cast.to, policy):
        return None
    return _worst(in_threads(lambda piece: (piece.shape, cast.finding([piece])), pieces(source)), source)


def _quantized(
    conversion: QuantizeTo | DequantizeTo,
    source: onnx_ir.TensorProtocol,
    dtype: DataType,
    scale: Array,
    zero: Array | None,
) -> Streamed:
    shape: Dims = tuple(source.shape.numpy())
    placeholder = np.broadcast_to(np.zeros((), source.dtype.numpy()), shape)
    require_shapes(placeholder, scale, zero, conversion.axis, conversion.block_size)

    def stretches() -> Iterator[tuple[Run, list[Array]]]:
        found = list(runs(shape, scale, zero, conversion.axis, conversion.block_size))
        for run, x in zip(found, regrouped(pieces(source), [run.size for run in found]), strict=True):
            yield run, run.arrays(x)

    def judge(stretch: tuple[Run, list[Array]]) -> _Judged:
        run, arrays = stretch
        return run.shape, _along(conversion, run).finding(arrays)

    def convert(stretch: tuple[Run, list[Array]]) -> Array:
        run, arrays = stretch
        return _along(conversion, run).compute(arrays).reshape(-1)

    return Streamed(
        lambda: _worst(in_threads(judge, stretches()), source),
        lambda: streamed(shape, dtype, lambda: in_threads(convert, stretches()), source.name or ""),
    )


def _along(conversion: QuantizeTo | DequantizeTo, run: Run) -> QuantizeTo | DequantizeTo:
    return replace(conversion, axis=run.axis, block_size=run.block_size)


def _worst(judged: Iterable[_Judged], source: onnx_ir.TensorProtocol) -> Finding | None:
    """The first element of the worst standing in all of the tensor."""
    worst: tuple[int, Finding] | None = None
    start = 0
    for shape, found in judged:
        if found is not None and (worst is None or found.standing > worst[1].standing):
            worst = start + int(np.ravel_multi_index(found.index, shape)), found
        start += int(np.prod(shape))
    if worst is None:
        return None
    place, found = worst
    return replace(found, index=tuple(map(int, np.unravel_index(place, source.shape.numpy()))))
