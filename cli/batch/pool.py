"""Processes on this machine that share the models of a run: each starts once, and one that dies costs one model."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from castsmith.cli.batch import worker
from castsmith.cli.batch.worker import Done, Task, failed, file_size

_PATIENCE = 0.5
"""Seconds that an interrupted process has to remove its unfinished files."""


def on_this_machine(jobs: int, tasks: Sequence[Task]) -> Generator[Done]:
    """Yield the outcome of each task as it ends, of at most `jobs` at a time. Closed early, it ends those running."""
    of_thread, running = threading.local(), set[subprocess.Popen[bytes]]()

    def work(task: Task) -> Done:
        """Have the process of this thread do the task; one that died is replaced."""
        try:
            process: subprocess.Popen[bytes] | None = getattr(of_thread, "process", None)
            if process is None or process.poll() is not None:
                of_thread.process = process = worker.start()
                running.add(process)
            return worker.ask(process, task)
        except Exception as error:  # no process, or an answer that is not one: the model has failed, others go on
            of_thread.process = None
            return failed(task, f"{task.source}: no process could do the work ({type(error).__name__}: {error}).")

    executor = ThreadPoolExecutor(min(jobs, useful_processes([task.source for task in tasks])) or 1)
    try:
        for future in as_completed([executor.submit(work, task) for task in tasks]):
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        _end(running)


_SMALL, _MANY = 1 << 16, 100
"""Bytes of a small model, and the number of small models that take longer than the start of one more process."""


def useful_processes(models: Sequence[str], many: int = _MANY) -> int:
    """Return the number of processes that save time: one for each large model, and for `many` small ones."""
    small = sum(1 for model in models if file_size(model) < _SMALL)
    return len(models) - small + -(-small // many)


def _end(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """End the processes, which stop when their standard input does; one that does not is killed."""
    for process in running:
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # of a process that has died
                process.stdin.close()
    until = time.monotonic() + _PATIENCE
    for process in running:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
