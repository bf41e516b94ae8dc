"""What a runtime changes as a whole is told apart from what the model means."""

from __future__ import annotations

from tests.verification.test_run import HEAD, MISCOMPILES, compared


def test_the_runtime_is_told_apart_from_the_model() -> None:
    chain = HEAD + MISCOMPILES["wrapping is taken for saturating"][0]
    verdict = compared(chain, chain)
    assert verdict.same
    assert any("ONNX Runtime" in text and "y[" in text for text in verdict.runtime)
