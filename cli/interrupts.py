"""Interrupts and SIGTERM: they end the process at once, or as an exception where files have to be removed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

from castsmith.cli.exit_codes import INTERRUPTED


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where it arrived."""


@contextmanager
def cleaned_up_if_interrupted() -> Generator[None]:
    """Within the block, raise exceptions for an interrupt and SIGTERM, so that unfinished files are removed.

    Outside the block both end the process immediately.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: object) -> None:
    """Raise Terminated, once: another signal must not interrupt the removal of unfinished files."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Terminated


_SHOW_CURSOR = b"\x1b[?25h"


def end_at_once(number: int, frame: object) -> None:
    """End the process immediately; the only cleanup is to show the cursor, which a progress bar hides."""
    del number, frame
    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)
    os._exit(INTERRUPTED)
