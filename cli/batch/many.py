"""A command over many models: which, where the results go, and one table and one report for all."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from castsmith.cli.batch import pool
from castsmith.cli.batch.inputs import SUFFIX, is_folder, models_of
from castsmith.cli.batch.table import print_table, summary_line, table_of
from castsmith.cli.batch.unchanged import Record
from castsmith.cli.collisions import place, require_apart, settings_files
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, worst
from castsmith.cli.outcome import Outcome, Task, Wanted
from castsmith.cli.output import is_html, report_path, write_file
from castsmith.cli.streams import STREAM
from castsmith.cli.text.json import json_text
from castsmith.cli.text.screen import progress
from castsmith.cli.text.terminal import counted, print_data, print_line, print_text
from castsmith.numerics.errors import OptionError

_OF_ALL: Mapping[str, Any] = {
    "json": False,
    "report": None,
    "jobs": None,
    "dask": None,
    "skip_unchanged": False,
    "verbose": False,
}
"""Arguments that concern all models together, as one model has them."""

_FILES = ("target", "promotion", "inputs", "output")
"""Arguments that may name a file, which workers of a cluster look for in another current folder."""


def run_many(arguments: argparse.Namespace) -> int:
    """Run a command that writes a model over all models; return the worst exit code.

    Raises:
        OptionError: An argument names no model, the output names a file, or two files would be written in one place.
    """
    folder = Path(arguments.output)
    _require_no_stream(arguments, (*arguments.input, arguments.output, arguments.report, arguments.external_data))
    tasks = list(_writing(arguments, folder))
    if folder.suffix == SUFFIX and not is_folder(arguments.output):
        raise OptionError(
            f"-o {folder} is one file, but there are several models: name a folder, such as -o {folder.stem}."
        )
    _require_places(arguments, tasks)
    settings = [path for paths in settings_files(arguments).values() for path in paths if path is not None]
    record = Record(folder, _options(arguments), settings) if arguments.skip_unchanged else None
    if arguments.dry_run:
        return _run(arguments, tasks, record)
    folder.mkdir(parents=True, exist_ok=True)
    places = {Path(task.output).parent for task in tasks}
    below = {parent for place in places for parent in (place, *place.parents)}
    folders = sorted(parent for parent in below if not parent.exists())
    for new_folder in folders:
        new_folder.mkdir()
    try:
        return _run(arguments, tasks, record)
    finally:
        for new_folder in reversed(folders):
            with suppress(OSError):  # not empty
                new_folder.rmdir()


def run_pairs(arguments: argparse.Namespace) -> int:
    """Run verify over the models of two folders, which belong together by their paths; return the worst exit code.

    Raises:
        OptionError: The folders do not have the same models.
    """
    sides = [{relative: file for file, relative in models_of([side])} for side in (arguments.a, arguments.b)]
    for models, others, folder in ((*sides, arguments.b), (*reversed(sides), arguments.a)):
        unmatched = [relative for relative in models if relative not in others]
        if unmatched:
            more = f", nor {counted(len(unmatched) - 1, 'other')}" if len(unmatched) > 1 else ""
            raise OptionError(f"{folder} has no {unmatched[0]} to compare with{more}.")
    pairs = ((first, sides[1][relative]) for relative, first in sides[0].items())
    tasks = [task_of(arguments, first, a=first, b=second) for first, second in pairs]
    return _run(arguments, tasks, None)


def outcomes(
    every: Generator[Outcome], count: int, *, quiet: bool = False, note: Callable[[Outcome], None] | None = None
) -> dict[str, Outcome]:
    """Wait for the outcomes of so many tasks; return each by its source. quiet: show no progress. note: Gets each."""
    finished: dict[str, Outcome] = {}
    with progress(count, quiet=quiet) as announce, closing(every):
        announce(counted(count, "model"))
        for done in every:
            finished[done.task.source] = done
            if note is not None:
                note(done)
            announce(f"{len(finished)} of {count}: {done.task.source}")
    return finished


def _run(arguments: argparse.Namespace, tasks: Sequence[Task], record: Record | None) -> int:
    finished = {
        task.source: Outcome(task, DONE, unchanged=True)
        for task in tasks
        if record is not None and record.is_unchanged(task)
    }
    waiting = [task for task in tasks if task.source not in finished]

    def note(done: Outcome) -> None:
        if record is not None and done.exit_code == DONE and not arguments.dry_run:
            record.note(done.task)
        _tell(arguments, done)

    for done in finished.values():
        _tell(arguments, done)
    finished |= outcomes(_everywhere(arguments, waiting), len(waiting), quiet=arguments.quiet, note=note)
    return _conclude(arguments, [finished[task.source] for task in tasks])


def _conclude(arguments: argparse.Namespace, everything: Sequence[Outcome]) -> int:
    """Write the report and print the table; return the worst exit code."""
    counts = _counts(everything)
    if getattr(arguments, "report", None) is not None and not _is_dry(arguments):
        write_file(Path(arguments.report), _report(arguments, counts, everything))
    if counts["written"] and not _is_dry(arguments) and getattr(arguments, "output", None) is not None:
        arguments.written = f"{arguments.output} ({counted(counts['written'], 'model')})"
    if not arguments.json and not arguments.quiet:
        print_table(arguments.command, counts, everything)
    return worst(done.exit_code for done in everything)


def _is_dry(arguments: argparse.Namespace) -> bool:
    """True if nothing is written; verify, which writes nothing, has no such option."""
    return getattr(arguments, "dry_run", False)


def _counts(everything: Sequence[Outcome]) -> dict[str, int]:
    codes = [done.exit_code for done in everything]
    unsure, unchanged = codes.count(INCONCLUSIVE), sum(done.unchanged for done in everything)
    good = codes.count(DONE) + unsure - unchanged
    counts = {"models": len(codes), "written": good, "inconclusive": unsure}
    return {**counts, "unchanged": unchanged, "failed": len(codes) - good - unchanged}


def _report(arguments: argparse.Namespace, counts: Mapping[str, int], everything: Sequence[Outcome]) -> str:
    """Return the report as JSON, or as a page where its name says so."""
    if _report_form(arguments) != "page":
        return json_text({"summary": dict(counts), "models": list(map(_entry, everything))})
    from castsmith.cli.page.data import html_text, many_page

    head, rows = table_of(arguments.command, everything)
    models = [(row, done.messages, done.page) for row, done in rows]
    return html_text(
        many_page(f"castsmith {arguments.command}", summary_line(arguments.command, counts, everything), head, models)
    )


def _entry(done: Outcome) -> dict[str, Any]:
    """Return the entry of one model in the report."""
    files = {"input": done.task.source, "output": done.task.output}
    error = {"error": None} if done.failure is None else done.failure.data()
    report = None if done.report is None else {"schema": 1, **done.report}
    ended = {"exit_code": done.exit_code, "messages": done.messages, **error}
    return {**files, **ended, "unchanged": done.unchanged, "report": report}


def _line(done: Outcome) -> str:
    """Return what the command prints with --json for this model alone, on one line."""
    data: dict[str, Any] = {"input": done.task.source, "output": done.task.output, "unchanged": True}
    if not done.unchanged:
        failure = done.failure and replace(done.failure, file=done.failure.file or done.task.source).data()
        data = done.report or failure or {}
    return json.dumps({"schema": 1, **data})


def _tell(arguments: argparse.Namespace, done: Outcome) -> None:
    """Print what one model says: its messages, each with its file, and what --diff and --explain show."""
    for message in done.messages:
        text = message.removeprefix("castsmith: ")
        start = "castsmith: " if message != text else ""
        source = done.task.source
        print_line(message if source in text else f"{start}{source}: {text}", sys.stderr)
    if arguments.json:
        print_data(_line(done))
    elif getattr(arguments, "diff", None) or getattr(arguments, "explain", False):
        print_text(done.text)
    sys.stdout.flush()


def _everywhere(arguments: argparse.Namespace, tasks: Sequence[Task]) -> Generator[Outcome]:
    from castsmith.cli.batch.dask import on_dask

    if getattr(arguments, "dask", None) is None:
        return pool.on_this_machine(arguments.jobs, tasks)
    return on_dask(arguments.dask, [_seen_from_afar(task) for task in tasks])


def _seen_from_afar(task: Task) -> Task:
    """Return the task with paths that do not depend on the worker's current folder; links in them stay."""
    values = dict(task.values)
    for name in _FILES:
        if isinstance(values.get(name), str) and (name == "output" or Path(values[name]).exists()):
            values[name] = str(Path(values[name]).absolute())
    return task._replace(values={**values, "input": [str(Path(file).absolute()) for file in values["input"]]})


