"""Limits of memory: inputs, operands, results, and all values that a run holds at a time."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate import limits
from castsmith.verification.evaluate.engines import Engine, LimitError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import Budget

_MIB = 1 << 18
"""Elements of float in a MiB."""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        # operands of Relu: an eighth of the memory
        ("g (float[N] x) => (float[N] y) { y = Relu (x) }", _MIB),
        # results of Tile: an eighth, in elements of the widest type of its operands
        ("g (float[N] x) => (float[M] y) <int64[1] k = {64}> { y = Tile (x, k) }", _MIB // 128),
        # x, a, b and y: a quarter, at the last node
        ("g (float[N] x) => (float[N] y) { a = Relu (x) b = Neg (x) c = Add (a, b) y = Add (c, x) }", _MIB // 2),
        # a sequence of four
        (
            "g (float[N] x) => (seq(float[N]) y) { a = Relu (x) b = Neg (x) y = SequenceConstruct (x, a, b) }",
            2 * _MIB // 6,
        ),
    ],
)
def test_a_run_takes_no_more_memory_than_it_may(text: str, elements: int) -> None:
    model = as_model(parsed(text))
    for size, fits in ((elements, True), (elements + 64, False)):
        evaluator = Evaluator(model, PromotionRules(), Engine("reference"), Budget(memory=8))
        feeds = {"x": np.ones(size, np.float32)}
        if fits:
            evaluator.run(feeds)
        else:
            with pytest.raises(LimitError, match=r"memory|exceeds the limit"):
                evaluator.run(feeds)


def test_inputs_take_no_more_memory_than_they_may() -> None:
    for second, equal in ((_MIB // 2, True), (_MIB // 2 + 1, False)):
        head = f"g (float[{_MIB // 2}] x, float[{second}] z) => (float[{_MIB // 2}] y, float[{second}] w)"
        pair = [parsed(f"{head} {{ y = Neg (x) w = Identity (z) }}")] * 2
        verdict = castsmith.verify(*pair, memory=8, sets=1, engine="reference", seconds=5)
        assert bool(verdict.runs) == equal
        assert equal or "the input z of shape" in str(verdict.unsure)


@pytest.mark.parametrize(
    ("seconds", "used", "call"), [(20, 0, 10), (100, 0, 25), (100, 90, 10), (20, 15, 5), (20, 20, 0.1), (4, 0, 4)]
)
def test_the_time_of_one_operator(seconds: float, used: float, call: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of all, or ten seconds, and no more than is left."""
    monkeypatch.setattr(limits, "_now", lambda: float(used))
    budget = Budget(seconds, started=0.0)
    assert (budget.left, budget.call) == (seconds - used, call)
    assert (budget.has_time(), budget.has_time(0.5)) == (used < seconds, used < seconds / 2)
    budget.extend()
    assert budget.left == max(1.0, seconds - used)
