"""The models of a batch on the workers of a Dask cluster, which need Castsmith and see the same files."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

from castsmith.cli.batch.worker import Done, Item, failed, optimize_in_process


def on_dask(address: str, items: list[Item]) -> Generator[Done]:
    """Yield the outcome of each model as it ends. Raises OptionError if Dask or the scheduler is missing."""
    from castsmith.lowering.registry import OptionError

    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise OptionError("--dask needs Dask: pip install 'castsmith[dask]'.") from None
    try:
        client: Any = distributed.Client(address, timeout="10s")
    except (OSError, ValueError):
        raise OptionError(f"--dask {address}: no scheduler answers at this address.") from None
    with client:
        futures = {
            client.submit(optimize_in_process, *_seen_from_afar(item), pure=False, retries=1): item for item in items
        }
        for future in distributed.as_completed(futures):
            source, output, _ = futures[future]
            if future.status == "finished":
                yield {**future.result(), "input": source, "output": output}
            else:
                yield failed(source, output, f"{source}: the worker failed ({future.exception()}).")


def _seen_from_afar(item: Item) -> Item:
    """Return the task with paths that do not depend on the worker's current folder."""
    source, output, options = item
    return str(Path(source).resolve()), str(Path(output).resolve()), options
