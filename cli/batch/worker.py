"""One model of a batch, optimized in a process of its own, here or on a worker of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from castsmith.cli.exit_codes import UNUSABLE, Failure, complain

Done = dict[str, Any]
"""Outcome of one model: its input and output, the exit code, the text on stderr, the error, and its report."""

Item = tuple[str, str, list[str]]
"""A model, its output path, and the options of the command."""


def optimize_in_process(
    source: str, output: str, options: list[str], running: set[subprocess.Popen[bytes]] | None = None
) -> Done:
    """Optimize one model in a process of its own, listed in `running` meanwhile, and return the outcome."""
    command, env = command_of(source, output, options), environment(os.environ)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env) as ended:
        processes = set[subprocess.Popen[bytes]]() if running is None else running
        processes.add(ended)
        try:
            printed = ended.communicate()
        finally:
            processes.discard(ended)
    out, err = (text.decode(errors="replace") for text in printed)
    if ended.returncode < 0:
        return failed(source, output, f"{source}: the process was ended by signal {-ended.returncode}.")
    said: dict[str, Any] | None = json.loads(out) if out else None
    error = None if said is None else said.get("error")
    messages = err.splitlines()
    report = said if error is None else None
    outcome = {"exit_code": ended.returncode, "messages": messages, "error": error, "report": report}
    return {"input": source, "output": output, **outcome}


def command_of(source: str, output: str, options: list[str]) -> list[str]:
    """Return the command that optimizes the model; -P keeps Python from importing from the current folder."""
    return [sys.executable, "-P", "-m", "castsmith", "optimize", "--json", *options, "-o", output, "--", source]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with a PYTHONPATH in which no empty entry means the current folder."""
    path = os.pathsep.join(filter(None, given.get("PYTHONPATH", "").split(os.pathsep)))
    rest = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    return {**rest, "PYTHONPATH": path} if path else rest


def failed(source: str, output: str, message: str) -> Done:
    """Return the outcome of a model whose process did not report one."""
    error = Failure("process", message, source, UNUSABLE).data()["error"]
    outcome = {"exit_code": UNUSABLE, "messages": [message], "error": error, "report": None}
    return {"input": source, "output": output, **outcome}


def usable(names: Iterable[str], load: Callable[[str], object]) -> tuple[list[str], bool]:
    """Return the names that `load` accepts, and True if all are accepted.

    An unusable extension is reported, and does not hide the others.
    """
    from castsmith.numerics.extensions import ExtensionError

    given, good = list(dict.fromkeys(names)), list[str]()
    for name in given:
        try:
            load(name)
            good.append(name)
        except ExtensionError as error:
            complain(str(error))
    return good, len(good) == len(given)
