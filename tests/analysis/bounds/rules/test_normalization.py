"""Normalizations bound whatever comes in."""

from __future__ import annotations

from castsmith import bounds
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
