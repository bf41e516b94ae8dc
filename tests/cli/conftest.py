"""Shared fixtures of the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from io import TextIOWrapper
from tempfile import TemporaryFile

import pytest

from castsmith.cli.batch import worker
from castsmith.cli.batch.worker import Done, Task
from tests.cli.helpers import Command


@pytest.fixture
def castsmith(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs over many models do the work of each in this process, which has imported everything."""
    monkeypatch.setattr("castsmith.cli.batch.pool.on_this_machine", in_this_process)


def in_this_process(
    _: int, tasks: Sequence[Task], ahead: Callable[[Task], Done | None] | None = None
) -> Iterator[Done]:
    for task in tasks:
        known = ahead(task) if ahead is not None else None
        yield known if known is not None else _done(task)


def _done(task: Task) -> Done:
    with TemporaryFile() as errors:
        text = TextIOWrapper(errors, write_through=True)
        with redirect_stderr(text):
            done = worker._run(task, errors)  # pyright: ignore[reportPrivateUsage, reportArgumentType]
        text.detach()
    return json.loads(json.dumps(done))
