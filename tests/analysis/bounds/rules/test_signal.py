"""Resized images."""

from __future__ import annotations

import pytest
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Dims, UnknownRangeError, collapsed
from castsmith.analysis.bounds.rounding import limits_of
from tests.analysis.bounds.rules.grids import box, ruled, step_of


@pytest.mark.parametrize("dims", [(1, 2, 8), (2, 8), (1, 1, 2, 8)])
def test_a_result_that_is_declared_with_another_rank_says_nothing(dims: Dims) -> None:
    x, sizes = box(-1, 1, (1, 2, 4)), box(*limits_of(DataType.INT64), (None,), dtype=DataType.INT64)
    if len(dims) == 3:
        assert ruled(step_of("Resize", [x, None, None, sizes], dims=[dims]))[0].dims == dims
    else:
        with pytest.raises(UnknownRangeError):
            ruled(step_of("Resize", [x, None, None, sizes], dims=[dims]))
    unknown = collapsed(x, None)
    assert ruled(step_of("Resize", [unknown, None, None, sizes], dims=[dims]))[0].dims == dims
