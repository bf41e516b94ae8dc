"""An engine in another process: asked for each vector, and started again after a crash."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from castsmith.conformance.engines.worker import LIBRARIES, MODELS
from castsmith.conformance.exporting import model_bytes, raw_bytes
from castsmith.conformance.judging import Outcome, judge
from castsmith.conformance.vectors import Vector
from castsmith.ir.errors import ModelError
from castsmith.numerics.types import type_name
from castsmith.verification.evaluate.process import CrashError, EngineError, Process

_SETTING = re.compile(r"_no_saturate|_opset[0-9]+$")
_START, _LONGEST = 300.0, 120.0
"""Seconds of the processor to import an engine, and for one vector; only a process that hangs reaches them."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


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
    worker = Path(__file__).with_name("worker.py")
    with closing(Process(worker, (python or sys.executable, "-I"), _ONE_THREAD)) as process:
        try:
            version = process.ask(engine, seconds=_START)
        except EngineError as error:
            raise ModelError(f"the engine {engine} does not start: {str(error).rstrip('.')}.") from None
        outcomes = [_outcome(process, engine, vector) for vector in vectors]
    return Run(engine, version, _one_setting_each(outcomes) if engine in LIBRARIES else outcomes)


def _outcome(process: Process, engine: str, vector: Vector) -> Outcome:
    """Return what the engine makes of the vector."""
    try:
        content, broken = process.ask(engine, _job(engine, vector), seconds=_LONGEST)
    except CrashError as error:
        return Outcome(vector.name, "crashes", reason=str(error))
    except EngineError as error:
        return Outcome(vector.name, "refuses", reason=str(error))
    if broken:
        process.close()
        return Outcome(vector.name, "refuses", reason=broken)
    return judge(vector, content)


def _job(engine: str, vector: Vector) -> dict[str, object]:
    inputs = [
        {"type": type_name(value.dtype), "shape": value.elements.shape, "content": raw_bytes(value.elements)}
        for value in vector.inputs
    ]
    output = {"type": type_name(vector.output_type), "shape": vector.output.shape}
    model = vector.model
    if engine in MODELS and not model:
        model = model_bytes(vector, vector.inputs, vector.output, constant=MODELS[engine] == "constant")
    attributes = dict(vector.attributes)
    return {"op": vector.op, "attributes": attributes, "inputs": inputs, "output": output, "model": model}


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
