"""Sums along an axis."""

from __future__ import annotations

from castsmith import bounds
from tests.analysis.bounds.rules.grids import check_tight
from tests.analysis.bounds.test_analysis import model_of


def test_cumulative_sums() -> None:
    model = model_of("y = CumSum (x, z)", constants="int64 z = {1}")
    found = bounds(model, ranges={"x": (-1, 2)})["y"]
    check_tight((found.low, found.high), (-4, 8))
