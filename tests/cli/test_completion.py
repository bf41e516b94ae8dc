"""The completion scripts, in the shells themselves where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from castsmith.cli.completion.words import commands_of, known_values
from castsmith.cli.main import whole_parser
from castsmith.targets.target import target_names
from tests.cli.helpers import Command
from tests.packaging.installed import install

CASES = {
    "castsmith op": ["optimize"],
    "castsmith --v": ["--version"],
    "castsmith check --targ": ["--target"],
    "castsmith check --target openvino-n": ["openvino-npu"],
    "castsmith check --format s": ["sarif"],
    "castsmith optimize --passes place-casts,simplify": ["place-casts,simplify-casts"],
    "castsmith promote float8e4m3fnu": ["float8e4m3fnuz"],
    "castsmith targets show iree": ["iree"],
    "castsmith targets pro": ["probe"],
    "castsmith explain mixed-op": ["mixed-operand-types"],
    "castsmith completion f": ["fish"],
}
BASH = """
COMP_WORDS=(${LINE//=/ = }); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_castsmith; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { : }; compset() { : }; _files() { print files }
_describe() { local word; for word in "${found[@]}"; do [[ $word == $cur* ]] && print -- ${word%%:*}; done; true }
"""
ZSH_RUN = """
words=(${(s: :)LINE}) CURRENT=$#words; _castsmith
"""


def script(castsmith: Command, shell: str) -> str:
    ended = castsmith("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def run(shell: str, *words: str, line: str = "") -> list[str]:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([found, *words], env={"PATH": "/usr/bin:/bin", "LINE": line}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("line", [*CASES, "castsmith check --format=s"])
def test_bash(castsmith: Command, line: str) -> None:
    text = script(castsmith, "bash") + BASH
    assert run("bash", "--norc", "-c", text, line=line) == CASES.get(line, ["sarif"])


@pytest.mark.parametrize("line", [line for line in CASES if "," not in line])
def test_zsh(castsmith: Command, line: str) -> None:
    text = ZSH + script(castsmith, "zsh") + ZSH_RUN
    assert run("zsh", "-f", "-c", text, line=line) == CASES[line]


@pytest.mark.parametrize("line", [line for line in CASES if "," not in line])
def test_fish(castsmith: Command, line: str) -> None:
    lines = run("fish", "--no-config", "-c", script(castsmith, "fish") + 'complete -C "$LINE"', line=line)
    assert lines[0] == CASES[line][0]


def test_a_file_may_stand_where_no_word_is_known(castsmith: Command) -> None:
    assert run("bash", "--norc", "-c", script(castsmith, "bash") + BASH, line="castsmith check mod") == []
    assert "complete -o default -F" in script(castsmith, "bash")
    text = ZSH + script(castsmith, "zsh") + ZSH_RUN
    assert run("zsh", "-f", "-c", text, line="castsmith check mod") == ["files"]


def test_every_command_and_option_is_there(castsmith: Command) -> None:
    commands = list(commands_of(whole_parser(), known_values()))
    assert set(commands[0].words) == {command.name for command in commands[1:]}
    flags = [flag for command in commands for option in command.options for flag in option.flags]
    assert {"--target", "-o", "--json", "--engine"} <= set(flags)
    values = {flag: option.values for command in commands for option in command.options for flag in option.flags}
    assert (values["--dry-run"], values["--json"], values["-o"]) == (None, None, ())
    assert (values["--format"], set(values["--target"] or ())) == (("text", "json", "html"), set(target_names()))
    for shell in ("bash", "zsh", "fish"):
        text = script(castsmith, shell)
        assert all(flag.lstrip("-") in text for flag in flags)
        assert all(name in text for name in target_names())


def test_what_packages_add_is_there_unless_a_shell_would_run_it(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"acme-npu": "sys:path", "$(touch pwned)": "sys:path"}
    install(monkeypatch, tmp_path / "installed", "acme-tools", {"castsmith.targets": names})
    for shell in ("bash", "zsh", "fish"):
        text = script(castsmith, shell)
        assert "acme-npu" in text
        assert "pwned" not in text
