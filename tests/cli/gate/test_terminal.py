"""Findings on a terminal."""

from __future__ import annotations

import re

import pytest

from tests.cli.helpers import Command

pytestmark = pytest.mark.usefixtures("untried")


def plain(text: str) -> str:
    """Return the text without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def test_a_terminal_shows_a_cause_once(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    text = plain(castsmith("check", "models").out)
    assert text.count("mixed-operand-types") == 2
    assert "4 findings follow from it: 1 mixed-operand-types, 2 value-type-mismatch" in text
    assert text.splitlines()[-1].startswith("5 errors, 1 note in 2 of 3 models (--all lists each)")
    assert max(map(len, text.splitlines())) <= 80
    assert "g: b (Relu): the value b is declared" in plain(castsmith("check", "models", "--all").out)
