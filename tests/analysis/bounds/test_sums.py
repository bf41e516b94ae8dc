"""Bounds of sums of products with a matrix, in double and in float, in one part or many: against sums of each term."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from castsmith.analysis.bounds import sums
from castsmith.analysis.bounds.interval import Ball
from castsmith.analysis.bounds.sums import Layout, ball_sums, box_sums, part_height, product_with
from castsmith.analysis.bounds.weights import weights_of

Array = np.ndarray[Any, Any]
K, N = 24, 6


def of_terms(low: Array, high: Array, matrix: Array) -> tuple[Array, Array, Array]:
    """The least and the most of the sums for x in [low, high], and of their absolute values; infinity times 0 is 0."""
    with np.errstate(invalid="ignore"):
        ends = [np.nan_to_num(end[:, :, None] * matrix, nan=0.0, posinf=np.inf, neginf=-np.inf) for end in (low, high)]
    least, most = (pick(*ends).sum(axis=1) for pick in (np.minimum, np.maximum))
    return least, most, np.maximum(np.abs(ends[0]), np.abs(ends[1])).sum(axis=1)


def of_ball(ball: Ball, matrix: Array) -> tuple[Array, Array, Array]:
    center = (ball.offset[:, None] * matrix).sum(axis=0)
    half = ball.radius * np.linalg.norm(ball.scale[:, None] * matrix, axis=0)
    size = ((np.abs(ball.scale) * ball.radius + np.abs(ball.offset))[:, None] * np.abs(matrix)).sum(axis=0)
    return center - half, center + half, size


def require_near(found: tuple[Array, Array, Array], expected: tuple[Array, Array, Array], error: Array | None) -> None:
    """Found bounds hold the expected ones, and exceed them by the error, or by nothing but roundings in double."""
    (least, most, size), (true_least, true_most, true_size) = found, expected
    for excess in (true_least - least, most - true_most):
        if error is None:
            assert (np.abs(excess) <= true_size * 2.0**-48).all()
        else:
            assert (excess >= 0.7 * error).all()
            assert (excess <= 1.2 * error + 1e-30).all()
    assert (size >= true_size * (1 - 2.0**-48)).all()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("chunk", [1, 2 * K, 1 << 17])
def test_bounds_are_those_of_each_term(large: bool, turned: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_CHUNK", chunk)
    monkeypatch.setattr(sums, "_LARGE", K * N - 1 if large else K * N)
    together = min(K, chunk if turned else max(1, chunk // N))  # terms that are added in float
    random, gamma = np.random.default_rng(0), (together + 8) * 2.0**-24
    matrix = random.normal(size=(K, N))
    matrix[3], matrix[:, 2] = 0, np.abs(matrix[:, 2])
    matrix = matrix.astype(np.float32)
    weights, matrix = weights_of(matrix.T.copy().T if turned else matrix), matrix.astype(np.float64)
    assert (weights.layout.turned, weights.layout.is_large) == (turned, large)
    for rows, width in product((1, 3), (1, K)):
        low, high = np.sort(random.normal(size=(2, rows, width)) * 10 + random.integers(-5, 5), axis=0)
        expected = of_terms(np.broadcast_to(low, (rows, K)), np.broadcast_to(high, (rows, K)), matrix)
        box = weights.box(low, high)
        require_near((box.least, box.most, box.size), expected, 2 * gamma * expected[2] if large else None)
    for offset in (np.zeros(K), random.normal(size=K) * 5):
        scale = random.normal(size=K)
        scale[0] = 0
        ball = Ball(3.5, scale, offset, 0.0)
        (least, most), size = weights.ball(ball)
        expected, moved = of_ball(ball, matrix), np.abs(offset) @ np.abs(matrix)
        error = gamma * (expected[1] - expected[0]) / 2 + 2 * gamma * moved
        require_near((least, most, size), (*expected[:2], size), error if large else None)
        assert (size >= expected[2] * (1 - 2.0**-48)).all()
        assert (size <= expected[2] * (np.sqrt(K) + 1)).all()


def test_numbers_without_bound() -> None:
    """A column that does not meet one is bounded as if it were not there."""
    matrix = np.array([[1.0, 0.0, -2.0], [3.0, -1.0, 0.0]])
    for low, high in product(([-np.inf, 1], [-1, -np.inf], [-1, 1]), ([np.inf, 2], [4, np.inf], [4, 5])):
        ends = np.array([low]), np.array([high])
        least, most, _ = product_with(*ends, matrix)
        expected = of_terms(*ends, matrix)
        assert np.array_equal(least, expected[0]), (low, high)
        assert np.array_equal(most, expected[1]), (low, high)
    for end in ((-np.inf, 2.0), (-1.0, np.inf), (-np.inf, np.inf)):  # one entry for all rows
        ends = np.full((1, 1), end[0]), np.full((1, 1), end[1])
        expected = of_terms(np.broadcast_to(ends[0], (1, 2)), np.broadcast_to(ends[1], (1, 2)), matrix)
        for ours, theirs in zip(product_with(*ends, matrix), expected, strict=True):
            assert np.array_equal(ours, theirs), end


def test_a_large_matrix_is_not_read_for_nothing() -> None:
    layout = Layout(1 << 12, (1 << 10) + 1)
    assert layout.is_large
    assert not Layout(1 << 12, 1 << 10).is_large
    for low, high in ((-np.inf, 1.0), (-1.0, np.inf)):
        found = box_sums(np.full((2, 1), low), np.full((2, 1), high), layout)
        assert isinstance(found, sums.Sums)
        assert (found.least == -np.inf).all()
        assert ((found.most == np.inf) & (found.size == np.inf)).all()
        assert found.least.shape == (2, layout.n)
    found = box_sums(np.zeros((2, 1)), np.zeros((2, 1)), layout)
    assert isinstance(found, sums.Sums)
    assert [part.any() for part in found] == [False] * 3
    found = box_sums(np.full((2, 1), -1.0), np.zeros((2, 1)), layout)
    assert isinstance(found, list)
    assert [type(each).__name__ for each in found] == ["_BoxInFloat", "_BoxInDouble"]
    assert [each.is_light for each in found] == [False, False]
    assert [each.is_light for each in ball_sums(Ball(1.0, np.ones(1), np.zeros(1), 0.0), layout)] == [True, True]


def test_sums_that_leave_the_range_of_float_are_computed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_LARGE", 1)
    matrix = np.full((4, 2), 3e38, np.float32)
    least, most, size = weights_of(matrix).box(np.full((1, 1), -1.0), np.full((1, 1), 2.0))
    assert (np.isfinite(least) & np.isfinite(most) & np.isfinite(size)).all()
    assert (np.abs(most / 2.4e39 - 1) < 1e-6).all()
    (least, most), size = weights_of(matrix).ball(Ball(2.0, np.ones(4), np.ones(4), 0.0))
    assert (np.abs(most / (1.2e39 + 1.2e39) - 1) < 1e-6).all()
    assert (np.abs(least / 3e38) < 1e-6).all()
    assert (np.abs(size / (3 * 1.2e39) - 1) < 1e-6).all()


def test_rows_of_a_part_stay_in_the_cache() -> None:
    for width, height in ((0, 1 << 17), (1, 1 << 17), (1 << 10, 128), ((1 << 17) - 1, 1), (1 << 17, 1), (1 << 18, 1)):
        assert part_height(width) == height
    assert (Layout(8, 1 << 10).height, Layout(1 << 10, 8, turned=True).height) == (128, 128)
