"""The `castsmith` command: its subcommands, and how each ends.

The exit codes are listed in `castsmith.cli.exit_codes`. Nothing heavy is imported before a command runs, so that --help
is quick: `castsmith.cli.usage` describes the arguments, `castsmith.cli.commands` imports the library.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import castsmith
from castsmith.cli.consistency import given_options
from castsmith.cli.deferred import defer_sympy
from castsmith.cli.exit_codes import UNUSABLE, USAGE
from castsmith.cli.help import Parser, UsageError, flags_of, subcommands
from castsmith.cli.messages import end_of_help, tell_failure
from castsmith.cli.outcome import Failure
from castsmith.cli.running import run_command
from castsmith.numerics.errors import did_you_mean, most_similar

if TYPE_CHECKING:
    from castsmith.cli.outcome import Outcome

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
    "models": ("fit", "optimize", "convert", "check", "bounds"),
    "comparison": ("show", "diff", "verify"),
    "numbers": ("cast", "trunc", "promote"),
    "reference": ("targets", "passes", "explain", "conformance"),
    "shell": ("completion",),
}
_ORDER = tuple(name for names in _SECTIONS.values() for name in names)
_VALUES = dict.fromkeys(("cast", "trunc", "promote"), "values") | {"passes": "reference", "completion": "reference"}
"""Commands in one module with others."""


def _commands() -> tuple[str, ...]:
    """Return all commands, those of modules that `_ORDER` does not mention last; no module is imported."""
    folder = os.path.join(os.path.dirname(__file__), "usage")
    found = {name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py") and name[0] != "_"}
    return (*_ORDER, *sorted(found - {*_ORDER, *_VALUES.values()}))


_COMMANDS = _commands()
"""Each described by a module in `usage`; if one is named, the others are not imported."""

_VERSIONS = ("-V", "--version")
_PURPOSE = "Fix the element types of an ONNX model for its target runtime: exact, explained, repaired."

_EPILOG = (
    "Exit codes: 0 done, or no difference; 1 refused, findings, or different; 2 bad usage, unreadable input or output"
    " that cannot be written; 3 inconclusive. The --help of each command gives their meaning. Instead of a"
    " model, - is standard input or output."
)


def main(argv: Sequence[str] | None = None, outcome: Outcome | None = None) -> int:
    """Run the command that `argv` names and return its exit code.

    Args:
        argv: The arguments; those of the process if None.
        outcome: Is filled in with the report or the error as data, for a run over many models.
    """
    if argv is None:
        start_quickly()
    words = list(sys.argv[1:] if argv is None else argv)
    one = bool(words) and (words[0] in _COMMANDS or words[0] in _VERSIONS)  # then no other command has to be imported
    commands = _modules([word for word in words[:1] if word not in _VERSIONS] if one else _COMMANDS)
    parser = _parser(commands)
    try:
        _require_sound(words)
        words = _spelled_out(words, commands)
        _require_known(parser, words)
        arguments = parser.parse_args(words)
        arguments.given = given_options(parser, words)
    except UsageError as error:
        return tell_failure(Failure(USAGE, str(error), "", UNUSABLE), as_json="--json" in words)
    except SystemExit as ending:  # --help or --version
        return end_of_help(ending.code if isinstance(ending.code, int) else 0)
    except OSError as error:  # of a stream that is not buffered
        return end_of_help(0, error)
    arguments.outcome = outcome
    with _without_colours() if "no_color" in arguments else nullcontext():
        return run_command(arguments)


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
            named = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            named = False
        if not named:
            raise UsageError(f"argument {word[:80]!r}: contains an invalid character.")
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"argument {word[:-3]}: expected a value (see castsmith --help).")


def _require_known(parser: Parser, words: Sequence[str]) -> None:
    """Raise UsageError for an unknown command or option, with the most similar one: argparse names no other."""
    if not words or words[0].startswith("-"):
        return
    inner = subcommands(parser)
    if words[0] not in inner:
        way_out = did_you_mean(words[0], inner, "see castsmith --help")
        raise UsageError(f"unknown command {words[0]!r}; {way_out}")
    chosen = inner[words[0]]
    options = [flag for each in (chosen, *subcommands(chosen).values()) for flag in flags_of(each)]
    given = words[1 : words.index("--")] if "--" in words else words[1:]
    for word in (each.partition("=")[0] for each in given):
        if word.startswith("--") and not any(flag.startswith(word) for flag in options):
            found = most_similar(word[2:], (flag[2:] for flag in options if flag.startswith("--")))
            way_out = f"did you mean --{found}?" if found else f"see {chosen.prog} --help."
            raise UsageError(f"unknown option {word}; {way_out}")


def whole_parser() -> Parser:
    """Build the complete argument parser."""
    return _parser(_modules(_COMMANDS))


def _modules(names: Sequence[str]) -> list[ModuleType]:
    modules = dict.fromkeys(_VALUES.get(name, name) for name in names)
    return [import_module(f"castsmith.cli.usage.{module}") for module in modules]


def _spelled_out(words: list[str], commands: Sequence[ModuleType]) -> list[str]:
    """Return the arguments in a form that argparse can parse, if the selected command provides one."""
    spell_out = getattr(commands[0], "spell_out", None) if len(commands) == 1 else None
    return words if spell_out is None else spell_out(words)


def _parser(commands: Sequence[ModuleType]) -> Parser:
    parser = Parser(prog="castsmith", description=_PURPOSE, epilog=_EPILOG)
    parser.sections = {**_SECTIONS, "others": [name for name in _COMMANDS if name not in _ORDER]}
    help_text = "print the version and exit"
    version = f"castsmith {castsmith.__version__}"
    parser.general.add_argument(*_VERSIONS, action="version", version=version, help=help_text)
    parsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in commands:
        command.add_to(parsers)
    return parser
