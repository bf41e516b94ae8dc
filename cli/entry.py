"""Start of the `castsmith` process: signals from the first import on, and closed streams."""

from __future__ import annotations

import os
import sys

from castsmith.cli.interrupts import exit_code_of, heed_sigterm


def main() -> int:
    """Run the command of the process's own arguments and return its exit code."""
    try:
        heed_sigterm()
        _open_closed_streams()
        from castsmith.cli.main import main as run

        return run()
    except KeyboardInterrupt as interrupt:
        return exit_code_of(interrupt)


def _open_closed_streams() -> None:
    """Open the null device for each closed standard stream, whose number the next file opened would take otherwise.

    It is opened to be read, so that output which nobody could get is an error; but not messages about errors.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the null device then gets this number, the lowest that is free
            os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115
