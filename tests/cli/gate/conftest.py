"""The folder of models that the tests of the gate check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.gate.samples import FOLLOWED, LOSSY
from tests.cli.helpers import CLEAN, write_model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "followed.onnx", FOLLOWED)
    write_model(tmp_path / "models" / "lossy.onnx", LOSSY)
    write_model(tmp_path / "models" / "clean.onnx", CLEAN)
    return tmp_path
