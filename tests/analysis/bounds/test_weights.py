"""Weights of which the ends alone are read, and those that are repeated."""

from __future__ import annotations

import pytest

from castsmith import bounds
from castsmith.analysis.bounds import weights
from tests.analysis.bounds.test_analysis import LAYERS, model_of


@pytest.mark.parametrize("name", ["matmul", "gemm", "conv"])
def test_of_very_large_constants_the_ends_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_MOST", 2)
    inputs, constants, body, true = LAYERS[name]
    found = bounds(model_of(body, inputs, constants), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert true < found.magnitude <= 3 * true


def test_weights_that_are_repeated_sum_up_to_more() -> None:
    """A softmax along an axis of length 1 is 1; repeated along it, the elements sum up to its new length."""
    body = "p = Softmax (x) o = Identity (w) q = Mul (p, o) y = MatMul (q, z)"
    model = model_of(body, "float[2,1] x, float[8,3] z", "float[1,8] w = {1, 1, 1, 1, 1, 1, 1, 1}")
    assert bounds(model, ranges={"x": (-1, 1), "z": (0, 1)})["y"].high >= 8
    body = "p = Softmax (x) e = Expand (p, w) y = MatMul (e, z)"
    model = model_of(body, "float[2,N] x, float[M,3] z", "int64[2] w = {2, 8}")
    found = bounds(model, ranges={"x": (-1, 1), "z": (0, 1)})["y"]
    assert found.how == "unknown" or found.high >= 8


def test_elements_of_constants_that_are_not_very_large_count(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("y = MatMul (x, w) z = Gemm (x, w)", "float[1,2] x", "float[2,2] w = {3, 1, 1, 3}")
    for most, magnitude in ((4, 4.0), (3, 6.0)):  # of each row the greatest element, which is in another column
        monkeypatch.setattr(weights, "_MOST", most)
        found = bounds(model, ranges={"x": (-1, 1)})
        assert [found[name].magnitude for name in "yz"] == pytest.approx([magnitude] * 2, rel=1e-5)
