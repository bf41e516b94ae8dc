"""Folding of constants that are too large to hold: judged in pieces, and computed when they are saved.

A tensor is seen as its sizes before, along and after the axis. A run is a stretch of it in C order, with its scales:

    one scale for all                          any stretch
    a scale for each slice along the axis      whole stretches before the axis, or whole slices of one, or part of one
    a scale for each block along the axis      whole stretches before the axis, or whole blocks of one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.io.streaming import computed, in_threads, is_large, piece_elements, pieces, regrouped, streamed
from castsmith.ir.ops.moves import Dims
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.quantize.granularity import folded_shape, is_scalar, require_shapes
from castsmith.numerics.status import Finding, rules_for
from castsmith.passes.fold.conversions import CastTo, Conversion, DequantizeTo, QuantizeTo
from castsmith.passes.fold.values import Known


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """Elements of `shape`, with their scales and zero points in the form that the operators expect along `axis`."""

    shape: Dims
    scale: Array
    zero: Array | None
    axis: int = 0
    block_size: int = 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    def arrays(self, x: Array) -> list[Array]:
        """Return the operands of the run, `x` its elements in C order."""
        return [x.reshape(self.shape), self.scale, *(() if self.zero is None else (self.zero,))]


def runs(shape: Dims, scale: Array, zero: Array | None, axis: int, block_size: int) -> Iterator[Run]:
    """Yield the runs of a tensor of `shape`, in order, of about a piece each. Its operands fit together."""
    if is_scalar(scale):
        scales = scale.reshape(()), None if zero is None else zero.reshape(())
        for start in range(0, prod(shape), piece_elements()):
            yield Run((min(piece_elements(), prod(shape) - start),), *scales)
    elif scale.ndim == 1 and not (block_size and len(shape) == 1):
        yield from _slices(folded_shape(shape, axis), scale, zero)
    else:
        yield from _blocks(folded_shape(shape, axis), scale, zero, block_size)


def _slices(sizes: tuple[int, int, int], scale: Array, zero: Array | None) -> Iterator[Run]:
    before, along, after = sizes
    stretches, slices = piece_elements() // max(along * after, 1), piece_elements() // max(after, 1)
    for first in range(0, before, max(stretches, 1)):
        if stretches:
            yield Run((min(stretches, before - first), along, after), scale, zero, 1)
            continue
        for place in range(0, along, max(slices, 1)):
            here = slice(place, min(place + max(slices, 1), along))
            if slices:
                yield Run((here.stop - place, after), scale[here], None if zero is None else zero[here])
                continue
            for start in range(0, after, piece_elements()):
                length = min(piece_elements(), after - start)
                yield Run((length,), scale[place], None if zero is None else zero[place])


def _blocks(sizes: tuple[int, int, int], scale: Array, zero: Array | None, block_size: int) -> Iterator[Run]:
    before, along, after = sizes
    count = -(-along // block_size)
    scales = scale.reshape(before, count, after)
    zeros = None if zero is None else zero.reshape(before, count, after)
    together = piece_elements() // max(along * after, 1)
    for first in range(0, before, max(together, 1)):
        if together:
            here = slice(first, min(first + together, before))
            shape = (here.stop - first, along, after)
            yield Run(shape, scales[here], None if zeros is None else zeros[here], 1, block_size)
            continue
        step = max(piece_elements() // (block_size * after), 1)
        for block in range(0, count, step):
            here = slice(block, block + step)
            shape = (min((block + step) * block_size, along) - block * block_size, after)
            yield Run(shape, scales[first, here], None if zeros is None else zeros[first, here], 0, block_size)


_Judged = tuple[Dims, Finding | None]
"""The shape of a stretch of elements, and the first of the worst status in it."""


@dataclass(frozen=True)
class Streamed:
    """A conversion of a large tensor: the result of `Conversion.finding`, and the tensor that it gives."""

    finding: Callable[[], Finding | None]
    tensor: Callable[[], onnx_ir.TensorProtocol]


def streamed_conversion(
    conversion: Conversion, operands: Sequence[Known], dtype: DataType, array: Callable[[Known], Array]
) -> Streamed | None:
    """Return the element-wise conversion if the first operand is large; None otherwise.

    dtype: what the conversion gives. array: the elements of an operand. Raises QuantizeError where scales do not fit.
    """
    source = operands[0].tensor if operands[0].how is None else None
    if source is None or not is_large(source) or DataType.STRING in (source.dtype, dtype):
        return None
    if isinstance(conversion, CastTo):
        return Streamed(partial(_cast_finding, conversion, source), partial(_cast, conversion, source))
    if isinstance(conversion, QuantizeTo | DequantizeTo):
        scales = [array(constant) for constant in operands[1:]]
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
        stretches = list(runs(shape, scale, zero, conversion.axis, conversion.block_size))
        for run, x in zip(stretches, regrouped(pieces(source), [run.size for run in stretches]), strict=True):
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
