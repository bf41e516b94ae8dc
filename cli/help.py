"""The argument parser, and its help: -h shows the common options of a command, --help all of them.

No word is broken, however narrow the terminal is. On a terminal headings and options are coloured unless NO_COLOR is
set.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NoReturn, cast

from castsmith.cli.text.terminal import print_data, print_text

GENERAL = "general"
"""The title of the last group: options that every command has."""

_MOST_COMMON = 10
_WIDEST, _NARROWEST, _LABELS = 100, 40, 26
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"
_OPTION, _HEADING = (
    re.compile(r"^( {2,4})(-[^ ]+(?:, -[^ ]+)?|[a-z]+(?=  ))", re.MULTILINE),
    re.compile(r"^\S.*:$", re.MULTILINE),
)


class UsageError(Exception):
    """Invalid command-line arguments."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with a short and a long help, whose error is one line.

    Attributes:
        common: The options that the short help shows; empty for the first ones.
        sections: In the whole parser the commands by purpose, for its help.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, add_help=False, **settings)
        self.common: Sequence[str] = ()
        self.sections: dict[str, Sequence[str]] = {}
        group = self.add_argument_group(GENERAL)
        group.add_argument("-h", nargs=0, action=_ShortHelp, help="show the common options and exit")
        group.add_argument("--help", action="help", help="show all options and exit")

    @property
    def general(self) -> Any:
        """The group of the options that every command has."""
        return next(group for group in self._action_groups if group.title == GENERAL)

    def format_help(self) -> str:
        """Return the long help."""
        return self._help(None)

    def format_short_help(self) -> str:
        """Return the help with the common options alone."""
        options = [each for group in self._groups() for each in group._group_actions if each.option_strings]  # pyright: ignore[reportPrivateUsage]
        chosen = [each for each in options if set(each.option_strings) & set(self.common)] or options
        return self._help(chosen[:_MOST_COMMON])

    def _groups(self) -> list[Any]:
        """Return the groups of arguments in the order of the help."""
        return sorted(self._action_groups, key=lambda group: group.title == GENERAL)

    def _help(self, chosen: Sequence[argparse.Action] | None) -> str:
        """Return the help with the chosen options in one section; with all by groups if None."""
        formatter = _Formatter(self.prog)
        required = [each for each in self._actions if each.required or not each.option_strings]
        formatter.add_usage(None, required, ())
        formatter.add_text(self.description)
        positional = [each for each in self._actions if not each.option_strings]
        if not self.sections:
            _add_section(formatter, "arguments", positional)
        for title, names in self.sections.items():
            _add_section(formatter, title, list(_commands(positional, names)))
        if chosen is not None:
            _add_section(formatter, "options", chosen)
            formatter.add_text(f"All options, and the exit codes: {self.prog} --help")
            return formatter.format_help()
        for group in self._groups():
            title = "options" if group.title == "optional arguments" else group.title
            _add_section(formatter, title, [each for each in group._group_actions if each.option_strings])  # pyright: ignore[reportPrivateUsage]
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _print_message(self, message: str, file: Any = None) -> None:
        print_data(coloured(message)) if file in (None, sys.stdout) else print_text(message, file)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.rstrip('.')} (see {self.prog} --help).")


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of the parser, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no public access
        if isinstance(action.choices, dict):
            found |= cast("dict[str, argparse.ArgumentParser]", action.choices)
    return found


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of the parser in all their forms, hidden ones included."""
    return [flag for action in parser._actions for flag in action.option_strings]  # pyright: ignore[reportPrivateUsage]


class _ShortHelp(argparse.Action):
    """The option -h."""

    def __call__(self, parser: argparse.ArgumentParser, *others: object) -> NoReturn:
        del others
        short = parser.format_short_help() if isinstance(parser, Parser) else parser.format_help()
        print_data(coloured(short))
        parser.exit()


class _Formatter(argparse.HelpFormatter):
    """Text of the width of the terminal that breaks no words."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
        super().__init__(f"{prog} [options]", max_help_position=_LABELS, width=max(width, _NARROWEST))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}" for line in _wrapped(text, width - len(indent)))


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


def _add_section(formatter: argparse.HelpFormatter, title: str | None, actions: Iterable[argparse.Action]) -> None:
    formatter.start_section(title)
    formatter.add_arguments(actions)
    formatter.end_section()


def _commands(actions: Iterable[argparse.Action], names: Sequence[str]) -> Iterator[argparse.Action]:
    """Yield the commands of these names, each as an action of its own."""
    for action in actions:
        inner = {each.dest: each for each in action._get_subactions()}  # type: ignore[attr-defined]  # pyright: ignore
        yield from (inner[name] for name in names if name in inner)


def coloured(text: str) -> str:
    """Return the help with colours if standard output is a terminal that shows them."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _OPTION.sub(rf"\1{_CYAN}\2{_PLAIN}", text)
    return _HEADING.sub(rf"{_BOLD}\g<0>{_PLAIN}", text)
