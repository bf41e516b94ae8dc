"""Processes on this machine that share the models of a run: each starts once, and one that dies costs one model."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue

from castsmith.cli.batch import worker
from castsmith.cli.batch.worker import Done, Task, failed, file_size

_PATIENCE = 0.5
"""Seconds that an interrupted process has to remove its unfinished files."""


def on_this_machine(
    jobs: int, tasks: Sequence[Task], ahead: Callable[[Task], Done | None] | None = None
) -> Generator[Done]:
    """Yield the outcome of each task as it ends. An interrupt ends the running ones, and starts no other.

    Args:
        jobs: The number of processes.
        tasks: The tasks.
        ahead: Called when the turn of a task comes; the outcome, if it returns one, is that of the task.
    """
    shared, finished = _Shared(iter(tasks)), SimpleQueue[Done]()
    threads = [
        threading.Thread(target=_work, args=(shared, finished, ahead), daemon=True)
        for _ in range(min(jobs, useful_processes([task.source for task in tasks])))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            yield finished.get()
    finally:
        _end(shared.stop())


_SMALL, _MANY = 1 << 16, 100
"""Bytes of a small model, and the number of small models that take longer than the start of one more process."""


def useful_processes(models: Sequence[str], many: int = _MANY) -> int:
    """Return the number of processes that save time: one for each large model, and for `many` small ones."""
    small = sum(1 for model in models if file_size(model) < _SMALL)
    return len(models) - small + -(-small // many)


class _Shared:
    """The tasks that are left and the processes that do them, for several threads."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks, self._processes, self._lock = tasks, list[subprocess.Popen[bytes]](), threading.Lock()
        self._stopped = False

    def take(self) -> Task | None:
        with self._lock:
            return next(self._tasks, None)

    def start(self) -> subprocess.Popen[bytes] | None:
        """Start a process; None after `stop`, so that it returns every process that was started."""
        with self._lock:
            if self._stopped:
                return None
            self._processes.append(worker.start())
            return self._processes[-1]

    def stop(self) -> Sequence[subprocess.Popen[bytes]]:
        """Let no task and no process start, and return the processes that were started."""
        with self._lock:
            self._tasks, self._stopped = iter(()), True
            return self._processes


def _work(
    shared: _Shared,
    finished: SimpleQueue[Done],
    ahead: Callable[[Task], Done | None] | None,
) -> None:
    """Have a process do tasks until all are done; a process that died is replaced."""
    process: subprocess.Popen[bytes] | None = None
    while (task := shared.take()) is not None:
        try:
            if ahead is not None and (outcome := ahead(task)) is not None:
                finished.put(outcome)
                continue
            if process is None or process.poll() is not None:
                process = shared.start()
            if process is None:
                return
            done = worker.ask(process, task)
        except Exception as error:  # no process, or an answer that is not one: the model has failed, others go on
            done = failed(task, f"{task.source}: no process could do the work ({type(error).__name__}: {error}).")
            process = None
        finished.put(done)
    if process is not None:
        worker.let_go(process)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End every process that still runs: politely, then not."""
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.terminate()
    until = time.monotonic() + _PATIENCE
    for process in alive:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    for process in alive:
        if process.poll() is None:
            process.kill()
            process.wait()
