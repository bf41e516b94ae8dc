"""Another process that answers one request at a time within a limit: what crashes or hangs there costs a request.

`verify` runs engines so, `castsmith dev conformance` engines of other environments, and a command over many models each
model. The other end is `channel`.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from castsmith.ir.errors import ModelError
from castsmith.numerics.errors import present
from castsmith.verification.evaluate.channel import TIMED, receive, send

LONGEST_REQUEST = 300.0
"""Seconds of the processor for a request without another limit."""

_WATCHED_EVERY = 0.2
"""Seconds between two looks at the clock, against limits of a second and more."""

_WALL = 10.0 if TIMED else 1.0
"""Seconds of the clock for each of the processor, after which a request that waits for ever is ended."""

_CHANNEL = Path(__file__).with_name("channel.py")


class EngineError(ModelError):
    """An engine that is not installed, or an operator that no engine runs on the given operands.

    Attributes:
        open: An operand depends on a result that the standard leaves undefined.
        unsupported: No engine has the operator, or its results cannot be read.
    """

    open = False

    def __init__(self, message: str, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


class CrashError(EngineError):
    """The process ended, or was ended after a timeout: `late`."""

    late = False


class Process:
    """The other process, started on first use and again after a crash.

    Attributes:
        turn: The number of starts.
        used: Seconds of the processor that all requests took.
        lock: Held by the requesting thread: the process answers one request at a time.
    """

    def __init__(
        self, script: Path, python: Sequence[str] = (sys.executable, "-P"), settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe a process.

        Args:
            script: The file whose `answerer()` gives the function that answers.
            python: The interpreter and its options; -P keeps it from importing from the current folder.
            settings: Variables of its environment, besides those of this process.
        """
        self.turn = 0
        self.used = 0.0
        self.lock = threading.RLock()
        self._command, self._settings = [*python, str(_CHANNEL), str(script)], settings or {}
        self._running: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._is_watched = False
        self._deadline = math.inf
        self._late = False

    def ask(self, *request: object, seconds: float = LONGEST_REQUEST) -> Any:
        """Return the answer to a request.

        Args:
            seconds: The limit of processor time, infinity for none; waiting for a processor does not count.

        Raises:
            EngineError: The request failed, or the process cannot be started.
            CrashError: The process ended.
        """
        with self.lock:
            return self._ask(request, seconds)

    def _ask(self, request: tuple[object, ...], seconds: float) -> Any:
        running = self._started()
        into, out = present(running.stdin, "the input of the process"), present(running.stdout, "its output")
        if seconds < math.inf and not self._is_watched:
            threading.Thread(target=self._watch, daemon=True).start()
            self._is_watched = True
        self._late, self._deadline = False, time.monotonic() + _WALL * seconds
        try:
            send(into, (seconds if seconds < math.inf else 0.0, *request))
            done, reply, used = receive(out)
            self.used += used
        except (EOFError, OSError, ValueError):  # ValueError: another thread has closed the process
            self._deadline = math.inf
            error = CrashError(self._cause_of_end(running, seconds))
            error.late = self._late
            raise error from None
        except BaseException:
            self.close()  # a late answer would be read as the answer to the next request
            raise
        finally:
            self._deadline = math.inf
        if not done:
            raise EngineError(reply)
        return reply

    @property
    def is_alive(self) -> bool:
        """True if the process runs, so that it holds the models of this turn."""
        return self._running is not None and self._running.poll() is None

    def close(self, patience: float = 0.0) -> None:
        """End the process, which has so many seconds to remove its unfinished files."""
        with self._starting:
            running, self._running = self._running, None
        if running is None:
            return
        if running.stdin is not None and patience:
            with contextlib.suppress(OSError):  # of a process that has died
                running.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(patience)
        running.kill()
        running.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._starting:  # so that a thread that closes it meanwhile ends it too
            if self._running is None or not self.is_alive:
                pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
                try:
                    # Out of reach of the terminal's interrupt: the process that asks ends it.
                    self._running = subprocess.Popen(
                        self._command, stdin=pipe, stdout=pipe, stderr=nowhere, env=self._environment(),
                        start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    raise EngineError(f"{self._command[0]} cannot be started: {error.strerror}.") from None
                self.turn += 1
            return self._running

    def _environment(self) -> dict[str, str]:
        """Return the environment, with a PYTHONPATH in which no empty entry means the current folder."""
        variables = {**os.environ, **self._settings}
        path = os.pathsep.join(filter(None, variables.pop("PYTHONPATH", "").split(os.pathsep)))
        return {**variables, "PYTHONPATH": path} if path else variables

    def _watch(self) -> None:
        """End requests that wait for ever, with one thread for all: starting one for each takes longer than they do."""
        while True:
            time.sleep(_WATCHED_EVERY)
            running = self._running
            if running is not None and time.monotonic() > self._deadline:
                self._late = True
                running.kill()

    def _cause_of_end(self, running: subprocess.Popen[bytes], seconds: float) -> str:
        running.kill()
        code = running.wait()
        self._running = None
        self._late |= TIMED and code == -signal.SIGPROF
        if self._late:
            self.used += seconds
            return f"does not end within {seconds:.0f} s"
        return f"crashed its process ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
