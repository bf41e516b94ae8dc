"""Models on a cluster of Dask."""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path

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
