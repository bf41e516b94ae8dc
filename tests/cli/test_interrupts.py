"""SIGTERM raises once, and the exit code tells it from an interrupt."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

from castsmith.cli.interrupts import Terminated, exit_code_of, heed_sigterm


@pytest.fixture(autouse=True)
def former_handler() -> Generator[None]:
    former = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, former)


def test_the_exit_code_is_that_of_the_signal() -> None:
    assert (exit_code_of(Terminated()), exit_code_of(KeyboardInterrupt())) == (143, 130)


def test_sigterm_is_heeded_unless_something_else_handles_it() -> None:
    for other in (signal.SIG_IGN, signal.default_int_handler):
        signal.signal(signal.SIGTERM, other)
        heed_sigterm()
        assert signal.getsignal(signal.SIGTERM) is other
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    heed_sigterm()
    with pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)  # another has no effect
