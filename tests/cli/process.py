"""The command as a process of its own, which is a fork of this one: it has imported everything already."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile

from castsmith.cli.entry import main

STREAMS = ("stdin", "stdout", "stderr")
CLOSED = ""
_UNFLUSHED = 120
"""The exit code of an interpreter that cannot write what its streams still hold."""


def run_fork(
    words: str,
    folder: Path,
    given: bytes = b"",
    *,
    streams: Mapping[str, str | int] | None = None,
    unbuffered: bool = False,
    encoding: str = "utf-8",
    meanwhile: Callable[[int], None] = lambda _: None,
) -> CompletedProcess[bytes]:
    """Run the command with the words in the folder, from `entry.main` to the end of the interpreter.

    given: Its standard input. streams: Files or descriptors instead of its streams; CLOSED closes one.
    meanwhile: Called with the number of the process while it runs.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile()) for _ in STREAMS]
        files[0].write(given)
        files[0].seek(0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.chdir(folder)
                for number, name in enumerate(STREAMS):
                    _redirect(number, files[number].fileno(), (streams or {}).get(name))
                _open_streams(unbuffered=unbuffered, encoding=encoding)
                sys.argv = ["castsmith", *words.split()]
                code = _code_of_interpreter()
            finally:
                os._exit(code)
        meanwhile(child)
        _, status = os.waitpid(child, 0)
        for file in files:
            file.seek(0)
        return CompletedProcess(words, os.waitstatus_to_exitcode(status), files[1].read(), files[2].read())


def has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _redirect(number: int, descriptor: int, instead: str | int | None) -> None:
    if instead == CLOSED:
        os.close(number)
        return
    if isinstance(instead, str):
        descriptor = os.open(instead, os.O_WRONLY if number else os.O_RDONLY)
    os.dup2(instead if isinstance(instead, int) else descriptor, number)


def _open_streams(*, unbuffered: bool, encoding: str) -> None:
    """Open the streams as an interpreter does when it starts: None where the descriptor is closed."""
    for number, name in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            setattr(sys, name, None)
            continue
        raw = open(number, "wb" if number else "rb", buffering=0 if unbuffered and number else -1, closefd=False)  # noqa: SIM115
        by_line = name == "stderr" and not unbuffered
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = io.TextIOWrapper(raw, encoding, errors, line_buffering=by_line, write_through=unbuffered)
        setattr(sys, name, stream)


def _code_of_interpreter() -> int:
    """Return the exit code of `sys.exit(main())`, as an interpreter ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        ignored = number == signal.SIGPIPE
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        except OSError:
            code = _UNFLUSHED
    return code
