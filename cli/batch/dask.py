"""The models of a run on the workers of a Dask cluster, which need Castsmith and see the same files."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any

from castsmith.cli.batch.pool import failed, run_alone
from castsmith.cli.outcome import Outcome, Task
from castsmith.numerics.errors import OptionError

_CONNECTING = 30.0
"""Seconds in which the scheduler has to answer."""

_PATIENCE = 15.0
"""Seconds without any worker after which the cluster is given up."""


def on_dask(address: str, tasks: Sequence[Task]) -> Generator[Outcome]:
    """Yield the outcome of each model as it ends. Raises OptionError if Dask or the scheduler is missing."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise OptionError("--dask needs Dask: pip install 'castsmith[dask]'.") from None
    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what a lost cluster means is told for each model
    try:
        client: Any = distributed.Client(address, timeout=_CONNECTING)
    except (OSError, ValueError):
        raise OptionError(f"--dask {address}: no scheduler answers at this address.") from None
    with client:
        futures = {client.submit(run_alone, task, pure=False, retries=1): task for task in tasks}
        yield from _outcomes(address, client, distributed.wait, futures)


def _outcomes(address: str, client: Any, wait: Any, futures: dict[Any, Task]) -> Generator[Outcome]:
    """Yield the outcome of each future; those left fail when the cluster has had no worker for a while."""
    last_sign = time.monotonic()
    while futures:
        try:
            ended = wait(list(futures), timeout=1, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            ended = ()
        except CancelledError:  # the scheduler is gone
            ended = [future for future in futures if future.status != "pending"]
        for future in ended:
            task = futures.pop(future)
            if future.status == "finished":
                yield future.result()
            elif future.status in ("cancelled", "lost"):
                yield failed(task, f"{task.source}: the cluster at {address} was lost.")
            else:
                yield failed(task, f"{task.source}: the worker failed ({future.exception()}).")
        if ended or _has_workers(client):
            last_sign = time.monotonic()
        elif time.monotonic() - last_sign > _PATIENCE:
            reason = f"the cluster at {address} has had no worker for {_PATIENCE:.0f} seconds"
            yield from (failed(task, f"{task.source}: {reason}.") for task in futures.values())
            return


def _has_workers(client: Any) -> bool:
    """True if the scheduler answers and has workers."""
    try:
        return bool(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, TypeError, ValueError):
        return False
