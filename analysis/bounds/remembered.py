"""What was found of large constants, from which bounds of their rounded copies follow without reading them again.

A converted model has a weight W' for a weight W: each element differs by at most `u |w| + eta`. A product x' @ W',
where x' is nearly an x of which x @ W was bounded, is

    x' @ W' = x @ W + (x' - x) @ W + x' @ (W' - W)

The second term is at most a share of the sum of absolute values, or of the norm, that bounded the first; the third is
at most `u` times that sum, and `eta` times the sum of the operand. Only what is nearly the same is compared: otherwise
the copy is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from castsmith.analysis.bounds.interval import Ball, Ends, Interval, interval_of
from castsmith.analysis.bounds.rounding import Array
from castsmith.analysis.bounds.sums import Layout, Operand, Sums
from castsmith.ir.io.streaming import source_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import element_type

_MOST = 2.0**-2
"""The largest relative difference of operands that are nearly the same."""
_OUTWARD = 1 + 2.0**-30
"""More than the roundings of these few sums in double."""


@dataclass(frozen=True)
class _Rounding:
    """A rounded number differs by at most `u` of its size, and `eta`."""

    u: float
    eta: float


@dataclass
class Remembered:
    """The intervals of large constants, and the bounds of products with them; each found in one analysis."""

    _intervals: dict[onnx_ir.TensorProtocol, Interval] = field(default_factory=dict[onnx_ir.TensorProtocol, Interval])
    _products: dict[tuple[onnx_ir.TensorProtocol, Layout], list[tuple[Operand, Any]]] = field(
        default_factory=dict[tuple[onnx_ir.TensorProtocol, Layout], list[tuple[Operand, Any]]]
    )

    def keep_interval(self, tensor: onnx_ir.TensorProtocol, interval: Interval) -> None:
        """Remember the interval of a constant that was read."""
        self._intervals[tensor] = interval

    def keep_product(self, tensor: onnx_ir.TensorProtocol, layout: Layout, operand: Operand, result: Any) -> None:
        """Remember the bounds of a product with a constant that was read."""
        self._products.setdefault((tensor, layout), []).append((operand, result))

    def interval(self, tensor: onnx_ir.TensorProtocol) -> Interval | None:
        """Return the interval of a rounded copy; None if it has to be read."""
        source = source_of(tensor)
        before = None if source is None else self._intervals.get(source)
        if before is None or not before.finite:
            return None
        low, high = (cast(end, tensor.dtype).astype(np.float64) for end in (before.low, before.high))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return None
        return interval_of(low, high, np.zeros((), np.uint8), before.dims, tensor.dtype)

    def product(self, tensor: onnx_ir.TensorProtocol, layout: Layout, operand: Operand) -> Any:
        """Return bounds of a product with a rounded copy; None if it has to be read."""
        source = source_of(tensor)
        if source is None or self.interval(tensor) is None:
            return None
        row = element_type(tensor.dtype)
        rounding = _Rounding(2.0 ** -(row.mantissa_bits + 1), float(row.quantum) / 2)
        for before, result in self._products.get((source, layout), ()):
            with np.errstate(all="ignore"):
                product = _nearly(before, result, operand, layout.k, rounding)
            if product is not None:
                return product
        return None


def _nearly(before: Operand, result: Any, now: Operand, k: int, rounding: _Rounding) -> Any:
    if isinstance(before, Ball) and isinstance(now, Ball):
        return _of_ball(before, result, now, k, rounding)
    if not isinstance(before, Ball) and not isinstance(now, Ball) and before[0].shape == now[0].shape:
        return _of_box(before, result, now, k, rounding)
    return None


def _of_box(before: Ends, result: Sums, now: Ends, k: int, rounding: _Rounding) -> Sums | None:
    (low, high), most = before, np.maximum(np.abs(before[0]), np.abs(before[1]))
    delta = _share(np.maximum(np.maximum(low - now[0], now[1] - high), 0), most)
    if not delta <= _MOST:
        return None
    total = most.sum(axis=1, keepdims=True) * (k if low.shape[1] == 1 else 1)
    error = (1 + delta) * (rounding.u * result.size + rounding.eta * total)
    slack = (error + delta * result.size) * _OUTWARD
    return Sums(result.least - slack, result.most + slack, ((1 + delta) * result.size + error) * _OUTWARD)


def _of_ball(
    before: Ball, result: tuple[Ends, Array], now: Ball, k: int, rounding: _Rounding
) -> tuple[Ends, Array] | None:
    (least, most), size = result
    larger = now.radius / before.radius if before.radius else np.inf
    kappa = _share(np.abs(now.scale - before.scale / max(1.0, larger)), np.abs(before.scale))
    rho = _share(np.abs(now.offset - before.offset), np.abs(before.offset))
    if not (larger <= 1 + _MOST and kappa <= _MOST and rho <= _MOST):
        return None
    growth = max(larger, 1.0) * (1 + kappa) * (1 + rho)
    total = float(np.sum(np.broadcast_to(np.abs(before.scale) * before.radius + np.abs(before.offset), (k,))))
    error = growth * (rounding.u * size + rounding.eta * total)
    slack = (larger * kappa * (most - least) / 2 + rho * size + error) * _OUTWARD
    return (least - slack, most + slack), (growth * size + error) * _OUTWARD


def _share(part: Array, of: Array) -> float:
    """Return the largest share that the part is; infinite where it is one of nothing."""
    part, of = np.broadcast_arrays(part, of)
    return float(np.divide(part, of, out=np.where(part > 0, np.inf, 0.0), where=of > 0).max(initial=0.0))
