"""Lines and progress where the output is no terminal."""

from __future__ import annotations

import re
import sys

import pytest

from castsmith.cli.text.screen import print_lines, progress
from castsmith.cli.text.terminal import Line


def test_lines_are_plain_and_coloured_in_the_pager_of_git(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [Line((("bold", "a"), ("", " b"))), Line((("", "c"),))]
    monkeypatch.delenv("GIT_PAGER_IN_USE", raising=False)
    print_lines(lines)
    assert capsys.readouterr().out == "a b\nc\n"
    monkeypatch.setenv("GIT_PAGER_IN_USE", "1")
    monkeypatch.setenv("TERM", "xterm")
    print_lines(lines)
    coloured = capsys.readouterr().out
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == "a b\nc\n"
    monkeypatch.delenv("GIT_PAGER_IN_USE")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_lines(lines)
    assert capsys.readouterr().out == coloured


def test_steps_are_silent_but_for_their_times_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with progress(2, quiet=quiet) as announce:
            announce("one")
        assert capsys.readouterr() == ("", "")
    with progress(verbose=True, quiet=True) as announce:
        announce("one")
        assert capsys.readouterr().err == ""
        announce("two")
        assert re.fullmatch(r"castsmith: +\d+\.\d{3} s  one\n", capsys.readouterr().err)
    assert re.fullmatch(r"castsmith: +\d+\.\d{3} s  two\n", capsys.readouterr().err)


def test_a_terminal_shows_a_bar_unless_it_shall_be_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    for quiet in (False, True):
        with progress(2, quiet=quiet) as announce:
            announce("one")
        assert (capsys.readouterr().err == "") is quiet
