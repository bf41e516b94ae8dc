"""Granularity of scale and zero point: one per tensor, one per slice along an axis, or one per block.

Source: the paragraph on granularities of QuantizeLinear (opset 21 on). Its shape [D0, .., ceil(Di/B), .., Dn] states
the same condition as the range that it gives for the block size. A tensor of one element is accepted as a scalar, as in
the ONNX backend node tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import CHUNK
from castsmith.numerics.errors import QuantizeError

_Box = tuple[slice, slice, slice]


def folded_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the sizes before, along and after `axis`.

    Raises:
        QuantizeError: The axis is outside [-rank, rank - 1].
    """
    if not shape:
        return 1, 1, 1
    if not -len(shape) <= axis < len(shape):
        raise QuantizeError(f"axis {axis} is out of range for a tensor of rank {len(shape)}.")
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def is_scalar(scale: Array) -> bool:
    """True if there is one scale for the whole tensor."""
    return scale.size == 1 and scale.ndim <= 1


def require_shapes(x: Array, scale: Array, zero: Array | None, axis: int, block_size: int) -> None:
    """Raise QuantizeError if the shapes of scale and zero point match no granularity."""
    if zero is not None and zero.shape != scale.shape and not scale.size == zero.size == 1:
        raise QuantizeError(f"the zero point has the shape {zero.shape} and the scale {scale.shape}; they must agree.")
    if block_size < 0:
        raise QuantizeError(f"block_size must be positive, or 0 for no blocks, not {block_size}.")
    if is_scalar(scale):
        return
    along = folded_shape(x.shape, axis)[1]
    if scale.ndim == x.ndim and block_size:
        wanted = list(x.shape)
        wanted[axis] = -(-along // block_size)
        if scale.shape != tuple(wanted):
            raise QuantizeError(
                f"blocks of {block_size} along axis {axis} of a tensor of shape {x.shape} need a scale of shape "
                f"{tuple(wanted)}, not {scale.shape}."
            )
    elif scale.shape != (along,):
        raise QuantizeError(
            f"a scale of shape {scale.shape} fits neither a tensor of shape {x.shape} along axis {axis} "
            f"nor its blocks of size {block_size}."
        )


def pieces(x: Array, axis: int, block_size: int, *parameters: Array) -> Iterator[list[Array]]:
    """Yield parts of `x` of at most CHUNK elements, in C order and three dimensions.

    Each comes with the parts of `parameters` (scale, zero point; of one granularity) that broadcast against it.
    """
    blocked = bool(block_size) and parameters[0].ndim == x.ndim
    cubes = [_cube(parameter, x.shape, axis) for parameter in parameters]
    cube = x.reshape(1, 1, -1) if is_scalar(parameters[0]) else x.reshape(folded_shape(x.shape, axis))
    for box in _boxes(*cube.shape):
        yield [cube[box], *(_part(parameter, box, block_size if blocked else 1) for parameter in cubes)]


def _cube(parameter: Array, shape: tuple[int, ...], axis: int) -> Array:
    if is_scalar(parameter):
        return parameter.reshape(1, 1, 1)
    if parameter.ndim == 1 and len(shape) != 1:
        return parameter.reshape(1, -1, 1)
    return parameter.reshape(folded_shape(parameter.shape, axis))


def _part(cube: Array, box: _Box, block_size: int) -> Array:
    outer, along, inner = (at if size > 1 else slice(None) for at, size in zip(box, cube.shape, strict=True))
    if block_size == 1 or cube.shape[1] == 1:
        return cube[outer, along, inner]
    return cube[outer, np.arange(along.start, along.stop) // block_size, inner]


def _boxes(outer: int, along: int, inner: int) -> Iterator[_Box]:
    wide = max(min(inner, CHUNK), 1)
    long = max(min(along, CHUNK // wide), 1)
    high = max(min(outer, CHUNK // (wide * long)), 1)
    for o in range(0, outer, high):
        for a in range(0, along, long):
            for i in range(0, inner, wide):
                yield slice(o, min(o + high, outer)), slice(a, min(a + long, along)), slice(i, min(i + wide, inner))
