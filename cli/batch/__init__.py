"""Many models in one run: processes on this machine or a Dask cluster, one model at a time each.

`means_many` tells whether arguments ask for it, `run_many` runs a command that writes models, `run_pairs` one that
compares them. `models_of` finds the models that arguments name. `worker` is the process that does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.batch.inputs import is_folder, means_many, models_of
    from castsmith.cli.batch.many import run_many, run_pairs

__all__ = ["is_folder", "means_many", "models_of", "run_many", "run_pairs"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "inputs": ("is_folder", "means_many", "models_of"),
            "many": ("run_many", "run_pairs"),
        },
    )
