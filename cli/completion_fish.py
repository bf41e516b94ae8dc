"""The completion script for fish, a line for each command and option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.cli.completion_words import Command, Option

_HEAD = "# castsmith in fish: castsmith completion fish > ~/.config/fish/completions/castsmith.fish"


def script(commands: Sequence[Command]) -> str:
    return "\n".join([_HEAD, *_lines(commands)]) + "\n"


def _lines(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        where = f"__fish_seen_subcommand_from {command.name}" if command.name else "__fish_use_subcommand"
        start = f"complete -c castsmith -n {_quoted(where)}"
        if command.name:
            yield f"complete -c castsmith -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.help)}"
            if command.words:
                yield f"{start} -a {_quoted(' '.join(command.words))}"
        for option in command.options:
            yield f"{start} {_option(option)}"


def _option(option: Option) -> str:
    parts = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.values:
        parts.append(f"-x -a {_quoted(' '.join(option.values))}")
    elif option.values is not None:
        parts.append("-r")
    return " ".join([*parts, f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
