"""A process that runs models one after another."""

from __future__ import annotations

from castsmith.cli.batch import worker as batch_worker


def test_a_process_ends_with_the_one_that_asked() -> None:
    process = batch_worker.start()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(600) == 0
