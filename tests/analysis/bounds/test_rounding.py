"""The numbers that a type rounds to infinity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.analysis.bounds.rounding import kept, rounded


@pytest.mark.parametrize(("dtype", "limit", "below"), [
    (DataType.FLOAT16, 65520.0, 65504.0),
    (DataType.FLOAT, 2.0**128 - 2.0**103, 2.0**128 - 2.0**104),
    (DataType.FLOAT8E5M2, 61440.0, 57344.0),
    (DataType.FLOAT8E4M3FN, math.nextafter(464.0, 465.0), 448.0),
    (DataType.FLOAT8E4M3FNUZ, 248.0, 240.0),
    (DataType.FLOAT4E2M1, 7.0, 6.0),
])  # fmt: skip
def test_the_numbers_that_round_to_infinity(dtype: DataType, limit: float, below: float) -> None:
    """Halfway to the number that would come next; a tie goes to the even one. Float16 may be kept in float."""
    for number, expected in ((limit, math.inf), (math.nextafter(limit, 0), below)):
        kept = float(np.float32(number)) if dtype == DataType.FLOAT16 else 0.0
        low, high = rounded(np.array([-number]), np.array([number]), dtype)
        assert (low[0], high[0]) == (-max(expected, kept), max(expected, kept))


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.DOUBLE, None])
def test_numbers_of_types_that_are_not_kept_wider_are_not_rounded_later(dtype: DataType | None) -> None:
    number = 1 + 2.0**-30  # float has 24 bits
    low, high = kept(np.array([number]), np.array([-number]), dtype)
    assert (low[0], high[0]) == (number, -number)
