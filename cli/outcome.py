"""How a command ends: every error becomes one plain sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

from castsmith.cli.failure import DONE, INTERRUPTED, TROUBLE, Failure, failure_of

BROKEN_PIPE = 141
"""128 + SIGPIPE, as of a program that the signal ends."""


_OF_A_STREAM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing to a stream, of which no file name is known, fails with."""


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
        _drop(sys.stdout)
        return BROKEN_PIPE
    except Exception as error:  # the last resort: what a user sees must be a sentence
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_A_STREAM:
            _drop(sys.stdout)
            return _tell_unprinted(arguments, str(error.strerror))
        return tell_failure(failure_of(error, vars(arguments)), as_json=wants_json(arguments))


def end_of_help(code: int) -> int:
    """The exit code where argparse has printed the help or the version."""
    reason = _print_failure()
    return code if not reason else tell_failure(_unprinted(reason), as_json=False)


@contextmanager
def cleaned_up_if_interrupted() -> Generator[None]:
    """Within the block an interrupt raises KeyboardInterrupt, so that unfinished files are removed."""
    import signal

    from castsmith.cli.entry import end_at_once

    if signal.getsignal(signal.SIGINT) is not end_at_once:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end_at_once)


def complain(sentence: str) -> None:
    """Print one line on stderr; where that cannot be written, the exit code has to do."""
    from castsmith.cli.plain import one_line

    try:
        print(f"castsmith: {one_line(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _print_failure() -> str:
    """Why what was printed cannot be written to stdout, which then is dropped; empty where it can."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError as error:
        _drop(sys.stdout)
        return error.strerror or "unknown error"
    return ""


def _tell_unprinted(arguments: argparse.Namespace, reason: str) -> int:
    """Say that the result could not be printed; where a model was written nonetheless, and that is what counts, it is
    done."""
    written = getattr(arguments, "written", None)
    if written is None:
        return tell_failure(_unprinted(reason), as_json=False)
    complain(f"{written} is written, but standard output cannot be written ({reason}).")
    return TROUBLE if wants_json(arguments) else DONE


def _unprinted(reason: str) -> Failure:
    return Failure("file", f"standard output cannot be written ({reason}).", "", TROUBLE)


def tell_failure(failure: Failure, *, as_json: bool) -> int:
    """One line on stderr for people and, for programs, the failure on stdout; its exit code."""
    complain(failure.message)
    if as_json:
        from castsmith.cli.arguments import print_json

        with contextlib.suppress(OSError):
            print_json(failure.data())
    _print_failure()
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


def _drop(stream: TextIO) -> None:
    """Write what is left to nowhere; without this the interpreter would complain when it flushes at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
