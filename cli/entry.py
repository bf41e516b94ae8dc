"""Start of the `castsmith` process: closed streams, and interrupts from the first import on."""

from __future__ import annotations

import atexit
import os
import signal
import sys

from castsmith.cli.interrupts import end_at_once


def main() -> int:
    """Run the command of the process's own arguments and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the parent ignores interrupts
        signal.signal(signal.SIGINT, end_at_once)
    _open_closed_streams()
    codes = list[int]()
    if not _others_at_exit():
        atexit.register(_end_quickly, codes)
    from castsmith.cli.main import main as run

    codes.append(run())
    return codes[0]


def _others_at_exit() -> int:
    """Return the number of functions that wait for the exit, such as those of a tool that measures coverage."""
    return getattr(atexit, "_ncallbacks", lambda: 1)()


def _end_quickly(codes: list[int]) -> None:
    """End the process with the code, after all other functions for the exit; memory is not given back one by one.

    Without a code an exception has ended the command, and with output that cannot be written the interpreter says so.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return
    if codes:
        os._exit(codes[0])


def _open_closed_streams() -> None:
    """Open /dev/null for a closed standard stream: otherwise the next file opened would take its number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # It takes the lowest free number, which is this one. Writing to stdout is then an error.
            os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115
