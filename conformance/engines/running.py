"""The process of an engine: started, fed with vectors, watched, and started again after a crash."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from castsmith.conformance.engines.worker import LIBRARIES, MODELS
from castsmith.conformance.exporting import model_bytes, raw_bytes
from castsmith.conformance.judging import Outcome, judge
from castsmith.conformance.vectors import Vector
from castsmith.ir.errors import ModelError
from castsmith.numerics.types import type_name

_SETTING = re.compile(r"_no_saturate|_opset[0-9]+$")
_AT_ONCE = 200
"""Vectors whose files are on disk at a time."""
_START, _LONGEST = 300.0, 120.0
"""Seconds until an engine is imported, and for one vector; only a process that hangs reaches them."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcomes of an engine for some vectors, in their order, and its version."""

    engine: str
    version: str
    outcomes: list[Outcome]


def run(engine: str, vectors: Iterable[Vector], python: str | None = None) -> Run:
    """Convert the vectors with an engine in another process and judge what it gives.

    Of two vectors that differ in `saturate` alone, a library without that attribute is held to the one that it fits
    better, and counted as refusing the other.

    Args:
        engine: The name of an engine: a key of `ENGINES`.
        vectors: The vectors.
        python: The interpreter in whose environment the engine is installed; this one if None.

    Raises:
        ModelError: The engine cannot be started.
    """
    outcomes: list[Outcome] = []
    version, rest = "", iter(vectors)
    while some := list(islice(rest, _AT_ONCE)):
        with tempfile.TemporaryDirectory(prefix="castsmith-conformance-") as folder:
            outcomes += _Batch(engine, python or sys.executable, Path(folder), some).outcomes()
            version = Path(folder, "version").read_text(encoding="utf-8")
    return Run(engine, version, _one_setting_each(outcomes) if engine in LIBRARIES else outcomes)


def _one_setting_each(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes; of those for both settings of `saturate`, the one with more errors becomes a refusal."""
    fewest: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.status in ("right", "wrong"):
            pair = _pair(outcome.name)
            fewest[pair] = min(outcome.wrong, fewest.get(pair, outcome.wrong))
    reason = "the library casts with the other setting of saturate"
    return [
        Outcome(outcome.name, "refuses", reason=reason)
        if outcome.status == "wrong" and outcome.wrong > fewest[_pair(outcome.name)]
        else outcome
        for outcome in outcomes
    ]


def _pair(name: str) -> str:
    """Return what the vectors of both settings, at any opset, have in common."""
    return _SETTING.sub("", name)


class _Batch:
    """Some vectors and their files."""

    def __init__(self, engine: str, python: str, folder: Path, vectors: Sequence[Vector]) -> None:
        self._engine, self._python, self._folder, self._vectors = engine, python, folder, vectors
        self._ends: dict[int, str] = {}

    def outcomes(self) -> Iterator[Outcome]:
        """Yield what the engine makes of each vector, in their order."""
        jobs = [self._job(number, vector) for number, vector in enumerate(self._vectors)]
        start = 0
        while start < len(jobs):
            start = self._process(jobs, start)
        for number, vector in enumerate(self._vectors):
            yield self._outcome(number, vector)

    def _outcome(self, number: int, vector: Vector) -> Outcome:
        refused, result = self._folder / f"{number}.refused", self._folder / str(number)
        if refused.exists():
            return Outcome(vector.name, "refuses", reason=refused.read_text(encoding="utf-8", errors="replace"))
        if number in self._ends or not result.exists():
            return Outcome(vector.name, "crashes", reason=self._ends.get(number, "the process ended"))
        return judge(vector, result.read_bytes())

    def _job(self, number: int, vector: Vector) -> dict[str, Any]:
        inputs: list[dict[str, Any]] = []
        for index, operand in enumerate(vector.inputs):
            path = self._folder / f"{number}.input{index}"
            path.write_bytes(raw_bytes(operand.elements))
            shape = list(operand.elements.shape)
            inputs.append({"name": operand.name, "type": type_name(operand.dtype), "shape": shape, "path": str(path)})
        output = {"type": type_name(vector.output_type), "shape": list(vector.output.shape)}
        return {
            "number": number,
            "op": vector.op,
            "attributes": dict(vector.attributes),
            "inputs": inputs,
            "output": output,
            "model": self._model(number, vector),
        }

    def _model(self, number: int, vector: Vector) -> str:
        """Write the model as the engine takes it, and return its path; empty for an engine that runs no models."""
        constant = MODELS.get(self._engine)
        if constant is None:
            return ""
        path = self._folder / f"{number}.onnx"
        alone = model_bytes(vector, vector.inputs, vector.output, constant=constant == "constant")
        path.write_bytes(vector.model or alone)
        return str(path)

    def _process(self, jobs: Sequence[dict[str, Any]], start: int) -> int:
        """Run the jobs from `start` on in one process; return the number of the first that is left."""
        listed = self._folder / "jobs"
        listed.write_text("\n".join(map(json.dumps, jobs[start:])), encoding="utf-8")
        worker = Path(__file__).with_name("worker.py")
        command = [self._python, "-I", str(worker), self._engine, str(listed), str(self._folder)]
        errors = self._folder / "stderr"
        with errors.open("wb") as stderr, _started(command, self._folder, stderr) as process:
            current = self._follow(process)
        if current == "done":
            return len(jobs)
        if current in ("", "ready") and start == 0:
            text = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ModelError(f"the engine {self._engine} does not start: {text[-1] if text else 'it gives no reason'}.")
        reached = int(current) if current.isdecimal() else start
        self._ends[reached] = "the process ended" if process.returncode >= 0 else f"signal {-process.returncode}"
        return reached + 1

    def _follow(self, process: subprocess.Popen[str]) -> str:
        """Return the last line that the process printed; a process that prints nothing for too long is killed."""
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_pass_on, args=(process, lines), daemon=True).start()
        last, wait = "", _START
        while True:
            try:
                line = lines.get(timeout=wait)
            except queue.Empty:
                process.kill()
                return last
            if line is None:
                return last
            last, wait = line.strip(), _LONGEST


def _started(command: Sequence[str], folder: Path, stderr: Any) -> subprocess.Popen[str]:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=settings,
        )
    except OSError as error:
        raise ModelError(f"{command[0]} cannot be started: {error.strerror}.") from None


def _pass_on(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Hand over each line of the process, and None at its end."""
    for line in process.stdout or ():
        lines.put(line)
    lines.put(None)
