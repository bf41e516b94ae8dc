"""Models whose result is already there: --skip-unchanged, by the content of the input, the options and the version.

The folder of results holds one line of JSON for each model that was written, so that a run that ended early goes on
where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import castsmith
from castsmith.cli.outcome import Task
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import load
from castsmith.ir.walks import files_read

STATE = ".castsmith.jsonl"
"""The file in the folder of results."""


class Record:
    """What this run and earlier ones wrote into a folder of results, with what options, from what.

    Args:
        folder: The folder.
        options: The command and its options.
        settings: The files and folders that the options name.
    """

    def __init__(self, folder: Path, options: Iterable[str], settings: Iterable[Path]) -> None:
        self._folder, self._entries = folder, _entries(folder / STATE)
        groups = [sorted(path.iterdir()) if path.is_dir() else [path] for path in settings]
        contents = [_digest(file) for files in groups for file in files if file.is_file()]
        self._options = hashlib.sha256(json.dumps([castsmith.__version__, *options, contents]).encode()).hexdigest()
        self._sources = dict[str, str | None]()

    def is_unchanged(self, task: Task) -> bool:
        """True if the input, the options and the result are those of an entry."""
        source, output = Path(task.source), Path(task.output)
        self._sources[task.source] = now = _digest_of_model(source)
        entry = self._entries.get(self._name(task))
        if entry is None or now is None or entry.get("options") != self._options:
            return False
        expected = entry["result" if source.resolve() == output.resolve() else "source"]
        return now == expected and _digest_of_model(output) == entry["result"]

    def note(self, task: Task) -> None:
        """Note a model that was written; `is_unchanged` was asked before."""
        digests = {"source": self._sources[task.source], "result": _digest_of_model(Path(task.output))}
        with (self._folder / STATE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"output": self._name(task), "options": self._options, **digests}) + "\n")

    def _name(self, task: Task) -> str:
        return Path(task.output).relative_to(self._folder).as_posix()


def _entries(file: Path) -> dict[str, dict[str, Any]]:
    """Return the last entry of each output; lines that are none, such as a last one cut short, are passed over."""
    entries: dict[str, dict[str, Any]] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return entries
    for line in lines:
        try:
            entry = json.loads(line)
            entries[entry["output"]] = {key: entry[key] for key in ("options", "source", "result")}
        except (ValueError, TypeError, KeyError):
            continue
    return entries


def _digest_of_model(model: Path) -> str | None:
    """Return a digest of the model and of its data files; None if they cannot be read, which its run reports."""
    try:
        data = sorted(files_read(load(model)))
        contents = [(os.path.relpath(file, model.parent), _digest(file)) for file in data]
        return hashlib.sha256(json.dumps([_digest(model), contents]).encode()).hexdigest()
    except (ModelError, OSError):
        return None


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
