"""Processes on this machine that share models."""

from __future__ import annotations

from pathlib import Path

import pytest

from castsmith.cli.batch import worker as batch_worker
from castsmith.cli.batch.pool import on_this_machine
from tests.cli.batch.test_many import UNSAFE, inputs


def test_a_process_that_dies_costs_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = inputs(tmp_path / "in")
    tasks = [batch_worker.Task(file, f"{file}.out", ["optimize", file, "-o", f"{file}.out", UNSAFE]) for file in files]
    dying = [["/bin/sh", "-c", "read line; kill -9 $$"], batch_worker.worker_command()]
    monkeypatch.setattr(batch_worker, "worker_command", lambda: dying.pop(0))
    done = {outcome["input"]: outcome for outcome in on_this_machine(1, tasks)}
    assert [done[file]["exit_code"] for file in files] == [2, 2, 0, 0]
    assert done[files[0]]["messages"] == [f"castsmith: {files[0]}: the process was ended by signal 9."]
