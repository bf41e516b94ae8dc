"""What products of matrices and convolutions add up on their way to a result, which may be larger than the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.numerics.quantize.packed import unpacked_weights
from castsmith.verification.evaluate.engines import EngineError, Prepared, alone

Array = NDArray[Any]
_MOST_STEPS, _MOST_CONVOLUTIONS = 64, 16
"""Steps in which a sum is followed; each of those of a convolution is a convolution."""
_OPSET = 11
"""An opset whose convolutions are those of all later ones."""


def sums_on_the_way(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array | None:
    """Return the largest magnitudes of the sums that a product makes, in the shape of its result.

    None for another operator, and for a convolution that no engine runs in float.
    """
    first, second = (*operands, None, None)[:2]
    if node.op_type not in PRODUCTS or first is None or second is None:
        return None
    return _SUMS[node.op_type](node, operands)


def _of_matmul(_: onnx_ir.Node, operands: Sequence[Any]) -> Array:
    return running_sums(operands[0], operands[1])


def _of_gemm(node: onnx_ir.Node, operands: Sequence[Any]) -> Array:
    first, second = operands[:2]
    first = first.T if node.attributes.get_int("transA", 0) else first
    return running_sums(first, second.T if node.attributes.get_int("transB", 0) else second)


def _of_convolution(node: onnx_ir.Node, operands: Sequence[Any]) -> Array | None:
    """Return the sums of a convolution, in the order of its channels and windows: each step has some of the weights."""
    x, weights = (np.asarray(operand, np.float32) for operand in operands[:2])
    groups, window = node.attributes.get_int("group", 1) or 1, weights.shape[2:]
    channels: int = weights.shape[0] // groups if node.op_type == "ConvTranspose" else weights.shape[1]
    places: Array = np.arange(channels * prod(window)).reshape(channels, *window)
    if node.op_type == "ConvTranspose":
        places = np.concatenate([places[:, None]] * groups)
    step = max(1, -(-(channels * prod(window)) // _MOST_CONVOLUTIONS))
    engine = "onnxruntime" if find_spec("onnxruntime") is not None else "reference"
    prepared = Prepared(engine, alone(node, (x, weights), {"": _OPSET}).SerializeToString())
    starts = range(0, channels * prod(window), step)
    parts = (np.where((places >= start) & (places < start + step), weights, np.float32(0)) for start in starts)
    try:
        return _greatest(prepared.run({"i0": x, "i1": part})[0] for part in parts)
    except EngineError:
        return None


def _of_packed(node: onnx_ir.Node, operands: Sequence[Any]) -> Array:
    return running_sums(operands[0], _weights(node, operands))


_SUMS: dict[str, Callable[[onnx_ir.Node, Sequence[Any]], Array | None]] = {
    "MatMul": _of_matmul,
    "Gemm": _of_gemm,
    "Conv": _of_convolution,
    "ConvTranspose": _of_convolution,
    "MatMulNBits": _of_packed,
}
PRODUCTS = frozenset(_SUMS)
"""The operators whose sums are followed."""


def scales_a_sum(node: onnx_ir.Node) -> bool:
    """True if a node makes a product smaller once it is added up, and may round it to float16 before."""
    return node.op_type == "Gemm" and abs(node.attributes.get_float("alpha", 1.0) or 0.0) < 1


def running_sums(a: Array, b: Array) -> Array:
    """Return the largest magnitudes of the sums that a product of matrices makes on its way, in at most 64 steps."""
    count = a.shape[-1]
    step = max(1, -(-count // _MOST_STEPS))
    parts = (slice(start, start + step) for start in range(0, count, step))
    rows = ((part, b[part] if b.ndim == 1 else b[..., part, :]) for part in parts)
    return _greatest(np.matmul(a[..., part].astype(np.float32), row.astype(np.float32)) for part, row in rows)


def _greatest(addends: Iterable[Array]) -> Array:
    """Return the largest magnitudes of the running sums."""
    greatest: Array = np.zeros((), np.float32)
    for total in accumulate(addends):
        greatest = np.fmax(greatest, np.abs(total))
    return greatest


def added_up_in_half(node: onnx_ir.Node, result: Array, operands: Sequence[Array | None]) -> Array:
    """Return a product in float16, with infinities where a sum on its way is beyond float16."""
    sums = sums_on_the_way(node, operands)
    if sums is None:
        return result
    return np.where(sums > np.finfo(np.float16).max, np.copysign(np.float16(np.inf), result), result)


def _weights(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array:
    codes, scales, points = operands[1], operands[2], (*operands, None)[3]
    depth, width, block = (node.attributes[name].as_int() for name in ("K", "N", "block_size"))
    bits = node.attributes.get_int("bits", 4) or 4
    rows = np.asarray(codes).reshape(width, -1)
    return unpacked_weights(rows, np.asarray(scales), points, depth=depth, block=block, bits=bits).T
