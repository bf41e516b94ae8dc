"""Sums along an axis."""

from __future__ import annotations

from castsmith import bounds
from castsmith.analysis.bounds.interval import Shares
from castsmith.analysis.bounds.step import LENGTHS, NO_OVERFLOW
from tests.analysis.bounds.rules.grids import box, check_tight, ruled, step_of
from tests.analysis.bounds.test_analysis import model_of


def test_cumulative_sums() -> None:
    model = model_of("y = CumSum (x, z)", constants="int64 z = {1}")
    found = bounds(model, ranges={"x": (-1, 2)})["y"]
    check_tight((found.low, found.high), (-4, 8))


def test_a_sum_of_parts_assumes_what_they_do() -> None:
    parts = box(0, 1, (2, 4), shares=Shares(1, 1.0, frozenset({LENGTHS})), assumes=frozenset({NO_OVERFLOW}))
    (y,) = ruled(step_of("ReduceSum", [parts], {"axes": [1]}, opset=11))
    check_tight((y.least, y.greatest), (0, 1))
    assert y.assumes == {LENGTHS, NO_OVERFLOW}
