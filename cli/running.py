"""A command from its parsed arguments to its exit code."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import sys
from collections.abc import Callable
from importlib import import_module

from castsmith.cli.consistency import require_consistent, require_needed
from castsmith.cli.exit_codes import BROKEN_PIPE, DONE, UNUSABLE, USAGE
from castsmith.cli.interrupts import exit_code_of
from castsmith.cli.messages import complain, drop, remark, tell_failure, unprinted, wants_json
from castsmith.cli.outcome import Failure
from castsmith.cli.parser import UsageError

_OF_A_STREAM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of writing to a stream without a file name."""


def run_command(arguments: argparse.Namespace) -> int:
    """Run the command with the settings of the project."""
    require_consistent(arguments)
    if hasattr(arguments, "config"):
        from castsmith.cli.gate.settings import apply_settings

        arguments.settings = apply_settings(arguments)
    require_needed(arguments)
    if getattr(arguments, "target", None) is not None:
        arguments.target = name_of_target(arguments.target, quiet=getattr(arguments, "quiet", False))
    return call(arguments)


def ended(work: Callable[[], int], arguments: argparse.Namespace) -> int:
    """Do the work of a command with these arguments; turn every exception into a sentence and an exit code."""
    _print_any_character()
    _print_only_our_own()
    try:
        code = work()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        return exit_code_of(interrupt)
    except BrokenPipeError:
        drop(sys.stdout)
        return BROKEN_PIPE
    except UsageError as error:
        return tell_failure(Failure(USAGE, str(error), "", UNUSABLE), as_json=wants_json(arguments))
    except Exception as error:  # the last resort: users must see a sentence
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_A_STREAM:
            drop(sys.stdout)
            return _tell_unprinted(arguments, str(error.strerror))
        from castsmith.cli.failures import failure_of

        failure = failure_of(error, vars(arguments))
        if arguments.outcome is not None:
            arguments.outcome.failure = failure
        return tell_failure(failure, as_json=wants_json(arguments))


def call(arguments: argparse.Namespace) -> int:
    """Call the function that `arguments.run` names, and return its exit code."""
    module, _, function = arguments.run.partition(":")
    return getattr(import_module(f"castsmith.cli.commands.{module}"), function)(arguments)


def name_of_target(name: str, *, quiet: bool = False) -> str:
    """Return the target that an alias leads to, and say so unless quiet; other names as they are."""
    from castsmith.targets.target import ALIASES

    if name in ALIASES:
        remark(f"{name} is {ALIASES[name]}.", quiet=quiet)
    return ALIASES.get(name, name)


def _tell_unprinted(arguments: argparse.Namespace, reason: str) -> int:
    """Report that the result could not be printed; a command that wrote a model has still succeeded."""
    destination = getattr(arguments, "written", None)
    if destination is None:
        return tell_failure(unprinted(reason), as_json=False)
    complain(f"{destination} is written, but standard output cannot be written ({reason}).")
    return UNUSABLE if wants_json(arguments) else DONE


def _print_any_character() -> None:
    """Escape characters in names that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_only_our_own() -> None:
    """Silence the log of onnx_ir: warnings and tracebacks that are either reported in a sentence or harmless."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
