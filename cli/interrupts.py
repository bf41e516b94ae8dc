"""SIGTERM as an exception, as Python raises one for an interrupt: unfinished files are removed on the way out."""

from __future__ import annotations

import signal

from castsmith.cli.exit_codes import INTERRUPTED, TERMINATED


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where it arrived."""


def heed_sigterm() -> None:
    """Let SIGTERM raise Terminated in this process, unless something else handles it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of a command that the signal ended."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED


def _terminate(number: int, frame: object) -> None:
    """Raise Terminated, once: another signal must not interrupt the removal of unfinished files."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Terminated
