"""Many models in one run: processes on this machine or a Dask cluster, one model at a time each.

inputs       `means_many` tells whether arguments ask for many, `models_of` finds the models that they name
many         `run_many` runs a command that writes models, `run_pairs` one that compares them, `run_tasks` others
pool         the processes of this machine; `useful_processes`, their number
worker       a process that does the work, a `Task` for each model
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.batch.inputs import is_folder, means_many, models_of
    from castsmith.cli.batch.many import run_many, run_pairs, run_tasks
    from castsmith.cli.batch.pool import useful_processes
    from castsmith.cli.batch.worker import Task

__all__ = ["Task", "is_folder", "means_many", "models_of", "run_many", "run_pairs", "run_tasks", "useful_processes"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "inputs": ("is_folder", "means_many", "models_of"),
            "many": ("run_many", "run_pairs", "run_tasks"),
            "pool": ("useful_processes",),
            "worker": ("Task",),
        },
    )
