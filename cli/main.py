"""The `castsmith` command: its subcommands, and how each ends.

The exit codes are listed in `castsmith.cli.exit_codes`. Nothing heavy is imported before a command runs, so that --help
is quick.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import castsmith
from castsmith.cli.consistency import given_options
from castsmith.cli.exit_codes import UNUSABLE, USAGE, Failure, end_of_help, run_command, tell_failure

if TYPE_CHECKING:
    from castsmith.cli.outcome import Outcome

# Settings of the command's own interpreter that make it start and end quickly; unused by the library.


def start_quickly() -> None:
    """Disable garbage collection, also at exit.

    A model is one large cycle that lives until the end: garbage collection took a quarter of the time. No matrices are
    multiplied, so the threads for that are not started either.
    """
    gc.disable()
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


_ORDER = (
    *("optimize", "convert", "check", "show", "diff", "verify", "bounds", "cast", "trunc", "promote", "targets"),
    *("passes", "explain", "completion"),
)
_VALUES = {"cast": "values", "trunc": "values", "promote": "values"}
"""Commands in one module with others."""


def _commands() -> tuple[str, ...]:
    """Return all commands, those of modules that `_ORDER` does not mention last; no module is imported."""
    folder = os.path.join(os.path.dirname(__file__), "commands")
    found = {name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py") and name[0] != "_"}
    return (*_ORDER, *sorted(found - {*_ORDER, *_VALUES.values()}))


_COMMANDS = _commands()
"""Each a module in `commands`; if one is named, the others are not imported."""

_VERSION = "--version"
_PURPOSE = "Fix the element types of an ONNX model for its target runtime: exact, explained, repaired."

_EPILOG = (
    "Exit codes: 0 done, or no difference; 1 refused, findings, or different; 2 bad usage, unreadable input or output"
    " that cannot be written; 3 inconclusive. The --help of each command gives their meaning. Instead of a"
    " model, - is standard input or output."
)


class _UsageError(Exception):
    """Invalid command-line arguments."""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose error is one line, and that raises OSError where help cannot be printed."""

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file)

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message.rstrip('.')} (see {self.prog} --help).")


def main(argv: Sequence[str] | None = None, outcome: Outcome | None = None) -> int:
    """Run the command that `argv` names and return its exit code.

    Args:
        argv: The arguments; those of the process if None.
        outcome: Is filled in with the report or the error as data, for a run over many models.
    """
    if argv is None:
        start_quickly()
    words = list(sys.argv[1:] if argv is None else argv)
    one = bool(words) and (words[0] in _COMMANDS or words[0] == _VERSION)  # then no other command has to be imported
    commands = _modules([word for word in words[:1] if word != _VERSION] if one else _COMMANDS)
    parser = _parser(commands)
    try:
        _require_sound(words)
        spelled = _spelled_out(words, commands)
        arguments = parser.parse_args(spelled)
        arguments.given = given_options(parser, spelled)
    except _UsageError as error:
        return tell_failure(Failure(USAGE, str(error), "", UNUSABLE), as_json="--json" in words)
    except SystemExit as ending:  # --help or --version
        return end_of_help(ending.code if isinstance(ending.code, int) else 0)
    except OSError as error:  # of a stream that is not buffered
        return end_of_help(0, error)
    arguments.outcome = outcome
    return run_command(arguments)


def _require_sound(words: Sequence[str]) -> None:
    """Refuse text that cannot be a file name, and `--option=--`, which argparse parses as an option without a value."""
    for word in words:
        try:
            named = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            named = False
        if not named:
            raise _UsageError(f"argument {word[:80]!r}: contains an invalid character.")
        if word.startswith("--") and word.endswith("=--"):
            raise _UsageError(f"argument {word[:-3]}: expected a value (see castsmith --help).")


def whole_parser() -> argparse.ArgumentParser:
    """Build the complete argument parser."""
    return _parser(_modules(_COMMANDS))


def _modules(names: Sequence[str]) -> list[ModuleType]:
    modules = dict.fromkeys(_VALUES.get(name, name) for name in names)
    return [import_module(f"castsmith.cli.commands.{module}") for module in modules]


def _spelled_out(words: list[str], commands: Sequence[ModuleType]) -> list[str]:
    """Return the arguments in a form that argparse can parse, if the selected command provides one."""
    spell_out = getattr(commands[0], "spell_out", None) if len(commands) == 1 else None
    return words if spell_out is None else spell_out(words)


def _parser(commands: Sequence[ModuleType]) -> argparse.ArgumentParser:
    parser = _Parser(prog="castsmith", description=_PURPOSE, epilog=_EPILOG)
    parser.add_argument(_VERSION, action="version", version=f"castsmith {castsmith.__version__}")
    parsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in commands:
        command.add_to(parsers)
    return parser
