"""Images and signals: interpolation and short-time Fourier transforms."""

from __future__ import annotations

import math

import numpy as np

from castsmith.analysis.bounds.interval import ANYTHING, NONE, Interval, UnknownRangeError
from castsmith.analysis.bounds.rounding import Array, is_float, is_integer, sum_error, unit_roundoff, vanished
from castsmith.analysis.bounds.step import LONGEST, Rule, Step, along, axis_of, spoilt

_TRANSFORM = 64
"""Roundings of one element of a Fourier transform beside those of its terms."""
_PLACE = 2.0**-16
"""Relative error of interpolation, which computes places and weights in float."""
_TAPS = 4
"""Neighbours along an axis from which an element is interpolated."""


def _resize(step: Step) -> Interval:
    """Interpolation between neighbours; cubic weights are negative in part."""
    x, mode, dims = step.input(0), step.text("mode", "nearest"), step.dims[0]
    if dims is not None and x.dims is not None and len(dims) != len(x.dims):
        raise UnknownRangeError
    changed = _changed(step, x)
    neighbours = along(x, dims, changed)
    low, high = neighbours.low, neighbours.high
    if step.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        value, roi = step.float("extrapolation_value", 0.0), step.optional(1)
        if roi is None or not roi.finite:
            raise UnknownRangeError
        whole = is_integer(step.dtypes[0])
        low = np.minimum(low, math.floor(value) if whole else value)
        high = np.maximum(high, math.ceil(value) if whole else value)
    if mode == "nearest":
        if x.infinite.any():  # some runtimes multiply neighbours by 0
            return step.anything()
        return step.picked(low, high, x, special=neighbours.special)
    count = LONGEST if changed is None else len(changed)
    sizes = 1.0
    if mode == "cubic":
        # The absolute values of the weights sum up to at most 1 + |a| / 2, and to less than 2 where they are resampled.
        if not -1 <= step.float("cubic_coeff_a", -0.75) <= 0 or step.int("exclude_outside", 0) or changed is None:
            raise UnknownRangeError
        sizes = (2.0 if step.int("antialias", 0) else 1.5) ** len(changed)
    return _interpolated(
        step, x, low, high, sizes, LONGEST if step.int("antialias", 0) else float(_TAPS) ** min(count, 8)
    )


def _changed(step: Step, x: Interval) -> list[int] | None:
    """The axes that are not scaled by exactly 1; None for all of a value of unknown rank."""
    if x.dims is None:
        return None
    rank, first = len(x.dims), 2 if step.opset >= 11 else 1
    named, scales = step.ints("axes"), step.array(first)
    axes = list(range(rank)) if named is None else [axis_of(axis, rank) for axis in named]
    if step.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return axes
    if scales is not None and scales.size:
        ratios = [float(factor) for factor in scales.reshape(-1)]
    else:
        sizes = step.integers(3) if step.text("keep_aspect_ratio_policy", "stretch") == "stretch" else None
        if sizes is None:
            return axes
        ratios = [1.0 if x.dims[axis] == size else 0.0 for axis, size in zip(axes, sizes, strict=False)]
    if len(ratios) != len(axes):
        raise UnknownRangeError
    return [axis for axis, ratio in zip(axes, ratios, strict=True) if ratio != 1]


def _interpolated(step: Step, x: Interval, low: Array, high: Array, sizes: float, taps: float) -> Interval:
    """Bounds of sums whose weights sum up to 1, and their absolute values to `sizes`."""
    dtype = step.dtypes[0]
    unit = unit_roundoff(dtype) if is_float(dtype) else 0.0
    with np.errstate(all="ignore"):
        most = np.maximum(np.abs(low), np.abs(high)) * sizes
        margin = (sizes - 1) * (high / 2 - low / 2) + most * max(_PLACE, _TRANSFORM * unit) + vanished(taps, dtype)
        margin = np.where(np.isfinite(margin) | x.bounded, margin, 0.0) + is_integer(dtype)
        low, high, over = step.total(low - margin, high + margin, most, _TRANSFORM, x)
    return step.result(low, high, x, special=spoilt(x) | over)


def _short_fourier(step: Step) -> Interval:
    """STFT: sums of the elements of a frame, each times the window and a number of magnitude 1."""
    x, window = step.input(0), step.optional(2)
    if x.dims is not None and len(x.dims) < 2:
        raise UnknownRangeError
    length = step.integers(3)
    count = length[0] if length else None if window is None or not window.dims else window.dims[0]
    if count is None:
        return step.unbounded()
    operands = [operand for operand in (x, window) if operand is not None]
    most = 2 * count * x.size * (1.0 if window is None else window.size)
    size = np.asarray(most * (1 + 4 * sum_error(count + _TRANSFORM, step.dtypes[0])))
    low, high, over = step.total(-size, size, np.asarray(most * count), count, *operands)
    special = NONE if all(operand.finite for operand in operands) else ANYTHING
    dims = None if x.dims is None else (x.dims[0], None, None, 2)  # onnx infers another number of frequencies
    return step.shaped(dims).result(low, high, *operands, special=special | over)


RULES: dict[str, Rule] = {
    "Resize": _resize,
    "STFT": _short_fourier,
}
