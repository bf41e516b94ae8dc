"""How a command ends: every error becomes one plain sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import traceback
from collections.abc import Callable

DONE, REFUSED, TROUBLE, INTERRUPTED = 0, 1, 2, 130

BROKEN_PIPE = 141
"""128 + SIGPIPE, as of a program that the signal ends."""


def run_command(arguments: argparse.Namespace) -> int:
    """Call `arguments.run` and turn whatever it raises into a sentence and an exit code."""
    _print_any_character()
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
        return _explain(error, refused=_refused_code(arguments))


def complain(sentence: str) -> None:
    """One line on stderr."""
    from castsmith.cli.plain import one_line

    print(f"castsmith: {one_line(sentence)}", file=sys.stderr)


def with_command_options(sentence: str) -> str:
    """The sentence with options named as the command line has them: `promote_unsafe` as --promote-unsafe."""
    return re.sub(r"`([a-z0-9]+(_[a-z0-9]+)+)`", lambda found: f"--{found[1].replace('_', '-')}", sentence)


def _refused_code(arguments: argparse.Namespace) -> int:
    """`diff` and `verify` keep 1 for models that differ."""
    return TROUBLE if arguments.command in ("diff", "verify") else REFUSED


def _explain(error: Exception, *, refused: int) -> int:
    from castsmith.ir.errors import VerificationError
    from castsmith.numerics.errors import CastsmithError, PromotionError

    if isinstance(error, CastsmithError):
        complain(with_command_options(str(error)))
        return refused if isinstance(error, PromotionError | VerificationError) else TROUBLE
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        complain(f"{place}{error.strerror}.")
        return TROUBLE
    if isinstance(error, MemoryError):
        complain("there is not enough memory for this.")
        return TROUBLE
    complain(f"internal error ({_cause(error)}): please report this.")
    return TROUBLE


def _cause(error: Exception) -> str:
    """The kind of error, its text, and the line of code that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text} at {os.path.basename(where.filename)}:{where.lineno}"


def _print_any_character() -> None:
    """A name in a model may hold what the terminal's encoding lacks: it is then shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Nobody reads any more; without this the interpreter would complain when it flushes at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
