"""Many models in one run: a pool of processes or a Dask cluster, one model per task.

`is_batch` tells whether the arguments ask for it, `run_batch` runs it. `worker` optimizes one model in its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.batch.pool import is_batch, run_batch
    from castsmith.cli.batch.worker import usable

__all__ = ["is_batch", "run_batch", "usable"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "pool": ("is_batch", "run_batch"),
            "worker": ("usable",),
        },
    )
