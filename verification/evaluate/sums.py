"""What products of matrices and convolutions add up on their way to a result, which may be larger than the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


def sums_on_the_way(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array | None:
    """Return the largest magnitudes of the sums that a product makes, in the shape of its result.

    None for another operator, and for a convolution of too many elements.
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


def _of_conv(node: onnx_ir.Node, operands: Sequence[Any]) -> Array | None:
    first, second = operands[:2]
    kernel = _Kernel.of(node, second)
    return _of_windows(kernel, np.pad(first, [(0, 0), (0, 0), *kernel.pads(first.shape[2:])]), second)


def _of_conv_transpose(node: onnx_ir.Node, operands: Sequence[Any]) -> Array | None:
    return _of_transposed(_Kernel.of(node, operands[1]), operands[0], operands[1])


def _of_packed(node: onnx_ir.Node, operands: Sequence[Any]) -> Array:
    return running_sums(operands[0], _weights(node, operands))


_SUMS: dict[str, Callable[[onnx_ir.Node, Sequence[Any]], Array | None]] = {
    "MatMul": _of_matmul,
    "Gemm": _of_gemm,
    "Conv": _of_conv,
    "ConvTranspose": _of_conv_transpose,
    "MatMulNBits": _of_packed,
}
PRODUCTS = frozenset(_SUMS)
"""The operators whose sums are followed."""


def scales_a_sum(node: onnx_ir.Node) -> bool:
    """True if a node makes a product smaller once it is added up, and may round it to float16 before."""
    return node.op_type == "Gemm" and abs(node.attributes.get_float("alpha", 1.0) or 0.0) < 1


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


@dataclass
class _Kernel:
    """How the kernel of a convolution lies on its operand; a span is the size of a kernel with its gaps."""

    node: onnx_ir.Node
    groups: int
    strides: list[int]
    gaps: list[int]
    spans: list[int]

    @classmethod
    def of(cls, node: onnx_ir.Node, weights: Array) -> _Kernel:
        sizes = weights.shape[2:]
        strides, gaps = (list(node.attributes.get_ints(name) or [1] * len(sizes)) for name in ("strides", "dilations"))
        spans = [(size - 1) * gap + 1 for size, gap in zip(sizes, gaps, strict=True)]
        return cls(node, node.attributes.get_int("group", 1) or 1, strides, gaps, spans)

    def pads(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many elements of 0 are put before and behind each axis."""
        automatic = self._automatic()
        if not automatic.startswith("SAME"):
            return self._stated(len(sizes))
        return _halved(
            [
                max((-(-size // step) - 1) * step + span - size, 0)
                for size, span, step in zip(sizes, self.spans, self.strides, strict=True)
            ],
            upper=automatic == "SAME_UPPER",
        )

    def cut(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many elements a transposed convolution leaves out before and behind each axis; below 0 it adds."""
        automatic, count = self._automatic(), len(sizes)
        more = self.node.attributes.get_ints("output_padding") or [0] * count
        output_sizes = self.node.attributes.get_ints("output_shape")
        if output_sizes is None and automatic.startswith("SAME"):
            output_sizes = [size * step for size, step in zip(sizes, self.strides, strict=True)]
        if output_sizes is None:
            return [(before, behind - extra) for (before, behind), extra in zip(self._stated(count), more, strict=True)]
        axes = zip(sizes, self.strides, self.spans, more, output_sizes[-count:], strict=True)
        totals = [(size - 1) * step + span + extra - want for size, step, span, extra, want in axes]
        cut = _halved(totals, upper=automatic == "SAME_UPPER")
        return [(before, behind - extra) for (before, behind), extra in zip(cut, more, strict=True)]

    def _automatic(self) -> str:
        return self.node.attributes.get_string("auto_pad", "NOTSET") or "NOTSET"

    def _stated(self, count: int) -> list[tuple[int, int]]:
        pads = list(self.node.attributes.get_ints("pads") or [0] * 2 * count)
        return list(zip(pads[:count], pads[count:], strict=True))


def _halved(totals: Sequence[int], *, upper: bool) -> list[tuple[int, int]]:
    """Return the halves of each number, the larger one behind (upper) or before."""
    less = [(total // 2, total - total // 2) for total in totals]
    return less if upper else [(behind, before) for before, behind in less]


def _of_windows(kernel: _Kernel, x: Array, weights: Array) -> Array | None:
    """Return the sums of a convolution: a product of its windows and weights, for each group."""
    axes = tuple(range(2, x.ndim))
    windows = sliding_window_view(x, kernel.spans, axes)
    windows = windows[
        (slice(None), slice(None), *(slice(None, None, step) for step in (*kernel.strides, *kernel.gaps)))
    ]
    if windows.size > _MOST_ELEMENTS:
        return None
    batch, places, size = x.shape[0], windows.shape[2 : x.ndim], prod(weights.shape[2:])
    grouped = windows.reshape(batch, kernel.groups, -1, prod(places), size)
    rows = np.moveaxis(grouped, 2, 3).reshape(batch, kernel.groups, prod(places), -1)
    columns = weights.reshape(kernel.groups, weights.shape[0] // kernel.groups, -1).swapaxes(1, 2)
    return running_sums(rows, columns).swapaxes(2, 3).reshape(batch, weights.shape[0], *places)


def _of_transposed(kernel: _Kernel, x: Array, weights: Array) -> Array | None:
    """Return the sums of a transposed convolution: one of the operand with gaps, by the kernel turned around."""
    sizes = x.shape[2:]
    steps = zip(sizes, kernel.strides, strict=True)
    spread = np.zeros((*x.shape[:2], *((size - 1) * step + 1 for size, step in steps)), x.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, step) for step in kernel.strides))] = x
    for axis, (span, (before, behind)) in enumerate(zip(kernel.spans, kernel.cut(sizes), strict=True), 2):
        low, high = span - 1 - before, span - 1 - behind
        spread = np.pad(spread, [(max(low, 0), max(high, 0)) if dim == axis else (0, 0) for dim in range(x.ndim)])
        spread = np.moveaxis(np.moveaxis(spread, axis, 0)[max(-low, 0) : min(high, 0) or None], 0, axis)
    turned = np.flip(weights, tuple(range(2, weights.ndim)))
    grouped = turned.reshape(kernel.groups, -1, *weights.shape[1:]).swapaxes(1, 2)
    dense = replace(kernel, strides=[1] * len(sizes))
    return _of_windows(dense, spread, grouped.reshape(-1, weights.shape[0] // kernel.groups, *weights.shape[2:]))
