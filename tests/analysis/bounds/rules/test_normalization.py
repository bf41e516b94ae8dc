"""Normalizations bound whatever comes in."""

from __future__ import annotations

import pytest
from onnx_ir import DataType

from castsmith import bounds
from castsmith.analysis.bounds.interval import NAN
from tests.analysis.bounds.rules.grids import box, ruled, step_of
from tests.analysis.bounds.test_analysis import model_of


def test_a_normalization_bounds_whatever_comes_in() -> None:
    model = model_of("y = LayerNormalization (x, w)", constants="float[4] w = {1, 1, 1, 1}")
    found = bounds(model)
    assert found["x"].how == "unknown"
    assert found["y"].how == "proven"
    assert found["y"].magnitude <= 2.01
    assert found["y"].assumes
    assert found["y"].depends_on == ("x",)


def test_a_normalization_of_unknown_length() -> None:
    body = "y = InstanceNormalization <epsilon = 0.01> (x, w, w)"
    found = bounds(model_of(body, "float[1,2,N] x", "float[2] w = {1, 1}"), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert 20 <= found.magnitude <= 22


@pytest.mark.parametrize(
    ("op_type", "length", "most", "overflow"),
    [
        ("LayerNormalization", 5, 1e19, True),  # E[x^2] - E[x]^2 takes a sum of squares, which are 5e38 together
        ("LayerNormalization", 5, 8e18, False),  # and 3.2e38
        ("LayerNormalization", 2, 1.2e19, False),
        ("LayerNormalization", 2, 1.5e19, True),
        ("LayerNormalization", 8, 1e19, False),  # of rows as long as this only where the kernel is assumed not to
        ("RMSNormalization", 5, 1e19, False),  # which is 0 if the squares are infinite
    ],
)
def test_squares_that_overflow(op_type: str, length: int, most: float, *, overflow: bool) -> None:
    x, scale = (box([[-size] * length], [[size] * length], dtype=DataType.FLOAT) for size in (most, 1.0))
    (y,) = ruled(step_of(op_type, [x, scale], dtypes=[DataType.FLOAT]))
    assert bool(y.bits & NAN) == overflow
