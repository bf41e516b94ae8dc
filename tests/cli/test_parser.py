"""What the two helps of each command list, and what the parser says of missing and unknown arguments."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from typing import cast

import pytest

from castsmith.cli import arguments
from castsmith.cli.parser import Parser, UsageError, flags_of, names_given, subcommands
from tests.cli.helpers import Command, parsers


def test_what_the_helps_list(castsmith: Command) -> None:
    """--help-all has each argument once; --help omits the options that are not common, and says so."""
    for name, parser in parsers().items():
        actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]  # pyright: ignore[reportPrivateUsage]
        options = {action.option_strings[0]: {*action.option_strings} for action in actions if action.option_strings}
        others = [str(a.metavar or a.dest) for a in actions if not a.option_strings and not subcommands(parser)]
        common = {*cast("Parser", parser).common, "--help", "--help-all"}
        few = [flag for flag, names in options.items() if names & common]
        is_short = len(common) > 2
        for flag, flags in (("--help-all", [*options]), ("--help", few if is_short else [*options])):
            text = castsmith(*name.split(), flag).out
            listed = [line.split()[0].rstrip(",") for line in text.splitlines() if re.match(r"  \S", line)]
            assert sorted(listed) == sorted([*flags, *others, *subcommands(parser)]), (name, flag)
            usage = " ".join(text.partition("\n\n")[0].split())
            assert all(a.option_strings[-1] in usage for a in actions if a.option_strings and a.required), name
            told = f"castsmith {name} --help-all shows all options." in " ".join(text.split())
            assert told is (is_short and flag == "--help"), (name, flag)


def group_of_commands() -> Parser:
    parser = Parser(prog="tool")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name in ("first", "second"):
        commands.add_parser(name, help=f"do the {name}")
    return parser


def test_commands_are_listed_by_purpose() -> None:
    """Those of a parser that names no purposes are under one title, in their order."""
    for sections, listed in (
        ({}, ["commands:", "  first", "  second", "general:"]),
        ({"Look": ["second"], "Change": ["first"]}, ["Look:", "  second", "Change:", "  first", "general:"]),
    ):
        parser = group_of_commands()
        parser.sections = sections
        lines = [line.partition("  do")[0].rstrip() for line in parser.format_help_of_all().splitlines()]
        assert [line for line in lines if re.fullmatch(r"(\w+:|  \w+)", line)] == listed


def test_what_is_missing_or_unknown() -> None:
    parser = Parser(prog="tool")
    parser.add_argument("model", metavar="IN", help="the model to read")
    parser.add_argument("-o", "--output", required=True, help="the file to write")
    parser.add_argument("--plain", required=True)
    required = "the following arguments are required: "
    for message, text in (
        (f"{required}-o/--output", f"{required}-o/--output"),
        (f"{required}--output", "--output is missing: the file to write"),
        (f"{required}IN, --output", "IN is missing: the model to read"),
        (f"{required}--plain", f"{required}--plain"),
        (f"{required}COMMAND", f"{required}COMMAND"),
        ("unrecognized arguments: --outptu x", "unknown option --outptu"),
        ("unrecognized arguments: -output x", "unknown option -output; did you mean --output?"),
        ("unrecognized arguments: b.onnx c.onnx", "unexpected argument: b.onnx c.onnx"),
        ("invalid choice: 'x'", "invalid choice: 'x'"),
    ):
        assert parser._sentence(message) == text  # pyright: ignore[reportPrivateUsage]
    assert flags_of(parser) == ["-h", "--help", "--help-all", "-o", "--output", "--plain"]
    parsed = argparse.Namespace(model="a", output=None, plain="x")
    assert names_given(parser, parsed) == {"model", "plain"}


def test_where_a_message_goes(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output control characters stay as they are, as for a shell; elsewhere they are escaped."""
    for file, out, err in ((None, "a\x1bb", ""), (sys.stdout, "a\x1bb", ""), (sys.stderr, "", "a\\x1bb")):
        Parser(prog="tool")._print_message("a\x1bb", file)  # pyright: ignore[reportPrivateUsage]
        said = capsys.readouterr()
        assert (said.out.rstrip("\n"), said.err.rstrip("\n")) == (out, err)


@dataclass
class Info:
    """What the metadata of a field of Options says."""

    help: str
    metavar: str | None = None
    choices: tuple[str, ...] | None = None


class Defaults:
    """Options of each kind."""

    is_on, is_off, count, words, text = True, False, 7, ("a",), "near"
    empty, nothing, rate = "", None, 1.5


def test_an_option_is_made_from_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that turns the default round; a number, a text, or types that add up."""
    monkeypatch.setattr(arguments, "Options", Defaults)
    monkeypatch.setattr(arguments, "RETIRED", {"--rate": ""})
    choices = {"text": ("near", "far")}
    monkeypatch.setattr(arguments, "option_info", lambda _, name: Info(f"do {name}", "M", choices.get(name)))  # pyright: ignore
    parser = Parser(prog="tool")
    arguments.add_options(parser, [name for name in vars(Defaults) if not name.startswith("_")])
    rows: tuple[tuple[list[str], str, object], ...] = (
        ([], "no_is_on", False), (["--no-is-on"], "no_is_on", True), (["--is-off"], "is_off", True),
        ([], "count", 7), (["--count", "3"], "count", 3), ([], "words", None),
        (["--words", "f32", "--words", "i8"], "words", ["float", "int8"]), ([], "text", "near"),
        (["--text", "far"], "text", "far"), ([], "empty", None), (["--empty", "f32"], "empty", "f32"),
        ([], "nothing", None), (["--nothing", "f32"], "nothing", "f32"), ([], "rate", 1.5),
        (["--rate", "2"], "rate", "2"),
    )  # fmt: skip
    for words, name, value in rows:
        assert getattr(parser.parse_args(words), name) == value, (words, name)
    for words in (["--count", "-1"], ["--text", "no"], ["--empty", " "], ["--nothing", ""]):
        with pytest.raises(UsageError):
            parser.parse_args(words)
    helps = {action.dest: action.help for action in parser._actions}  # pyright: ignore[reportPrivateUsage]
    assert (helps["no_is_on"], helps["is_off"], helps["count"]) == ("do not do is_on", "do is_off", "do count")
    assert helps["rate"] == argparse.SUPPRESS


def test_what_quiet_leaves_out() -> None:
    for result, text in (("", "print only errors, and what other options ask for"),
                         ("the table", "do not print the table; the exit code is the result")):  # fmt: skip
        parser = Parser(prog="tool")
        arguments.add_quiet(parser, result)
        assert parser._actions[-1].help == text  # pyright: ignore[reportPrivateUsage]
