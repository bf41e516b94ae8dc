"""Processes on this machine that share models."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
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


def test_a_process_that_starts_during_an_interrupt_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, started = threading.Event(), list[subprocess.Popen[bytes]]()

    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=pipe, stdout=pipe)
        if started:
            starting.set()
            time.sleep(0.1)
        else:
            process.communicate(b"\n")  # it has ended, and the next task needs another
        started.append(process)
        return process

    monkeypatch.setattr(batch_worker, "start", start)

    def ask(_: object, task: batch_worker.Task) -> batch_worker.Done:
        return {"input": task.source}

    monkeypatch.setattr(batch_worker, "ask", ask)
    run = on_this_machine(1, [batch_worker.Task(name, "", []) for name in ("a", "b")])
    assert next(run) == {"input": "a"}
    starting.wait()
    run.close()
    assert started[1].poll() is not None
