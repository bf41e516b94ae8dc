"""The argument parser: a help that shows the options that people use, one that shows all, and errors of one line."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from castsmith.cli.text.terminal import print_data, print_text

GENERAL = "general"
"""The title of the last group: options that every command has."""

_WIDEST = 100
_MISSING, _UNKNOWN = "the following arguments are required: ", "unrecognized arguments: "
"""How messages of argparse begin."""


class UsageError(Exception):
    """Invalid command-line arguments."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with a help of the common options and one of all, whose error is one line.

    Attributes:
        run: The function that carries the command out, as `module:function` in `castsmith.cli.commands`; empty for a
            group of commands.
        common: The options that --help shows; empty for all.
        sections: Of a parser with commands: the commands by purpose, for its help.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, add_help=False, formatter_class=_formatter, **settings)
        self.register("action", None, _Once)
        self.run = ""
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)
        self.common: Sequence[str] = ()
        self.sections: Mapping[str, Sequence[str]] = {}
        group = self.add_argument_group(GENERAL)
        group.add_argument("-h", "--help", action="help", help="show this help and exit")
        group.add_argument("--help-all", nargs=0, action=_HelpOfAll, help="show all options and exit")

    @property
    def general(self) -> Any:
        """The group of the options that every command has."""
        return next(group for group in self._action_groups if group.title == GENERAL)

    def format_help(self) -> str:
        """Return the help with the common options."""
        return self._help({*self.common, "--help", "--help-all"} if self.common else None)

    def format_help_of_all(self) -> str:
        """Return the help with all options."""
        return self._help(None)

    def _help(self, flags: set[str] | None) -> str:
        """Return the help with some options; None for all."""
        named = [action for action in self._actions if action.required or not action.option_strings]
        formatter = _formatter(f"{self.prog} [options]")
        formatter.add_usage(None, named, ())
        formatter.add_text(self.description)
        commands: dict[str, argparse.Action] = {
            command.dest: command
            for action in named
            if isinstance(action.choices, dict)
            for command in action._get_subactions()  # type: ignore[attr-defined]  # pyright: ignore
        }
        positional = [action for action in named if not action.option_strings and not isinstance(action.choices, dict)]
        sections: dict[str | None, Iterable[argparse.Action]] = {"arguments": positional}
        for title, names in (self.sections or {"commands": [*commands]}).items():
            sections[title] = [commands[name] for name in names]
        for group in sorted(self._action_groups, key=lambda group: group.title == GENERAL):
            options = [action for action in group._group_actions if action.option_strings]
            sections[group.title] = [action for action in options if flags is None or flags & {*action.option_strings}]
        for title, actions in sections.items():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        if flags is not None:
            formatter.add_text(f"{self.prog} --help-all shows all options.")
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _print_message(self, message: str, file: Any = None) -> None:
        print_data(message) if file in (None, sys.stdout) else print_text(message, file)

    def error(self, message: str) -> NoReturn:
        text = self._sentence(message).rstrip(".")
        raise UsageError(text if text.endswith("?") else f"{text} (see {self.prog} --help).")

    def _sentence(self, message: str) -> str:
        """Return what argparse says of missing and of unknown arguments in a sentence that says what to give."""
        if message.startswith(_MISSING):
            name = message.removeprefix(_MISSING).split(", ")[0]
            helps = {name: action.help for action in self._actions for name in (*action.option_strings, action.metavar)}
            return f"{name} is missing: {helps[name]}" if helps.get(name) else message
        word = message.removeprefix(_UNKNOWN).split(" ")[0]
        if message.startswith(_UNKNOWN) and word.startswith("-"):
            similar = [flag for flag in flags_of(self) if flag.startswith(f"-{word}")]
            return f"unknown option {word}{f'; did you mean {similar[0]}?' if similar else ''}"
        return message.replace(_UNKNOWN, "unexpected argument: ")


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of the parser, by name."""
    commands: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no public access
        if isinstance(action.choices, dict):
            commands |= cast("dict[str, argparse.ArgumentParser]", action.choices)
    return commands


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of the parser in all their forms, hidden ones included."""
    return [flag for action in parser._actions for flag in action.option_strings]  # pyright: ignore[reportPrivateUsage]


def names_given(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> frozenset[str]:
    """Return the names of the arguments that have another value than by default."""
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no public access
    return frozenset(
        action.dest for action in actions if getattr(arguments, action.dest, action.default) != action.default
    )


class _Once(argparse.Action):
    """An option that takes one value: argparse would use the last of several, and say nothing."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        before = getattr(namespace, self.dest, self.default)
        if self.option_strings and before is not self.default and before != values:
            parser.error(f"{option_string} is given twice, with two values; pass it once")
        setattr(namespace, self.dest, values)


class _HelpOfAll(argparse.Action):
    """The option --help-all."""

    def __call__(self, parser: argparse.ArgumentParser, *_unused: object) -> NoReturn:
        del _unused
        print_data(cast("Parser", parser).format_help_of_all())
        parser.exit()


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
    return argparse.HelpFormatter(prog, max_help_position=26, width=width)
