"""castsmith check as a gate: severities, baseline, settings of a project, causes, and the formats of code hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.helpers import MIXED, Command, is_one_sentence, write_model


def test_an_intended_rounding_fails_no_run(castsmith: Command) -> None:
    lossy = "models/lossy.onnx"
    codes = [castsmith("check", lossy, *words).code for words in ((), ("--fail-on", "note"), ("--fail-on", "error"))]
    assert codes == [0, 1, 0]
    assert castsmith("check", "models", "--exit-zero").code == 0
    assert castsmith("check", "models", "none.onnx", "--exit-zero").code == 2


def _two(*_: object) -> int:
    return 2


def test_processes_find_the_same(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = castsmith("check", "models", "none.onnx", "--json", "--promotion", "numpy").out
    monkeypatch.setattr("castsmith.cli.batch.pool.useful_processes", _two)
    asked = castsmith("check", "models", "none.onnx", "--json", "--promotion", "numpy", "-j", "2")
    assert (asked.out, asked.code) == (alone, 2)
    assert "none.onnx" in asked.err


def test_one_run_gives_several_formats(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "a.onnx", MIXED)
    formats = {"json": "a.json", "sarif": "a.sarif", "markdown": "a.md"}
    also = [f"--also={shape}={file}" for shape, file in formats.items()]
    ended = castsmith("check", "a.onnx", "--format", "github", *also)
    assert (ended.code, ended.out) == (1, castsmith("check", "a.onnx", "--format", "github").out)
    for shape, file in formats.items():
        assert (tmp_path / file).read_text() == castsmith("check", "a.onnx", "--format", shape).out
    for wrong in ("github=a.txt", "sarif", "sarif=", "sarif=a.onnx", "sarif=none/a.sarif"):
        refused = castsmith("check", "a.onnx", "--also", wrong)
        assert (refused.code, refused.out, is_one_sentence(refused.err)) == (2, "", True), wrong
