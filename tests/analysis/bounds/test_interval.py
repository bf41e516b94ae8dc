"""What tells intervals apart, and entries that are joined."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.analysis.bounds import interval
from castsmith.analysis.bounds.interval import NAN, Ball, Interval, Shares, key_of
from tests.analysis.bounds.rules.grids import box


def test_each_fact_is_part_of_the_key() -> None:
    ball = Ball(2.0, np.ones(2), np.zeros(2), 0.0)
    x = box([[0.0, 0.0]], [[1.0, 1.0]], ball=ball)
    changes: dict[str, list[Any]] = {
        "low": [np.array([[0.0, -1.0]]), np.array([[0.0]])],
        "high": [np.array([[1.0, 2.0]])],
        "special": [np.array([[0, NAN]], np.uint8)],
        "dims": [(None, 2), None],
        "dtype": [DataType.FLOAT, None],
        "shares": [Shares(1, 1.0), Shares(0, 1.0), Shares(1, 2.0), Shares(1, 1.0, frozenset({"a"}))],
        "ball": [None, *(replace(ball, **{name: np.full(2, 3.0)}) for name in ("scale", "offset"))],
        "assumes": [frozenset({"a"})],
        "blame": [frozenset({"a"})],
    }
    changes["ball"] += [replace(ball, radius=3.0), replace(ball, slack=0.5)]
    assert set(changes) == {field.name for field in fields(Interval)}
    others = [replace(x, **{name: value}) for name, values in changes.items() for value in values]
    assert len({key_of(other) for other in (x, *others)}) == 1 + len(others)
    assert key_of(box([[0.0, 0.0]], [[1.0, 1.0]], ball=replace(ball))) == key_of(x)


def test_the_largest_dimensions_are_joined_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "_MOST", 4)
    for shape, joined in (((2, 2), (2, 2)), ((5, 1), (1, 1)), ((2, 3, 2), (2, 1, 2)), ((3, 3, 3), (1, 1, 3))):
        low = np.arange(float(np.prod(shape))).reshape(shape)
        x = box(low, low + 1)
        assert x.low.shape == x.high.shape == x.special.shape == joined
        assert (x.least, x.greatest) == (0, low.size)
