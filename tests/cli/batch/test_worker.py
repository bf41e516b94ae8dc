"""A process that runs models one after another."""

from __future__ import annotations

import io

import pytest

from castsmith.cli.batch.worker import outcome_of
from tests.cli.helpers import task_for


def test_what_an_earlier_model_said_is_not_said_again(capfd: pytest.CaptureFixture[str]) -> None:
    errors = io.BytesIO(b"castsmith: what the model before said, which is longer\n")
    outcome = outcome_of(task_for("info", "none.onnx"), errors)
    assert (outcome.exit_code, outcome.messages, outcome.text) == (2, [], "")
    assert outcome.failure is not None
    assert capfd.readouterr().err == f"castsmith: {outcome.failure.message}\n"
