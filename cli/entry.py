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
    """Open the null device for each closed standard stream, whose number the next file opened would take otherwise."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
