"""Words that are valid at each position of the command line, from the argument parser, for completion scripts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from castsmith.cli.codes.catalogue import all_pages
from castsmith.cli.help import subcommands
from castsmith.lowering.registry import PASSES, added_passes
from castsmith.numerics.extensions import PROMOTIONS, extensions
from castsmith.numerics.promotion.rules import PRESETS
from castsmith.numerics.runtimes.dispatch import RUNTIMES
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.targets.target import target_names

_WORD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class Option:
    """One option: its flags, its help, and its values: None for no value, empty for any value."""

    flags: tuple[str, ...]
    help: str
    values: tuple[str, ...] | None


@dataclass(frozen=True)
class Command:
    """One command, and the words that are valid in it beside files; the whole command has no name."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def commands_of(parser: argparse.ArgumentParser, known: Mapping[str, Sequence[str]]) -> Iterator[Command]:
    """Return the whole command first, then each of its commands. known: the values of options by their metavar."""
    inner = subcommands(parser)
    whole = Command("", parser.description or "", tuple(_options(parser, known)), tuple(inner))
    yield whole
    for name, each in inner.items():
        nested = subcommands(each)
        words = [word for one in (each, *nested.values()) for word in _words(one, known)]
        summary = (each.description or "").rstrip(".")
        yield Command(name, summary, tuple(_options(each, known)), tuple(dict.fromkeys([*nested, *words])))


def known_values() -> dict[str, list[str]]:
    """Return the values of each metavar, if they can be listed."""
    passes = [*PASSES, *added_passes()]
    codes = [page.code for page in all_pages()]
    return {
        "T": target_names(),
        "NAME": target_names(),
        "PRESET": [*PRESETS, *(each.name for each in extensions(PROMOTIONS))],
        "PASS": passes,
        "LIST": passes,
        "CODE": codes,
        "CODES": codes,
        "RUNTIME": list(RUNTIMES),
        "TYPE": [type_name(dtype) for dtype in ELEMENT_TYPES],
    }


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no public access


def _options(parser: argparse.ArgumentParser, known: Mapping[str, Sequence[str]]) -> Iterator[Option]:
    for action in _actions(parser):
        if action.option_strings and action.help != argparse.SUPPRESS:
            values = None if action.nargs == 0 else _values(action, {**known, "NAME": ()})
            yield Option(tuple(action.option_strings), (action.help or "").partition(";")[0], values)


def _words(parser: argparse.ArgumentParser, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for action in _actions(parser):
        if not action.option_strings and not isinstance(action.choices, dict):
            yield from _values(action, known)


def _values(action: argparse.Action, known: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the values, except those that a shell would split into several words."""
    values = known.get(str(action.metavar), ()) if action.choices is None else map(str, action.choices)
    return tuple(value for value in values if _WORD.fullmatch(value))
