"""No pair of models that differ in one subtle way is called equal, and a model is not different from itself."""

from __future__ import annotations

import onnx.parser
import pytest

import castsmith
from tests.ir.verify.pairs import PAIRS

INCONCLUSIVE = {
    "a branch that is never taken",
    "a comparison that nothing meets",
    "a row of a large table",
    "undefined everywhere",
    "random without a seed",
    "NaN for every input",
    "no elements",
}
"""Those which no input can tell apart, or none of those made does."""


def test_there_are_enough() -> None:
    assert len(PAIRS) >= 60
    assert set(PAIRS) > INCONCLUSIVE


@pytest.mark.parametrize("name", PAIRS)
def test_models_that_differ_are_not_called_equal(name: str) -> None:
    right, wrong = (onnx.parser.parse_model(text) for text in PAIRS[name])
    verdict = castsmith.verify(right, wrong)
    assert verdict.outcome == ("inconclusive" if name in INCONCLUSIVE else "different"), verdict.summary()
    assert not verdict
    assert not castsmith.verify(right, right, sets=2).different