# Planning.


def _writing(arguments: argparse.Namespace, folder: Path) -> Iterator[Task]:
    """Yield a task for each model, with its place in the folder of results."""
    for source, below in dict.fromkeys(models_of(arguments.input, outside=folder)):
        yield task_of(arguments, source, str(folder / below), input=[source])


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options on which the result of a model depends."""
    values = {**vars(arguments), **_OF_ALL}
    aside = ("parser", "outcome", "given", "settings", "input", "output", "config", "no_config", "dry_run", "no_color")
    return sorted(f"{name}={value!r}" for name, value in values.items() if name not in aside)


def _report_form(arguments: argparse.Namespace) -> Wanted:
    if getattr(arguments, "report", None) is None:
        return "report" if arguments.json else "figures"
    return "page" if is_html(Path(arguments.report)) else "report"


def task_of(arguments: argparse.Namespace, source: str, output: str = "", **names: object) -> Task:
    """Return the task of one model; `names` are the arguments that name it."""
    values = {name: value for name, value in vars(arguments).items() if name not in ("parser", "outcome")}
    if output:
        names["output"] = output
    return Task(source, output, {**values, **_OF_ALL, **names}, _report_form(arguments))


def _require_no_stream(arguments: argparse.Namespace, words: Sequence[str | None]) -> None:
    if STREAM in words or getattr(arguments, "inputs", None) == STREAM:
        raise OptionError("- means standard input or output, which several models cannot share: name files.")


def _require_places(arguments: argparse.Namespace, tasks: Sequence[Task]) -> None:
    """Raise OptionError if a file would be written twice, or over another input."""
    sources = {place(Path(task.source)): task.source for task in tasks}
    by_place: dict[str, str] = {}
    for task in tasks:
        for output in (Path(task.output), *([_data_of(arguments, task)] if arguments.external_data else [])):
            output_place = place(output)
            if output_place in by_place:
                raise OptionError(
                    f"{by_place[output_place]} and {task.source} would both be written to {output}: rename one."
                )
            if sources.get(output_place, task.source) != task.source:
                raise OptionError(
                    f"{task.source} would be written to {output}, over the input {sources[output_place]}: rename one."
                )
            by_place[output_place] = task.source
    require_apart(settings_files(arguments), {"OUT": [Path(task.output) for task in tasks]})
    files = ((task.source, task.output, str(_data_of(arguments, task))) for task in tasks)
    report_path(arguments, chain.from_iterable(files))


def _data_of(arguments: argparse.Namespace, task: Task) -> Path:
    output = Path(task.output)
    return output.parent / (arguments.external_data or f"{output.name}.data")
