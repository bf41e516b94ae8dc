"""The `castsmith` command: its subcommands, and how each ends.

The exit codes are listed in `castsmith.cli.exit_codes`. Nothing heavy is imported before a command runs, so that --help
is quick: `castsmith.cli.usage` describes the arguments, `castsmith.cli.commands` imports the library.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import cast

import castsmith
from castsmith.cli.deferred import defer_sympy
from castsmith.cli.deprecated import MOVED, renamed
from castsmith.cli.exit_codes import DONE
from castsmith.cli.messages import remark
from castsmith.cli.parser import Parser, UsageError, flags_of, names_given, subcommands
from castsmith.cli.running import ended, run_command
from castsmith.cli.usage import reading, reference, writing
from castsmith.numerics.errors import did_you_mean, most_similar

# Settings of the command's own interpreter that make it start and end quickly; unused by the library.


def start_quickly() -> None:
    """Disable garbage collection, also at exit, and defer sympy.

    A model is one large cycle that lives until the end: garbage collection took a quarter of the time. No matrices are
    multiplied, so the threads for that are not started either.
    """
    gc.disable()
    defer_sympy()
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


_SECTIONS = {
    "models": ("fit", "optimize", "convert", "check", "bounds", "info"),
    "comparison": ("show", "diff", "verify", "certificate"),
    "reference": ("cast", "targets", "passes", "explain"),
    "shell and development": ("completion", "dev"),
}
_ELSEWHERE = {
    "compare": "diff or verify",
    "inspect": "info",
    "lint": "check",
    "repair": "optimize --repair-only",
    "rule": "explain",
    "run": "verify",
    "simplify": "optimize",
    "slim": "optimize",
    "--fix": "castsmith optimize",
    "--fp16": "--to float16",
    "--half": "--to float16",
    "--bf16": "--to bfloat16",
    "--dtype": "--to",
    "--precision": "--to",
    "--keep-io-types": "--io keep",
    "--op-block-list": "--keep",
    "--input-shape": "--shape",
    "--check-n": "--verify",
}
"""Commands and options as other tools name them, and what does the same here."""

_VERSIONS = ("-V", "--version")
_PURPOSE = "Fix an ONNX model's data types for your target runtime."

_EPILOG = (
    "castsmith help COMMAND explains a command. Exit codes: 0 done, or no difference; 1 refused, findings, or"
    " different; 2 bad usage, or a file that cannot be read or written; 3 inconclusive. Pass - for standard input"
    " or output."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return its exit code.

    Args:
        argv: The arguments; those of the process if None.
    """
    if argv is None:
        start_quickly()
    words = _with_help(list(sys.argv[1:] if argv is None else argv))
    context = argparse.Namespace(outcome=None, json="--json" in words)

    def work() -> int:
        try:
            vars(context).update(vars(_arguments(words)))
        except SystemExit:  # --help or --version
            return DONE
        with _without_colours() if "no_color" in context else nullcontext():
            return run_command(context)

    return ended(work, context)


def _arguments(words: list[str]) -> argparse.Namespace:
    """Return the arguments of the command, and the command itself. Raises UsageError, and SystemExit after a help."""
    _require_sound(words)
    words = _moved(words)
    command, parser, command_words = _leaf(_one_parser(), words)
    # An option with an optional value would consume IN.
    command_words = ["--full-diff" if word == "--diff=full" else word for word in command_words]
    command_words = renamed(command, command_words, quiet=_is_quiet(words))
    _require_options(parser, command_words)
    arguments = _parsed(parser, command_words)
    arguments.given = names_given(parser, arguments)
    arguments.command, arguments.run, arguments.parser = command, parser.run, parser
    return arguments


def _with_help(words: list[str]) -> list[str]:
    """Return the words with `help COMMAND` as `COMMAND --help` and `version` as an option; no words ask for help."""
    if not words:
        return ["--help"]
    if words == ["version"]:
        return ["--version"]
    return [*words[1:], "--help"] if words[0] == "help" else words


