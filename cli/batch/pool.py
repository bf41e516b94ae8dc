"""Processes on this machine that share the models of a run: each starts once, and one that dies costs one model."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue

from castsmith.cli.exit_codes import UNUSABLE
from castsmith.cli.outcome import Failure, Outcome, Task
from castsmith.verification.evaluate.process import EngineError, Process

WORKER = Path(__file__).with_name("worker.py")

_PATIENCE = 0.5
"""Seconds that an interrupted process has to remove its unfinished files."""


def on_this_machine(jobs: int | None, tasks: Sequence[Task]) -> Generator[Outcome]:
    """Yield the outcome of each task as it ends, of at most `jobs` at a time. Closed early, it ends those running."""
    processes = [Process(WORKER) for _ in range(useful_processes(jobs, [task.source for task in tasks]) or 1)]
    idle = SimpleQueue[Process]()
    for process in processes:
        idle.put(process)

    def work(task: Task) -> Outcome:
        process = idle.get()
        try:
            return outcome_in(process, task)
        finally:
            idle.put(process)

    executor = ThreadPoolExecutor(len(processes))
    try:
        for future in as_completed([executor.submit(work, task) for task in tasks]):
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        with ThreadPoolExecutor(len(processes)) as ending:
            ending.map(Process.close, processes, repeat(_PATIENCE))


def run_alone(task: Task) -> Outcome:
    """Run one task in a process of its own, as a worker of a cluster does."""
    with closing(Process(WORKER)) as process:
        return outcome_in(process, task)


def outcome_in(process: Process, task: Task) -> Outcome:
    """Return the outcome of the task in the process; if the process dies of it, that is the outcome."""
    try:
        return process.ask(task, seconds=math.inf)
    except EngineError as error:
        return failed(task, f"{task.source}: {str(error).rstrip('.')}.")


def failed(task: Task, message: str) -> Outcome:
    """Return the outcome of a model whose process did not report one."""
    return Outcome(
        task, UNUSABLE, [f"castsmith: {message}"], failure=Failure("process", message, task.source, UNUSABLE)
    )


_SMALL, _MANY = 1 << 16, 100
"""Bytes of a small model, and the number of small models that take longer than the start of one more process."""


def useful_processes(jobs: int | None, models: Sequence[str], many: int = _MANY) -> int:
    """Return the number of processes that save time: one for each large model, and for `many` small ones.

    Args:
        jobs: The most; None for that of processors.
        models: The files.
        many: The number of small models that are worth one more process.
    """
    small = sum(not os.path.isfile(model) or os.path.getsize(model) < _SMALL for model in models)
    return min(jobs or os.cpu_count() or 1, len(models) - small + -(-small // many))
