"""How a command ends: every error becomes one plain sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Callable

from castsmith.cli.failure import INTERRUPTED, Failure, failure_of

BROKEN_PIPE = 141
"""128 + SIGPIPE, as of a program that the signal ends."""


def run_command(arguments: argparse.Namespace) -> int:
    """Call `arguments.run` and turn whatever it raises into a sentence and an exit code."""
    _print_any_character()
    _print_only_our_own()
    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    except Exception as error:  # the last resort: what a user sees must be a sentence
        return tell_failure(failure_of(error, vars(arguments)), as_json=wants_json(arguments))


def complain(sentence: str) -> None:
    """One line on stderr."""
    from castsmith.cli.plain import one_line

    print(f"castsmith: {one_line(sentence)}", file=sys.stderr)


def tell_failure(failure: Failure, *, as_json: bool) -> int:
    """One line on stderr for people and, for programs, the failure on stdout; its exit code."""
    complain(failure.message)
    if as_json:
        from castsmith.cli.arguments import print_json

        print_json(failure.data())
        sys.stdout.flush()
    return failure.exit_code


def wants_json(arguments: argparse.Namespace) -> bool:
    """Whether the command is to print JSON."""
    return bool(getattr(arguments, "json", False)) or getattr(arguments, "format", None) == "json"


def _print_any_character() -> None:
    """A name in a model may hold what the terminal's encoding lacks: it is then shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_only_our_own() -> None:
    """onnx_ir logs warnings and tracebacks of what is refused here in a sentence, or does no harm."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)


def _drop_stdout() -> None:
    """Nobody reads any more; without this the interpreter would complain when it flushes at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
