"""The other process of a run over many models: the command on one model after another.

`castsmith.verification.evaluate.channel` loads this file, and the library is imported once.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import IO

from castsmith.cli.interrupts import heed_sigterm
from castsmith.cli.main import start_quickly
from castsmith.cli.outcome import Outcome, Task
from castsmith.cli.running import call, ended


def answerer() -> Callable[[Task], Outcome]:
    """Return the function that runs a task; what is printed to standard error is collected from now on."""
    start_quickly()
    heed_sigterm()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    os.dup2(errors.fileno(), 2)

    def answer(task: Task) -> Outcome:
        outcome = outcome_of(task, errors)
        gc.collect()
        gc.freeze()  # what is left is imported, and stays: later collections do not look at it
        return outcome

    return answer


def outcome_of(task: Task, errors: IO[bytes]) -> Outcome:
    """Run the command of the task; standard error is written to `errors`."""
    outcome, text = Outcome(task), io.StringIO()
    arguments = argparse.Namespace(**task.values, outcome=outcome)
    errors.seek(0)
    errors.truncate()
    with redirect_stdout(text):
        outcome.exit_code = ended(lambda: call(arguments), arguments)
    sys.stderr.flush()
    errors.seek(0)
    outcome.messages = errors.read().decode(errors="replace").splitlines()
    outcome.text = text.getvalue()
    return outcome
