"""Processes on this machine that share models."""

from __future__ import annotations

from pathlib import Path

import pytest

from castsmith.cli.batch import pool
from castsmith.cli.outcome import Outcome, Task
from tests.cli.batch.test_many import UNSAFE, inputs
from tests.cli.helpers import task_for


def test_a_process_that_dies_costs_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process dies of its first model, and another takes its place."""
    files, died, worker = inputs(tmp_path / "in"), tmp_path / "died", tmp_path / "worker.py"
    worker.write_text(
        f"import os\nif not os.path.exists({str(died)!r}):\n"
        f"    open({str(died)!r}, 'w').close()\n    os.kill(os.getpid(), 9)\n"
        "from castsmith.cli.batch.worker import answerer\n"
    )
    tasks = [task_for("optimize", file, "-o", f"{file}.out", UNSAFE) for file in files]
    monkeypatch.setattr(pool, "WORKER", worker)
    outcomes = {outcome.task.source: outcome for outcome in pool.on_this_machine(1, tasks)}
    assert [outcomes[file].exit_code for file in files] == [2, 2, 0, 0]
    assert outcomes[files[0]].messages == [f"castsmith: {files[0]}: crashed its process (signal 9)."]


def test_how_many_processes_save_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each large file; folders and missing files count as small."""
    for name, size in (("small", (1 << 16) - 1), ("large", 1 << 16)):
        (tmp_path / name).write_bytes(bytes(size))
    small, large, folder, missing = (str(tmp_path / name) for name in ("small", "large", "", "missing"))
    for jobs, models, count in (
        (9, [], 0),
        (9, [small], 1),
        (9, [small, folder, missing], 1),
        (9, [small, folder, missing, small], 2),
        (9, [large], 1),
        (9, [large, large, small], 3),
        (2, [large, large, small], 2),
        (1, [large, large], 1),
        (None, [large] * 9, 4),
    ):
        monkeypatch.setattr("os.cpu_count", lambda: 4)
        assert pool.useful_processes(jobs, models, 3) == count, models
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert pool.useful_processes(None, [large, large], 3) == 1


def test_each_process_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as save time, each closed at the end; one where there is nothing to do."""
    started: list[Process] = []

    class Process:
        def __init__(self, worker: Path) -> None:
            assert worker == pool.WORKER
            self.closed: list[float] = []
            started.append(self)

        def ask(self, task: Task, seconds: float) -> Outcome:
            assert seconds == float("inf")
            return Outcome(task)

        def close(self, patience: float) -> None:
            self.closed.append(patience)

    def useful(jobs: int | None, models: list[str]) -> int:
        assert (jobs, models) == (7, [task.source for task in tasks])
        return counts[len(models)]

    monkeypatch.setattr(pool, "Process", Process)
    monkeypatch.setattr(pool, "useful_processes", useful)
    counts = {0: 0, 1: 1, 4: 3}
    for names, most in (("", 1), ("a", 1), ("abcd", 3)):
        started.clear()
        tasks = [Task(name, "", {}) for name in names]
        assert sorted(outcome.task.source for outcome in pool.on_this_machine(7, tasks)) == [*names]
        assert [process.closed for process in started] == [[0.5]] * most
