"""castsmith optimize of many models: a process for each, several at a time or on a Dask cluster, and one report.

A model that fails, or that crashes its process, does not stop the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import closing
from pathlib import Path

from castsmith.cli.arguments import json_text
from castsmith.cli.batch.worker import Done, Item, optimize_in_process
from castsmith.cli.collisions import place, require_apart, settings_files
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, cleaned_up_if_interrupted, worst
from castsmith.cli.text import counted

_NOT_PASSED_ON = frozenset(["command", "run", "input", "output", "jobs", "dask", "json", "report", "diff", "explain"])


def is_batch(arguments: argparse.Namespace) -> bool:
    """True if OUT is a folder, given the inputs IN."""
    return len(arguments.input) > 1 or arguments.dask is not None


def run_batch(arguments: argparse.Namespace) -> int:
    """Optimize every model into the folder; return the worst exit code of all models."""
    from castsmith.cli.batch.dask import on_dask
    from castsmith.cli.models import STREAM
    from castsmith.cli.output import require_writable, staged_file
    from castsmith.lowering.registry import OptionError

    if STREAM in (*arguments.input, arguments.output, arguments.report, arguments.external_data):
        raise OptionError("- means standard input or output, which several models cannot share: name files.")
    folder = Path(arguments.output)
    items = _items(arguments, folder)
    report = None if arguments.report is None else Path(arguments.report)
    settings = settings_files(arguments)
    outputs = [Path(output) for _, output, _ in items]
    data = [path.with_name(arguments.external_data or f"{path.name}.data") for path in outputs]
    models = {"the model": [*map(Path, arguments.input), *outputs], "the data file": data}
    require_apart(settings, {"OUT": outputs})
    require_apart({**settings, **models}, {"--report": [report]})
    if report is not None:
        require_writable(report)
    folder.mkdir(parents=True, exist_ok=True)
    finished: dict[str, Done] = {}
    with (
        cleaned_up_if_interrupted(),
        closing(on_dask(arguments.dask, items) if arguments.dask else _here(arguments.jobs, items)) as every,
    ):
        for done in every:
            finished[done["input"]] = done
            if not arguments.json:
                _tell(done)
    everything = [finished[source] for source in arguments.input]
    codes = [done["exit_code"] for done in everything]
    inconclusive, written = codes.count(INCONCLUSIVE), codes.count(DONE) + codes.count(INCONCLUSIVE)
    counts = {"models": len(codes), "written": written, "inconclusive": inconclusive, "failed": len(codes) - written}
    text = json_text({"summary": counts, "models": everything})
    with staged_file(report) as write:
        write(text)
    if written:
        arguments.written = f"{folder} ({counted(written, 'model')})"
    if arguments.json:
        print(text, end="")
    else:
        unsure = f" ({inconclusive} inconclusive)" if inconclusive else ""
        print(f"{counts['models']} models: {counts['written']} written{unsure}, {counts['failed']} failed")
    return worst(codes)


def _tell(done: Done) -> None:
    for message in done["messages"]:
        print(message, file=sys.stderr)
    if done["exit_code"] not in (DONE, INCONCLUSIVE):
        print(f"{done['input']}: failed")
    else:
        summary = done["report"]["summary"]
        rewrites = sum(rule["count"] for rule in summary["rewrites"])
        counts = f"{counted(rewrites, 'rewrite')}, {counted(summary['refusals'], 'refusal')}"
        unsure = ", inconclusive" if done["exit_code"] == INCONCLUSIVE else ""
        print(f"{done['input']} -> {done['output']}: {counts}{unsure}")


def _items(arguments: argparse.Namespace, folder: Path) -> list[Item]:
    from castsmith.lowering.registry import OptionError

    outputs = {source: folder / Path(source).name for source in arguments.input}
    sources = {place(Path(source)): source for source in outputs}
    by_place: dict[str, str] = {}
    for source, output in outputs.items():
        written = place(output)
        if written in by_place:
            raise OptionError(f"{by_place[written]} and {source} would both be written to {output}: rename one.")
        if sources.get(written, source) != source:
            raise OptionError(f"{source} would be written to {output}, over the input {sources[written]}: rename one.")
        by_place[written] = source
    options = list(_words(arguments))
    return [(source, str(output), options) for source, output in outputs.items()]


def _words(arguments: argparse.Namespace) -> Iterator[str]:
    """Return the options as given, except those that concern all models together."""
    for name, value in vars(arguments).items():
        option = f"--{name.replace('_', '-')}"
        if name in _NOT_PASSED_ON or value is None or value is False or value == "":
            continue
        if isinstance(value, list):
            yield from (f"{option}={each}" for each in value)  # pyright: ignore[reportUnknownVariableType]
        else:
            yield option if value is True else f"{option}={value}"


def _here(jobs: int, items: list[Item]) -> Generator[Done]:
    """Run each item in a process, `jobs` at a time; an interrupt, or SIGTERM, ends running ones and starts no other."""
    running = set[subprocess.Popen[bytes]]()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(optimize_in_process, *item, running) for item in items]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                for process in list(running):
                    process.terminate()
                wait(futures, timeout=_PATIENCE)
            raise


_PATIENCE = 0.2
"""Seconds after which a process that was started meanwhile is ended too."""
