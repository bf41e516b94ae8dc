"""What products of matrices and convolutions add up on their way to a result, which may be larger than the result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx_ir
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from castsmith.numerics.quantize.packed import unpacked_weights

Array = NDArray[Any]
_MOST_STEPS = 64
_MOST_ELEMENTS = 1 << 27
"""Elements of the windows of a convolution up to which its sums are followed."""

PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "MatMulNBits"})
"""The operators whose sums are followed."""


def sums_on_the_way(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array | None:
    """Return the largest magnitudes of the sums that a product makes, in the shape of its result.

    None for another operator, and for a convolution of too many elements.
    """
    first, second = (*operands, None, None)[:2]
    if node.op_type not in PRODUCTS or first is None or second is None:
        return None
    if node.op_type == "Conv":
        return _of_windows(node, first, second)
    if node.op_type == "MatMulNBits":
        second = _weights(node, operands)
    elif node.op_type == "Gemm":
        first = first.T if node.attributes.get_int("transA", 0) else first
        second = second.T if node.attributes.get_int("transB", 0) else second
    return running_sums(first, second)


def running_sums(a: Array, b: Array) -> Array:
    """Return the largest magnitudes of the sums that a product of matrices makes on its way, in at most 64 steps."""
    total: Array = np.zeros((), np.float32)
    greatest, count = total, a.shape[-1]
    step = max(1, -(-count // _MOST_STEPS))
    for start in range(0, count, step):
        part = slice(start, start + step)
        rows = b[part] if b.ndim == 1 else b[..., part, :]
        total = total + np.matmul(a[..., part].astype(np.float32), rows.astype(np.float32))
        greatest = np.maximum(greatest, np.abs(total))
    return greatest


def _weights(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array:
    codes, scales, points = operands[1], operands[2], (*operands, None)[3]
    depth, width, block = (node.attributes.get_int(name, 0) or 0 for name in ("K", "N", "block_size"))
    bits = node.attributes.get_int("bits", 4) or 4
    rows = np.asarray(codes).reshape(width, -1)
    return unpacked_weights(rows, np.asarray(scales), points, depth=depth, block=block, bits=bits).T


def _of_windows(node: onnx_ir.Node, x: Array, weights: Array) -> Array | None:
    """Return the sums of a convolution: a product of its windows and weights, for each group."""
    kernel, groups = weights.shape[2:], node.attributes.get_int("group", 1) or 1
    ones = [1] * len(kernel)
    strides, dilations = (list(node.attributes.get_ints(name, ones) or ones) for name in ("strides", "dilations"))
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, dilations, strict=True)]
    pads = _pads(node, x.shape[2:], spans, strides)
    axes = tuple(range(2, x.ndim))
    windows = sliding_window_view(np.pad(x, [(0, 0), (0, 0), *pads]), spans, axes)
    windows = windows[(slice(None), slice(None), *(slice(None, None, step) for step in (*strides, *dilations)))]
    if windows.size > _MOST_ELEMENTS:
        return None
    batch, places = x.shape[0], windows.shape[2 : x.ndim]
    grouped = windows.reshape(batch, groups, -1, prod(places), prod(kernel))
    rows = np.moveaxis(grouped, 2, 3).reshape(batch, groups, prod(places), -1)
    sums = running_sums(rows, weights.reshape(groups, weights.shape[0] // groups, -1).swapaxes(1, 2))
    return sums.swapaxes(2, 3).reshape(batch, weights.shape[0], *places)


def _pads(
    node: onnx_ir.Node, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Return how many elements of 0 are put before and behind each axis."""
    automatic, count = node.attributes.get_string("auto_pad", "NOTSET") or "NOTSET", len(sizes)
    if not automatic.startswith("SAME"):
        pads = list(node.attributes.get_ints("pads", [0] * 2 * count) or [0] * 2 * count)
        return list(zip(pads[:count], pads[count:], strict=True))
    totals = [
        max((-(-size // step) - 1) * step + span - size, 0)
        for size, span, step in zip(sizes, spans, strides, strict=True)
    ]
    less = [(total // 2, total - total // 2) for total in totals]
    return less if automatic == "SAME_UPPER" else [(behind, before) for before, behind in less]
