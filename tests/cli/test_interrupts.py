"""SIGTERM raises once, and the exit code tells it from an interrupt."""

from __future__ import annotations

import subprocess
import sys

from castsmith.cli.interrupts import Terminated, exit_code_of

_SIGNALS = """
import signal
from castsmith.cli.interrupts import Terminated, heed_sigterm

for other in (signal.SIG_IGN, signal.default_int_handler):
    signal.signal(signal.SIGTERM, other)
    heed_sigterm()
    assert signal.getsignal(signal.SIGTERM) is other
signal.signal(signal.SIGTERM, signal.SIG_DFL)
heed_sigterm()
try:
    signal.raise_signal(signal.SIGTERM)
except Terminated:
    print("raised")
signal.raise_signal(signal.SIGTERM)
print("another has no effect")
"""


def test_the_exit_code_is_that_of_the_signal() -> None:
    assert (exit_code_of(Terminated()), exit_code_of(KeyboardInterrupt())) == (143, 130)


def test_sigterm_is_heeded_once_and_unless_something_else_handles_it() -> None:
    """In a process of its own: a signal that nothing heeds would end the other tests of this one."""
    done = subprocess.run([sys.executable, "-c", _SIGNALS], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout, done.returncode) == ("", "raised\nanother has no effect\n", 0)
