"""What a command says on stderr, and standard output that cannot be written."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from typing import TextIO

from castsmith.cli.exit_codes import UNUSABLE
from castsmith.cli.outcome import Failure
from castsmith.cli.text.json import print_json
from castsmith.cli.text.terminal import one_line, print_line, print_text


def complain(sentence: str) -> None:
    """Print one line on stderr; if that fails, only the exit code remains."""
    text = f"castsmith: {sentence}"
    try:
        print_text(_wrapped(one_line(text)), sys.stderr) if sys.stderr.isatty() else print_line(text, sys.stderr)
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)


def remark(sentence: str, *, quiet: bool) -> None:
    """Print one line on stderr about something that is no error; nothing if only errors are wanted."""
    if not quiet:
        complain(sentence)


def _wrapped(text: str) -> str:
    """Return the text in lines of the width of the terminal, without breaking a word."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def unprinted(reason: str) -> Failure:
    """Return the failure to write to standard output."""
    return Failure("file", f"standard output cannot be written ({reason}).", "", UNUSABLE)


def tell_failure(failure: Failure, *, as_json: bool) -> int:
    """Print one line on stderr for people and, for programs, the failure on stdout; return its exit code."""
    complain(failure.message)
    try:
        if as_json:
            print_json(failure.data())
        sys.stdout.flush()
    except OSError:
        drop(sys.stdout)
    return failure.exit_code


def wants_json(arguments: argparse.Namespace) -> bool:
    """True if the command is to print JSON."""
    return bool(getattr(arguments, "json", False)) or getattr(arguments, "format", None) == "json"


def drop(stream: TextIO) -> None:
    """Discard remaining output; otherwise the interpreter would complain when it flushes at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
