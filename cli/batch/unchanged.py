"""Models whose result is already there: --skip-unchanged, by the content of the input, the options and the version.

The folder of results holds one line of JSON for each model that was written, so that a run that ended early goes on
where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx_ir

import castsmith
from castsmith.cli.batch.worker import Task
from castsmith.cli.output import write_file
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import load
from castsmith.ir.walks import files_read

STATE = ".castsmith.jsonl"
"""The file in the folder of results."""

Known = dict[str, dict[str, Any]]
"""The entries by output, relative to the folder of results."""


def read(folder: Path) -> Known:
    """Return what an earlier run noted; lines that are not entries, such as a last one cut short, are passed over."""
    states: Known = {}
    try:
        lines = (folder / STATE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return states
    for line in lines:
        try:
            entry = json.loads(line)
            states[entry["output"]] = entry
        except (ValueError, TypeError, KeyError):
            continue
    return states


def tidy(folder: Path, states: Known) -> None:
    """Write the entries that count, one a line, in place of all that were added."""
    write_file(folder / STATE, "".join(f"{json.dumps(entry)}\n" for entry in states.values()))


def add(folder: Path, entry: Mapping[str, Any]) -> None:
    """Note one model that was written."""
    with (folder / STATE).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(entry)}\n")


class Digests:
    """Digests of files, each read once: one of these is made for each model, when its turn comes."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        """Return the digest of the file. Raises OSError."""
        if path not in self._known:
            with path.open("rb") as file:
                self._known[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[path]

    def of_model(self, model: Path) -> dict[str, Any]:
        """Return digests of the model and of the data files that it names, by path relative to the model.

        A model that cannot be read has no entry: its error is reported where it is optimized.
        """
        try:
            loaded: onnx_ir.Model = load(model)
            files = sorted(files_read(loaded))
            names = {
                str(file.relative_to(model.parent) if file.is_relative_to(model.parent) else file): file
                for file in files
            }
            return {"model": self.of(model), "data": {name: self.of(file) for name, file in names.items()}}
        except (ModelError, OSError):
            return {"model": None, "data": {}}


def is_unchanged(folder: Path, task: Task, states: Known, key: str, digests: Digests) -> bool:
    """True if the input, the options and the result are those of the entry."""
    entry = states.get(_name(folder, task))
    if entry is None or entry.get("key") != key:
        return False
    source, output = Path(task.source), Path(task.output)
    try:
        read_files = {name: digests.of(source.parent / name) for name in entry["data"]}
        written_files = {name: digests.of(output.parent / name) for name in entry["written_data"]}
        of_source, of_output = digests.of(source), digests.of(output)
    except (OSError, TypeError):
        return False
    in_place = of_source == entry["result"] and source.resolve() == output.resolve()
    same = (of_source == entry["model"] or in_place) and of_output == entry["result"]
    return same and written_files == entry["written_data"] and (in_place or read_files == entry["data"])


def entry_of(folder: Path, task: Task, key: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a model that has just been written; `before` is what `of_model` said of its input."""
    after = Digests().of_model(Path(task.output))
    result = {"result": after["model"], "written_data": after["data"]}
    return {"output": _name(folder, task), "key": key, **before, **result}


def key_of(words: Iterable[str], settings: Iterable[Path]) -> str:
    """Return a digest of the options, of the files and folders that they name, and of the version."""
    digest = hashlib.sha256(json.dumps([castsmith.__version__, list(words)]).encode())
    digests = Digests()
    for path in settings:
        files = sorted(path.iterdir()) if path.is_dir() else [path]  # of the sets of inputs in a folder
        digest.update(json.dumps([(file.name, digests.of(file)) for file in files if file.is_file()]).encode())
    return digest.hexdigest()


def _name(folder: Path, task: Task) -> str:
    return Path(task.output).relative_to(folder).as_posix()
