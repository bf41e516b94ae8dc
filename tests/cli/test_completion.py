"""The completion scripts that shtab makes, in the shells themselves where they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.cli.helpers import Command

CASES = {
    "castsmith op": "optimize",
    "castsmith --v": "--version",
    "castsmith check --targ": "--target",
    "castsmith check --target openvino-n": "openvino-npu",
    "castsmith check --format s": "sarif",
    "castsmith dev promote float8e4m3fnu": "float8e4m3fnuz",
    "castsmith targets show iree": "iree",
    "castsmith explain mixed-op": "mixed-operand-types",
    "castsmith completion f": "fish",
}
BASH = """
COMP_WORDS=($LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_castsmith castsmith "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(castsmith: Command, shell: str) -> str:
    ended = castsmith("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def run(shell: str, *words: str, line: str) -> list[str]:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([path, *words], env={"PATH": "/usr/bin:/bin", "LINE": line}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash(castsmith: Command) -> None:
    text = script(castsmith, "bash") + BASH
    for line, word in CASES.items():
        assert run("bash", "--norc", "-c", text, line=line) == [word], line


def test_fish(castsmith: Command) -> None:
    text = script(castsmith, "fish") + 'complete -C "$LINE"'
    for line, word in CASES.items():
        assert run("fish", "--no-config", "-c", text, line=line)[0] == word, line


def test_zsh(castsmith: Command) -> None:
    run("zsh", "-n", "-c", script(castsmith, "zsh"), line="")


def test_without_shtab_it_says_what_to_install(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ended = castsmith("completion", "bash")
    assert (ended.code, ended.out) == (2, "")
    assert "pip install shtab" in ended.err
