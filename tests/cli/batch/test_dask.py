"""Models on a cluster of Dask."""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from castsmith.cli.batch.dask import _outcomes  # pyright: ignore[reportPrivateUsage]
from castsmith.cli.main import main
from castsmith.cli.outcome import Outcome, Task
from tests.cli.batch.test_many import UNSAFE, inputs, require_all_but_the_bad
from tests.sampling import complete_only


def test_no_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castsmith.cli.batch.dask._CONNECTING", 1.0)
    files = inputs(tmp_path / "in")
    assert main(["optimize", *files, "-o", str(tmp_path / "out"), "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "--dask" in capsys.readouterr().err


@dataclass(eq=False)
class Future:
    status: str
    outcome: Outcome

    def result(self) -> Outcome:
        return self.outcome

    def exception(self) -> Exception:
        return RuntimeError("it fell")


def test_a_lost_scheduler_fails_the_models_that_are_left() -> None:
    """The scheduler of a cluster ended: one future has its result, the others are cancelled."""
    tasks = [Task(name, "", {}) for name in "abc"]
    outcome = Outcome(tasks[0])
    states = ("finished", "cancelled", "lost")
    futures = {Future(status, outcome): task for status, task in zip(states, tasks, strict=True)}

    def wait(*_: object, **__: object) -> None:
        raise CancelledError

    done = list(_outcomes("tcp://gone", None, wait, futures))
    assert [outcome.exit_code for outcome in done] == [0, 2, 2]
    assert done[1].messages == ["castsmith: b: the cluster at tcp://gone was lost."]


def test_each_end_of_a_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that failed costs one model; the rest fails once there was no worker for more than 15 seconds."""
    tasks = [Task(name, "", {}) for name in "abcd"]
    states = ("finished", "error", "pending", "pending")
    futures = {Future(status, Outcome(task)): task for status, task in zip(states, tasks, strict=True)}
    turns, workers = iter([[*futures][:2], [], None, []]), iter([{"w": 1}, {}, {}])
    moments = iter([0, 20, 40, 55, 55.5])

    class Client:
        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            assert n_workers == -1  # all
            return {"workers": next(workers)}

    def wait(left: list[Any], timeout: float, return_when: str) -> SimpleNamespace:
        assert (timeout, return_when) == (1, "FIRST_COMPLETED")
        ended = next(turns)
        assert len(left) == (4 if ended else 2)
        if ended is None:
            raise TimeoutError
        return SimpleNamespace(done=ended)

    monkeypatch.setattr("castsmith.cli.batch.dask.time", SimpleNamespace(monotonic=lambda: next(moments)))
    done = list(_outcomes("tcp://x", Client(), wait, futures))
    assert [outcome.messages for outcome in done] == [
        [],
        ["castsmith: b: the worker failed (it fell)."],
        *([f"castsmith: {name}: the cluster at tcp://x has had no worker for 15 seconds."] for name in "cd"),
    ]


@complete_only
def test_a_dask_cluster_of_two_workers(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    report, files = tmp_path / "all.json", inputs(tmp_path / "in")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster:
        address = cluster.scheduler_address
        code = main(
            ["optimize", *files, "-o", str(tmp_path / "out"), "--dask", address, "--report", str(report), UNSAFE]
        )
    assert code == 2
    require_all_but_the_bad(tmp_path / "out", report)
