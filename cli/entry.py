"""Where the `castsmith` process starts: an interrupt ends it without a traceback from the first import on."""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command of the process's own arguments and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started it wants it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from castsmith.cli.main import main as run

    return run()
