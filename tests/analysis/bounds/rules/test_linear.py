"""Products of matrices, in blocks and in float."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from castsmith import bounds
from castsmith.analysis.bounds import sums, weights
from castsmith.analysis.bounds.interval import Ball
from tests.analysis.bounds.test_analysis import model_of


def test_products_are_bounded_alike_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    model = model_of("n = LayerNormalization (x, s, o) a = MatMul (n, w) y = Gemm <transB = 1> (a, v)", "float[2,6] x")
    shapes = {"s": (6,), "o": (6,), "w": (6, 5), "v": (4, 5)}
    arrays = {name: draw.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    whole = bounds(model)
    monkeypatch.setattr(sums, "_CHUNK", 7)
    parts = bounds(model)
    for name in ("a", "y"):
        assert parts[name].how == "proven"
        assert (parts[name].low, parts[name].high) == (whole[name].low, whole[name].high)


@pytest.mark.parametrize(
    ("size", "large", "most"),
    [
        (0.06, 1 << 22, (1.2, 4.0)),  # 2 * 0.06 / sqrt(epsilon), and the norms of row and column, 2 * 2
        (0.06, 0, (2.0, 4.0)),  # elements that reach half the norm are not asked about one by one
        (0.04, 0, (0.8, 3.2)),
        (0.04, 1 << 22, (0.8, 3.2)),
    ],
)
def test_elements_of_large_products_count_where_they_are_much_less_than_the_norm(
    size: float, large: int, most: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "_LARGE", large)
    constants = "float[4] s = {1, 1, 1, 1}, float[4,1] v = {1, 0, 0, 0}, float[4,1] w = {1, 1, 1, 1}"
    body = "a = LayerNormalization <epsilon = 0.01> (x, s) y = MatMul (a, v) z = MatMul (a, w) u = MatMul (x, w)"
    found = bounds(model_of(body, "float[1,4] x", constants), ranges={"x": (-size, size)})
    assert (found["y"].high, found["z"].high) == pytest.approx(most, rel=2e-3)
    assert (-found["y"].low, -found["z"].low) == pytest.approx(most, rel=2e-3)
    assert found["u"].high == pytest.approx(4 * size, rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 2.0**-148, 2.0**60, 2.0**120])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_a_large_matrix_is_bounded_in_float_a_little_wider(
    scale: float, layout: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    matrix = np.asarray(
        draw.standard_normal((96, 7)) * 2.0 ** draw.integers(-30, 4, (96, 7)) * scale, np.float32, layout
    )
    center, half = draw.standard_normal((3, 96)), 2.0 ** draw.integers(-200, 3, (3, 96))
    center[0], half[1], center[2, ::2] = 0, 0, 0
    ball = Ball(9.8, half[0], center[1], 0.0)
    monkeypatch.setattr(sums, "_CHUNK", 50)
    held = weights.weights_of(matrix)

    boxes = [(center - half, center + half), (center[:, :1] - 1, center[:, :1] + 1)]
    exact = [held.box(*box) for box in boxes]
    low, high = (exact_ball := held.ball(ball))[0]
    monkeypatch.setattr(sums, "_LARGE", 0)
    for (least, most, size), found in zip(exact, [held.box(*box) for box in boxes], strict=True):
        assert (found.least <= least).all()
        assert (found.most >= most).all()
        assert (found.size >= size).all()
        margin = 1e-4 * size + 96 * 2.0**-120
        assert (found.least >= least - margin).all()
        assert (found.most <= most + margin).all()
    (least, most), size = held.ball(ball)
    assert (least <= low).all()
    assert (most >= high).all()
    assert (size >= exact_ball[1]).all()
    margin = 1e-4 * exact_ball[1] + 96 * 2.0**-60
    assert (least >= low - margin).all()
    assert (most <= high + margin).all()
    unknown = held.box(np.full((1, 1), -np.inf), np.zeros((1, 1)))
    assert np.isneginf(unknown.least).all()
    assert np.isposinf(unknown.most).all()