def _moved(words: list[str]) -> list[str]:
    """Return the words with a command that has moved in its new place."""
    new = MOVED.get(words[0])
    if new is None:
        return words
    remark(f"castsmith {words[0]} is now castsmith {' '.join(new)}.", quiet=_is_quiet(words))
    return [*new, *words[1:]]


def _is_quiet(words: Sequence[str]) -> bool:
    """True if the words, which are not parsed yet, ask for errors alone."""
    return bool({"-q", "--quiet"} & {*words})


def _leaf(parser: Parser, words: Sequence[str]) -> tuple[str, Parser, list[str]]:
    """Return the name of the command, its parser, and the words for it; options may stand before a nested command."""
    path, remaining = list[str](), list(words)
    while inner := subcommands(parser):
        index = next((index for index, word in enumerate(remaining) if not word.startswith("-")), None)
        if index is None:
            break
        word = remaining.pop(index)
        if word not in inner:
            suggestion = f"try castsmith targets show {word}" if path == ["targets"] else f"see {parser.prog} --help"
            moved = _ELSEWHERE.get(word)
            way_out = did_you_mean(word, inner, suggestion) if moved is None else f"castsmith {moved} does that."
            raise UsageError(f"unknown command {word!r}; {way_out}")
        path.append(word)
        parser = cast("Parser", inner[word])
    return path[1 if path[:1] == ["dev"] and path[1:] else 0] if path else "", parser, remaining


def _parsed(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words; of a group of commands without one of them, print the help."""
    if not parser.run:
        parser.parse_args(words)
        parser.print_help()
        parser.exit()
    # Options may stand between the files. While argparse parses that, its help lacks the files, and it refuses names
    # after `--` that begin with a hyphen.
    after = words[words.index("--") :] if "--" in words else ()
    if subcommands(parser) or {"-h", "--help", "--help-all"} & set(words) or any(word[:1] == "-" for word in after[1:]):
        return parser.parse_args(words)
    return parser.parse_intermixed_args(words)


@contextmanager
def _without_colours() -> Generator[None]:
    """Set NO_COLOR within the block, which everything that prints in colours obeys."""
    before, os.environ["NO_COLOR"] = os.environ.get("NO_COLOR"), "1"
    try:
        yield
    finally:
        del os.environ["NO_COLOR"]
        os.environ.update({} if before is None else {"NO_COLOR": before})


def _require_sound(words: Sequence[str]) -> None:
    """Refuse text that cannot be a file name, and `--option=--`, which argparse parses as an option without a value."""
    for word in words:
        try:
            is_sound = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            is_sound = False
        if not is_sound:
            raise UsageError(f"argument {word[:80]!r}: contains an invalid character.")
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"argument {word[:-3]}: expected a value (see castsmith --help).")


def _require_options(parser: Parser, words: Sequence[str]) -> None:
    """Raise UsageError for an unknown option, with the most similar one: argparse names no other."""
    options = flags_of(parser)
    before = words[: words.index("--")] if "--" in words else words
    for name in (word.partition("=")[0] for word in before if word.startswith("--")):
        if not any(flag.startswith(name) for flag in options):
            similar = most_similar(name[2:], (flag[2:] for flag in options if flag.startswith("--")))
            replacement = _ELSEWHERE.get(name.replace("_", "-")) or (similar and f"--{similar}")
            way_out = f"did you mean {replacement}?" if replacement else f"see {parser.prog} --help-all."
            raise UsageError(f"unknown option {name}; {way_out}")


def whole_parser() -> Parser:
    """Build the complete argument parser."""
    parser = Parser(prog="castsmith", description=_PURPOSE, epilog=_EPILOG)
    parser.sections = _SECTIONS
    help_text = "print the version and exit"
    version = f"castsmith {castsmith.__version__}"
    parser.general.add_argument(*_VERSIONS, action="version", version=version, help=help_text)
    commands = parser.add_subparsers(metavar="COMMAND")
    for module in (writing, reading, reference):
        module.add_to(commands)
    return parser


_one_parser = cache(whole_parser)
"""The parser of this process, which may run many commands."""
