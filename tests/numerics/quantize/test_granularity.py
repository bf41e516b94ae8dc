"""Which shapes of scales and zero points fit a tensor, on both sides of each limit."""

from __future__ import annotations

import numpy as np
import pytest

from castsmith.numerics.errors import QuantizeError
from castsmith.numerics.quantize.granularity import folded_shape, is_scalar, require_shapes

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("shape", "axis", "folded"),
    [
        ((), 5, (1, 1, 1)), ((4,), 0, (1, 4, 1)), ((4,), -1, (1, 4, 1)), ((2, 3, 5), 0, (1, 2, 15)),
        ((2, 3, 5), 1, (2, 3, 5)), ((2, 3, 5), 2, (6, 5, 1)), ((2, 3, 5), -1, (6, 5, 1)), ((2, 3, 5), -3, (1, 2, 15)),
    ],
)  # fmt: skip
def test_sizes_around_an_axis(shape: Shape, axis: int, folded: Shape) -> None:
    assert folded_shape(shape, axis) == folded


@pytest.mark.parametrize("axis", [2, -3, 7])
def test_an_axis_out_of_range(axis: int) -> None:
    with pytest.raises(QuantizeError, match=rf"^axis {axis} is out of range for a tensor of rank 2\.$"):
        folded_shape((2, 3), axis)


def test_what_is_one_scale() -> None:
    found = {shape: is_scalar(np.ones(shape)) for shape in ((), (1,), (2,), (1, 1), (0,))}
    assert found == {(): True, (1,): True, (2,): False, (1, 1): False, (0,): False}


NEITHER = "a scale of shape {} fits neither a tensor of shape {} along axis {} nor its blocks of size {}."
BLOCKS = "blocks of {} along axis {} of a tensor of shape {} need a scale of shape {}, not {}."
AGREE = "the zero point has the shape {} and the scale {}; they must agree."
SHAPES: list[tuple[Shape, Shape, Shape | None, int, int, str]] = [
    ((4, 6), (), None, 1, 0, ""),
    ((4, 6), (1,), (), 9, 0, ""),  # the axis does not matter
    ((4, 6), (6,), (6,), 1, 0, ""),
    ((4, 6), (6,), (1, 6), 1, 0, AGREE.format((1, 6), (6,))),
    ((4, 6), (6,), (), 1, 0, AGREE.format((), (6,))),
    ((4, 6), (), (6,), 1, 0, AGREE.format((6,), ())),
    ((4, 6), (4,), None, 0, 0, ""),
    ((4, 6), (4,), None, -2, 0, ""),
    ((4, 6), (4,), None, 1, 0, NEITHER.format((4,), (4, 6), 1, 0)),
    ((4, 6), (6, 1), None, 1, 0, NEITHER.format((6, 1), (4, 6), 1, 0)),
    ((4, 6), (6,), None, 1, 3, ""),
    ((4, 6), (4, 2), None, 1, 3, ""),
    ((4, 6), (4, 2), None, -1, 5, ""),
    ((4, 6), (4, 6), None, 1, 1, ""),
    ((4, 6), (4, 2), None, 1, 6, BLOCKS.format(6, 1, (4, 6), (4, 1), (4, 2))),
    ((4, 6), (4, 2), None, 1, 2, BLOCKS.format(2, 1, (4, 6), (4, 3), (4, 2))),
    ((4, 6), (2, 6), None, 0, 2, ""),
    ((4, 6), (2, 6), None, 1, 2, BLOCKS.format(2, 1, (4, 6), (4, 3), (2, 6))),
    ((4, 6), (4, 2), None, 1, 0, NEITHER.format((4, 2), (4, 6), 1, 0)),
    ((4, 6), (), None, 1, -1, "block_size must be positive, or 0 for no blocks, not -1."),
    ((4, 6), (6,), None, 2, 0, "axis 2 is out of range for a tensor of rank 2."),
]


@pytest.mark.parametrize(("shape", "scale", "zero", "axis", "block", "told"), SHAPES)
def test_shapes(shape: Shape, scale: Shape, zero: Shape | None, axis: int, block: int, told: str) -> None:
    arrays = np.ones(shape), np.ones(scale), None if zero is None else np.ones(zero)
    if not told:
        require_shapes(*arrays, axis, block)
        return
    with pytest.raises(QuantizeError) as raised:
        require_shapes(*arrays, axis, block)
    assert str(raised.value) == told
