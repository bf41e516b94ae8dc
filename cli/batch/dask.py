"""The models of a batch on the workers of a Dask cluster, which need Castsmith and see the same files."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

from castsmith.cli.batch.worker import Done, Item, failed, optimize_in_process


def on_dask(address: str, items: list[Item]) -> Generator[Done]:
    """What became of each model, as they end. Raises OptionError where there is no Dask, or no scheduler."""
    from castsmith.lowering.registry import OptionError

    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise OptionError("--dask needs Dask: pip install 'castsmith[dask]'.") from None
    try:
        client: Any = distributed.Client(address, timeout="10s")
    except (OSError, ValueError):
        raise OptionError(f"--dask {address}: no scheduler answers there.") from None
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
    """With paths that do not depend on where a worker runs."""
    source, output, options = item
    return str(Path(source).resolve()), str(Path(output).resolve()), options
