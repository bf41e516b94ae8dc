"""Images and signals: interpolation, windows, Fourier transforms, and numbers that are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from castsmith.ir.bounds.interval import Ends, Interval, joined_along
from castsmith.ir.bounds.rounding import Array, sum_error, summed, with_slack
from castsmith.ir.bounds.step import LONGEST, Rule, Step, UnknownRangeError

_TRANSFORM = 64
"""Roundings of one element of a Fourier transform beside those of its terms."""


def _resize(step: Step) -> Interval:
    """Interpolation between neighbours; cubic weights are negative in part."""
    x = step.input(0)
    mode, dims = step.text("mode", "nearest"), step.dims[0]
    low, high, changed = np.asarray(x.least), np.asarray(x.greatest), 4 if x.dims is None else len(x.dims)
    if x.dims is not None and dims is not None and len(dims) == len(x.dims):
        axes = [i for i in range(len(dims)) if dims[i] is None or dims[i] != x.dims[i]]
        low, high = joined_along(x, axes)
        changed = len(axes)
    sizes = 1.0
    if mode == "cubic":
        # The absolute values of the weights sum up to at most 1 + |a| / 2, and to less than 2 where they are resampled.
        if not -1 <= step.float("cubic_coeff_a", -0.75) <= 0 or step.int("exclude_outside", 0):
            raise UnknownRangeError
        sizes = (2.0 if step.int("antialias", 0) else 1.5) ** changed
    if step.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        value = step.float("extrapolation_value", 0.0)
        low, high = np.minimum(low, value), np.maximum(high, value)
    return step.result(*_interpolated(low, high, sizes, 0.0 if mode == "nearest" else 2.0**-16), dims, x)


def _interpolated(low: Array, high: Array, sizes: float, error: float) -> Ends:
    """Bounds of sums whose weights sum up to 1, and their absolute values to `sizes`."""
    with np.errstate(all="ignore"):
        margin = (sizes - 1) * (high / 2 - low / 2) + np.maximum(np.abs(low), np.abs(high)) * error * sizes
        return low - np.where(np.isfinite(margin), margin, 0.0), high + np.where(np.isfinite(margin), margin, 0.0)


def _sampled(step: Step) -> Interval:
    """GridSample: interpolation between neighbours, of which those outside may be 0."""
    x, grid = step.input(0), step.input(1)
    if x.dims is None:
        raise UnknownRangeError
    cubic = step.text("mode", "linear") in ("cubic", "bicubic")
    low, high = joined_along(x, range(2, len(x.dims)))
    if step.text("padding_mode", "zeros") == "zeros":
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    dims = (*x.dims[:2], *(None for _ in x.dims[2:]))
    ends = _interpolated(low, high, 1.5 ** (len(dims) - 2) if cubic else 1.0, 2.0**-16)
    return step.result(*ends, step.merged(dims), x, grid, nan=x.nan or x.infinite or grid.nan or grid.infinite)


def _regions(step: Step) -> Interval:
    """RoiAlign and MaxRoiPool: interpolation between elements and zeros outside, averaged, or the greatest."""
    x, rois = step.input(0), step.input(1)
    low, high = np.asarray(min(x.least, 0.0)), np.asarray(max(x.greatest, 0.0))
    nan = x.nan or x.infinite or rois.nan or rois.infinite
    ends = _interpolated(low, high, 1.0, 2.0**-14)
    with np.errstate(all="ignore"):
        ends = summed(*ends, np.maximum(-low, high) * LONGEST, step.dtypes[0])  # of any number of samples
    return step.result(*ends, step.dims[0], x, rois, nan=nan)


def _grid(step: Step) -> Interval:
    """AffineGrid: rows of the matrix times coordinates between -1 and 1, and 1."""
    theta = step.input(0)
    width = None if theta.dims is None else theta.dims[-1]
    most = np.asarray(float(theta.magnitude.max(initial=0.0)) * (width or 4))
    return step.result(*with_slack(-most, most, step.dtypes[0]), step.dims[0], theta, nan=theta.nan or theta.infinite)


def _summed_blocks(step: Step) -> Interval:
    """Col2Im: each pixel is the sum of at most one element of each place in a block."""
    x, block = step.input(0), step.integers(2)
    if block is None:
        raise UnknownRangeError
    count = math.prod(block)
    low, high = min(x.least, 0.0) * count, max(x.greatest, 0.0) * count
    error = np.asarray(max(-low, high))
    error = np.where(np.isfinite(error), error * sum_error(count, step.dtypes[0]), 0.0)
    low, high = summed(low - error, high + error, np.asarray(max(-low, high)), step.dtypes[0])
    return step.result(low, high, step.dims[0], x, nan=x.nan or x.infinite)


def _unit(step: Step) -> Interval:
    """Windows, filters and drawn bits: between 0 and 1. A window of one element is 0 / 0 in some runtimes."""
    ends = with_slack(np.asarray(0.0), np.asarray(1.0), step.dtypes[0])
    single = step.node.op_type.endswith("Window") and step.input(0).least <= 1
    assumes = frozenset[str]().union(*(each.assumes for each in step.inputs if each is not None))
    given = replace(step.unbounded(), nan=False, infinite=False, assumes=assumes)
    return step.result(*ends, step.dims[0], given, nan=single, infinite=False)


def _eye(step: Step) -> Interval:
    return step.result(np.asarray(0.0), np.asarray(1.0), step.dims[0], nan=False, infinite=False)


def _fourier(step: Step) -> Interval:
    """DFT: each part is a sum of so many elements times numbers of magnitude 1; its inverse is their mean."""
    x = step.input(0)
    if x.dims is None:
        raise UnknownRangeError
    given = step.integers(2) if step.opset >= 20 and step.value(2) is not None else None
    axis = (given[0] if given else step.int("axis", 1 if step.opset < 20 else -2)) % len(x.dims)
    count = x.dims[axis]
    if count is None:
        raise UnknownRangeError
    length = step.integers(1) if step.value(1) is not None else None
    most = 2 * float(x.magnitude.max(initial=0.0))
    total = most * max(count, length[0] if length else 0)
    error = 1 + 4 * sum_error(count + _TRANSFORM, step.dtypes[0])
    size = np.asarray((most if step.int("inverse", 0) else total) * error)
    low, high = summed(-size, size, np.asarray(total), step.dtypes[0])
    return step.result(low, high, step.dims[0], x, nan=x.nan or x.infinite)


def _short_fourier(step: Step) -> Interval:
    """STFT: the transform of frames, each times the window."""
    x, window = step.input(0), step.optional(2)
    length = step.integers(3) if step.value(3) is not None else None
    count = length[0] if length else None if window is None or not window.dims else window.dims[0]
    if count is None:
        raise UnknownRangeError
    most = float(x.magnitude.max(initial=0.0)) * (1.0 if window is None else float(window.magnitude.max(initial=0.0)))
    size = np.asarray(2 * count * most * (1 + 4 * sum_error(count + _TRANSFORM, step.dtypes[0])))
    given = [each for each in (x, window) if each is not None]
    low, high = summed(-size, size, size, step.dtypes[0])
    return step.result(low, high, step.dims[0], *given, nan=any(each.nan or each.infinite for each in given))


def _rotary(step: Step) -> Interval:
    """RotaryEmbedding: pairs times cosines and sines."""
    x, cosines, sines = (step.input(index) for index in range(3))
    turned = cosines.magnitude.max(initial=0.0) + sines.magnitude.max(initial=0.0)
    most = np.asarray(float(x.magnitude.max(initial=0.0)) * max(1.0, float(turned)))
    ends = with_slack(*summed(-most, most, most, step.dtypes[0]), step.dtypes[0])
    nan = any(each.nan or each.infinite for each in (x, cosines, sines))
    return step.result(*ends, x.dims, x, cosines, sines, nan=nan)


def _random(step: Step) -> Interval:
    ends = sorted((step.float("low", 0.0), step.float("high", 1.0)))
    given = replace(step.unbounded(), nan=False, infinite=False, assumes=frozenset[str](), blame=frozenset[str]())
    return step.result(np.asarray(ends[0]), np.asarray(ends[1]), step.dims[0], given)


RULES: dict[str, Rule] = {
    "Resize": _resize,
    "Upsample": _resize,
    "GridSample": _sampled,
    "RoiAlign": _regions,
    "MaxRoiPool": _regions,
    "AffineGrid": _grid,
    "Col2Im": _summed_blocks,
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "Bernoulli"), _unit),
    "EyeLike": _eye,
    "DFT": _fourier,
    "STFT": _short_fourier,
    "RotaryEmbedding": _rotary,
    "RandomUniform": _random,
    "RandomUniformLike": _random,
}
