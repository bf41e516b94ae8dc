"""No pair of models that differ in one subtle way is called equal, and a model is not different from itself."""

from __future__ import annotations

import onnx.parser
import pytest

import castsmith
from tests.sampling import sampled
from tests.verification.equal_pairs import EQUAL_PAIRS
from tests.verification.operator_pairs import OPERATOR_PAIRS
from tests.verification.pairs import PAIRS

pytestmark = pytest.mark.usefixtures("engines_here")

INCONCLUSIVE = {
    "a branch that is never taken",
    "an operand of Where that is never chosen",
    "a row of a large table",
    "undefined everywhere",
    "random without a seed",
    "NaN for every input",
    "no elements",
}
"""Pairs that no input distinguishes, or that no generated input distinguishes."""


def test_there_are_enough() -> None:
    assert len(PAIRS) >= 60
    assert set(PAIRS) > INCONCLUSIVE


@pytest.mark.parametrize("name", sampled("pairs of models that differ", PAIRS, 16, always=INCONCLUSIVE.__contains__))
def test_models_that_differ_are_not_called_equal(name: str) -> None:
    right, wrong = (onnx.parser.parse_model(text) for text in PAIRS[name])
    verdict = castsmith.verify(right, wrong)
    assert verdict.outcome == ("inconclusive" if name in INCONCLUSIVE else "different"), verdict.summary()
    assert not verdict
    assert not castsmith.verify(right, right, sets=1).different


@pytest.mark.parametrize("name", sampled("pairs of operators that differ", OPERATOR_PAIRS, len(OPERATOR_PAIRS) // 12))
def test_operators_that_differ_are_not_called_equal(name: str) -> None:
    verdict = castsmith.verify(*map(onnx.parser.parse_model, OPERATOR_PAIRS[name]))
    assert not verdict.equal, verdict.summary()


@pytest.mark.parametrize("name", sampled("pairs of models that are equal", EQUAL_PAIRS, 10))
def test_models_that_mean_the_same_are_called_equal(name: str) -> None:
    verdict = castsmith.verify(*map(onnx.parser.parse_model, EQUAL_PAIRS[name]))
    assert verdict.equal, verdict.summary()


UNSHOWN = (
    "Where shape dependent N==7",
    "Where x exactly big product",
    "bit test",
    "loop capped at 20",
    "LayerNorm stash",
    "PRelu opset 6/7",
    "OneHot opset 9/11",
    "thresholdedrelu",
    "shrink",
    "nms iou",
    "operands that only agree by promotion",
)
"""Those that were called equal once."""


@pytest.mark.parametrize("name", UNSHOWN)
def test_what_no_output_shows_is_not_called_equal(name: str) -> None:
    verdict = castsmith.verify(*map(onnx.parser.parse_model, OPERATOR_PAIRS[name]))
    assert not verdict.equal, verdict.summary()
