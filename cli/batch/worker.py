"""One model of many: a process that runs a command on one model after another, as told on its standard input.

A task and its outcome are each a line of JSON. The process imports the library once. It ends when its standard input
does, in the middle of a model too, so that it never outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from castsmith.cli.exit_codes import TERMINATED, UNUSABLE
from castsmith.cli.interrupts import Terminated, heed_sigterm
from castsmith.cli.main import main, start_quickly
from castsmith.cli.outcome import Failure, Outcome, Wanted

Done = dict[str, Any]
"""Outcome of one model: its input and output, the exit code, the text on stdout and stderr, the error, its report."""


class Task(NamedTuple):
    """One model, and the words of the command for it.

    Attributes:
        source: The model, for messages.
        output: The file that is written; or empty.
        words: The command with its options and files.
        wanted: The data that is wanted of the model.
    """

    source: str
    output: str
    words: list[str]
    wanted: Wanted = "figures"


# The side that asks.


def start() -> subprocess.Popen[bytes]:
    """Start a process for tasks, out of reach of the terminal's interrupt: the process that asks ends it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        worker_command(), stdin=pipe, stdout=pipe, env=environment(os.environ), start_new_session=True
    )


def ask(process: subprocess.Popen[bytes], task: Task) -> Done:
    """Return the outcome of the task; if the process dies of it, that is the outcome."""
    line = b""
    if process.stdin is not None and process.stdout is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
    if line:
        return json.loads(line)
    code = process.wait()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return failed(task, f"{task.source}: the process was ended {how}.")


def run_alone(task: Task) -> Done:
    """Run one task in a process of its own, as a worker of a cluster does."""
    process = start()
    with process:
        return ask(process, task)


def worker_command() -> list[str]:
    """Return the command of a process for tasks; -P keeps Python from importing from the current folder."""
    return [sys.executable, "-P", "-m", "castsmith.cli.batch.worker"]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with a PYTHONPATH in which no empty entry means the current folder."""
    path = os.pathsep.join(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)))
    inherited = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return {**inherited, "PYTHONPATH": path} if path else inherited


def failed(task: Task, message: str) -> Done:
    """Return the outcome of a model whose process did not report one."""
    error = Failure("process", message, task.source, UNUSABLE).data()["error"]
    outcome = {"exit_code": UNUSABLE, "messages": [f"castsmith: {message}"], "error": error}
    return {"input": task.source, "output": task.output, **outcome, "text": "", "report": None, "page": None}


# The process that is asked.


def serve() -> None:
    """Run each task of standard input, one line each, and print its outcome as a line."""
    start_quickly()
    heed_sigterm()
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with tempfile.TemporaryFile() as errors:
        _redirect(errors)
        _answer(tasks, replies, errors)


def _answer(tasks: IO[bytes], replies: IO[bytes], errors: IO[bytes]) -> None:
    waiting, busy = SimpleQueue[bytes | None](), threading.Event()
    threading.Thread(target=_read, args=(tasks, waiting, busy), daemon=True).start()
    weight = 0
    while (line := waiting.get()) is not None:
        busy.set()
        done = _run(Task(*json.loads(line)), errors)
        busy.clear()
        replies.write(json.dumps(done).encode() + b"\n")
        replies.flush()
        if done["exit_code"] == TERMINATED:
            return
        weight += 1 + file_size(done["input"]) // _WEIGHTY
        if weight >= _MODELS:
            gc.collect()
            gc.freeze()  # what is left is imported, and stays: later collections do not look at it
            weight = 0


_MODELS, _WEIGHTY = 32, 1 << 20
"""Small models after which memory is collected, and the bytes of a file for which one counts as one more."""


def file_size(path: str) -> int:
    """Return the bytes of the file, 0 without a file."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _redirect(errors: IO[bytes]) -> None:
    """Read nothing from standard input, drop what libraries print to standard output, and collect standard error."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(errors.fileno(), 2)


def _read(tasks: IO[bytes], waiting: SimpleQueue[bytes | None], busy: threading.Event) -> None:
    for line in tasks:
        waiting.put(line)
    waiting.put(None)
    if busy.is_set():  # the process that asked is gone
        os.kill(os.getpid(), signal.SIGTERM)


def _run(task: Task, errors: IO[bytes]) -> Done:
    outcome, text = Outcome(task.wanted), io.StringIO()
    errors.seek(0)
    errors.truncate()
    with redirect_stdout(text):
        code = main(task.words, outcome)
    sys.stderr.flush()
    errors.seek(0)
    messages = errors.read().decode(errors="replace").splitlines()
    printed = {"text": text.getvalue(), "report": outcome.report, "page": outcome.page}
    ended = {"exit_code": code, "messages": messages, "error": outcome.error}
    return {"input": task.source, "output": task.output, **ended, **printed}


if __name__ == "__main__":
    with contextlib.suppress(Terminated):
        serve()
