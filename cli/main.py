"""The `castsmith` command: which commands there are, and how each ends.

Exit codes: 0 done, 1 refused or findings, 2 bad usage or unreadable input, 130 interrupted. `diff` has its own: 0 the
same, 1 different, 2 trouble. Nothing heavy is imported before a command runs, so that --help is quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import castsmith
from castsmith.cli import cast, check, diff, explain, optimize, passes, promote, targets, verify
from castsmith.cli.failure import TROUBLE, USAGE, Failure
from castsmith.cli.outcome import run_command, tell_failure
from castsmith.cli.starting import start_quickly

_COMMANDS = (optimize, check, diff, verify, cast, promote, targets, passes, explain)

_PURPOSE = "Make the element types of an ONNX model right for where it will run: exact, explained, repaired."

_EPILOG = "exit codes: 0 done, 1 refused or findings, 2 bad usage or unreadable input"


class _UsageError(Exception):
    """Words that are no command."""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message.rstrip('.')} (see {self.prog} --help).")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return its exit code."""
    if argv is None:
        start_quickly()
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    try:
        arguments = parser.parse_args(optimize.spell_out(cast.protect_negative_numbers(words)))
    except _UsageError as error:
        return tell_failure(Failure(USAGE, str(error), "", TROUBLE), as_json="--json" in words)
    except SystemExit as ending:  # --help or --version
        return ending.code if isinstance(ending.code, int) else 0
    return run_command(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="castsmith", description=_PURPOSE, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"castsmith {castsmith.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
