"""Operators of com.microsoft: their bounds, computed by hand next to each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from castsmith.analysis.bounds.interval import ANYTHING, NAN, NONE, Interval
from tests.analysis.bounds.rules.grids import box, check_tight, ruled, step_of, with_special


def _gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def _fast_gelu(x: float) -> float:
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


_ROWS = box([[1] * 4], [[2] * 4]), box([[0] * 4], [[1] * 4])
_CASES: dict[str, tuple[str, list[Any], tuple[float, float]]] = {
    "gelu": ("Gelu", [box([1], [2])], (_gelu(1), _gelu(2))),
    "fast gelu": ("FastGelu", [box([1], [2])], (_fast_gelu(1), _fast_gelu(2))),
    "fast gelu with a bias": ("FastGelu", [box([1], [2]), box([-1], [0])], (0, _fast_gelu(2))),
    "bias gelu": ("BiasGelu", [box([1], [1]), box([0], [1])], (_gelu(1), _gelu(2))),
    # rows of 4 over their root mean square are at most 2
    "skip norm": ("SkipLayerNormalization", [*_ROWS, np.array([1.0, 1, 1, 3]), np.array([0.0, 0, 0, 1])], (-5, 7)),
    "simplified": ("SkipSimplifiedLayerNormalization", [*_ROWS, np.array([1.0, 1, 1, 3])], (-6, 6)),
}


def result(name: str, **facts: Any) -> Interval:
    op_type, operands, _ = _CASES[name]
    operands = [with_special(each, **facts) if isinstance(each, Interval) and facts else each for each in operands]
    given = {"epsilon": 1e-5} if op_type.startswith("Skip") else {}
    return ruled(step_of(op_type, operands, given, domain="com.microsoft", opset=1))[0]


@pytest.mark.parametrize("name", _CASES)
def test_bounds_by_hand(name: str) -> None:
    low, high = _CASES[name][-1]
    found = result(name)
    check_tight((found.least, found.greatest), (low, high))
    assert found.bits == NONE


@pytest.mark.parametrize("name", _CASES)
def test_facts_of_operands(name: str) -> None:
    told = result(name, special=NAN, blame=frozenset({"b"}), assumes=frozenset({"a"}))
    assert told.bits & NAN
    assert told.blame == {"b"}
    assert "a" in told.assumes


def test_all_results_of_a_skip_normalization() -> None:
    """x + skip + bias is the fourth."""
    operands, dims = [*_ROWS, np.ones(4), np.zeros(4), np.array([4.0, 4, 4, 4])], (None,) * 4
    found = ruled(step_of("SkipLayerNormalization", operands, domain="com.microsoft", opset=1, dims=dims))
    for each, true, margin in ((found[0], (-2, 2), 0.1), (found[3], (5, 7), 1e-4)):  # the first covers E[x^2] - E[x]^2
        check_tight((each.least, each.greatest), true, margin)
        assert each.bits == NONE
    assert [each.bits for each in found[1:3]] == [ANYTHING, ANYTHING]
    short = ruled(step_of("SkipLayerNormalization", operands, domain="com.microsoft", opset=1, dims=dims[:2]))
    assert len(short) == 2
    simple = [*_ROWS, np.ones(4), operands[4]]
    found = ruled(step_of("SkipSimplifiedLayerNormalization", simple, domain="com.microsoft", opset=1, dims=dims))
    check_tight((found[3].least, found[3].greatest), (5, 7))
