"""Processes on this machine that share models."""

from __future__ import annotations

from pathlib import Path

import pytest

from castsmith.cli.batch import pool
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
