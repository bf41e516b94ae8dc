"""Conversions of random models: valid, strongly typed, loaded, with the interface and near the values of before."""

from __future__ import annotations

import pytest

from tests.passes.precision.judged import judged

FIRST = 11000


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 32))
def test_a_random_model_is_converted_right(seed: int) -> None:
    found = judged(seed)
    if found.startswith("skipped"):
        pytest.skip(found)
    assert not found
