"""Compare `check` with the runtimes themselves, on real files, on models with one change, and on backend tests.

    nice python -m tests.soak.agreement onnxruntime-cpu [openvino-cpu] [checker] [--corpus FOLDER] [--mutants 2000]
        [--seed 0]

`check --target T` agrees with T if it has an error exactly when T refuses the file: ONNX Runtime opens a session with
default options, OpenVINO compiles for the CPU. A bare `check` is compared with the full check of `onnx.checker`. Each
engine runs in a process of its own with limited memory and time, because a model may crash it. The verdicts of engines
are kept on disk, by the content of the model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from random import Random
from typing import TextIO

import onnx

from castsmith.cli.catalogue import code_named
from castsmith.ir.codes import Outcome
from castsmith.numerics.errors import CastsmithError
from tests.graphs.single_changes import CHANGES
from tests.soak.sweep.sources import backend, goldens

_CACHE = Path(tempfile.gettempdir()) / "castsmith-agreement"
_SMALL = 60_000
"""Bytes of a model that is changed, at most."""
_SECONDS = 30
_MEMORY = 6 << 30


def load_in_onnxruntime(path: str) -> None:
    """Open a session with default options. Raises what ONNX Runtime raises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def load_in_openvino(path: str) -> None:
    """Compile the model for the CPU. Raises what OpenVINO raises."""
    import openvino

    openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": "1"})


def check_fully(path: str) -> None:
    """Check the model as the standard does. Raises what onnx raises."""
    onnx.checker.check_model(path, full_check=True)


ENGINES: dict[str, Callable[[str], None]] = {
    "onnxruntime-cpu": load_in_onnxruntime,
    "openvino-cpu": load_in_openvino,
    "checker": check_fully,
}


def errors_of_check(path: str, target: str | None) -> str | None:
    """Return the code and message of the first error; None without one."""
    from castsmith import check
    from castsmith.ir.records import Severity

    try:
        found = check(path, target=target)
    except CastsmithError as error:
        return f"unreadable: {error}"
    except Exception as error:  # a defect, which must not pass for a refusal
        return f"Traceback: {error!r}"
    errors = (each for each in found if each.severity is Severity.ERROR and _refuses(each.code))
    return next((f"{each.code}: {each.message}" for each in errors), None)


def _refuses(code: str) -> bool:
    """True for an error with which a model does not load; False for one that only gives other values."""
    return Outcome.REFUSED in getattr(code_named(code), "outcomes", ())


# An engine in a process of its own.


@dataclass
class Engine:
    """An engine, and the verdicts that it gave: an empty text for a model that it accepts, else its error."""

    name: str
    judge: Callable[[str], str | None]
    cached: bool = True
    verdicts: dict[str, str] = field(default_factory=dict[str, str])
    process: ForkProcess | None = None
    connection: Connection | None = None

    def __post_init__(self) -> None:
        _CACHE.mkdir(exist_ok=True)
        if self.cached and self._file.exists():
            for line in self._file.read_text().splitlines():
                key, verdict = json.loads(line)
                self.verdicts[key] = verdict

    @property
    def _file(self) -> Path:
        return _CACHE / f"{self.name}.jsonl"

    def verdict(self, path: Path, key: str) -> str:
        if key not in self.verdicts:
            self.verdicts[key] = self.ask(path)
            if self.cached:
                with self._file.open("a") as file:
                    file.write(json.dumps([key, self.verdicts[key]]) + "\n")
        return self.verdicts[key]

    def ask(self, path: Path) -> str:
        if self.connection is None:
            context = multiprocessing.get_context("fork")
            self.connection, answering = context.Pipe()
            self.process = context.Process(target=_answer, args=(answering, self.judge), daemon=True)
            self.process.start()
            answering.close()
        try:
            self.connection.send(str(path))
            return self.connection.recv() if self.connection.poll(2 * _SECONDS) else self._ended("no answer")
        except (EOFError, OSError):
            return self._ended("crash")

    def _ended(self, why: str) -> str:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.connection = self.process = None
        return why


def _answer(connection: Connection, judge: Callable[[str], str | None]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        try:
            path = connection.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        try:
            connection.send(judge(path) or "")
        except Exception as error:  # what the engine raises
            connection.send((" ".join(str(error).split()) or type(error).__name__)[:1500])
        signal.setitimer(signal.ITIMER_PROF, 0)


def raises(load: Callable[[str], None]) -> Callable[[str], str | None]:
    def judge(path: str) -> None:
        load(path)

    return judge


# Models.


def models(corpus: Path | None, seeds: range, step: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the models with the name of their kind and source; a mutant for each seed."""
    files = [] if corpus is None else sorted(corpus.rglob("*.onnx"))
    yield from ((f"corpus {path.relative_to(corpus or '')}", path) for path in files)
    cases = [*backend()]
    for source in cases[::step]:
        (place := folder / "backend" / source.name).mkdir(parents=True, exist_ok=True)
        yield f"backend {source.name}", source.file(place)
    originals = [path for path in files if 0 < path.stat().st_size < _SMALL]
    for source in (*goldens(), *cases[::7]):
        (place := folder / "original" / source.name).mkdir(parents=True, exist_ok=True)
        originals.append(source.file(place))
    (folder / "mutants").mkdir(exist_ok=True)
    for seed in seeds:
        draw = Random(seed)
        path = draw.choice(originals)
        try:
            model = onnx.load_model(path, load_external_data=False)
            change = draw.choice(CHANGES)
            change(model, draw)
            made = folder / "mutants" / f"{seed}.onnx"
            made.write_bytes(model.SerializeToString())
        except Exception:  # a source that is no model, or a change that protobuf does not write
            continue
        yield f"mutant {change.__name__} {seed} {path.name}", made


def _key(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.agreement", description="See the module.")
    parser.add_argument("engines", nargs="*", choices=[*ENGINES], default=["onnxruntime-cpu"])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first mutant")
    parser.add_argument("--step", type=int, default=1, help="take each backend test of so many")
    parser.add_argument("--only", default="", help="a regular expression on the names of models")
    parser.add_argument("--report", type=Path, help="write each disagreement to this file")
    arguments = parser.parse_args(words)
    folder = _CACHE / "models"
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(arguments.seed, arguments.seed + arguments.mutants)
    chosen = [
        pair for pair in models(arguments.corpus, seeds, arguments.step, folder) if re.search(arguments.only, pair[0])
    ]
    with (arguments.report or Path(os.devnull)).open("w", buffering=1) as report:
        shares = {name: _agreement(name, chosen, report) for name in arguments.engines}
    return int(any(share < (0.99 if name == "onnxruntime-cpu" else 0.98) for name, share in shares.items()))


def _agreement(name: str, chosen: Iterable[tuple[str, Path]], report: TextIO) -> float:
    """Return the share of the models on which `check` and the engine agree; write the others to the report."""
    target = None if name == "checker" else name
    engine = Engine(name, raises(ENGINES[name]))
    checker = Engine(f"check {name}", lambda path: errors_of_check(path, target), cached=False)
    agreed, total = Counter[str](), Counter[str]()
    for model, path in chosen:
        key, kind = _key(path), model.split()[0]
        theirs, ours = engine.verdict(path, key), checker.verdict(path, key)
        total[kind] += 1
        failed = ours in ("crash", "no answer") or ours.startswith("Traceback")
        agrees = bool(theirs) == bool(ours) and not failed
        agreed[kind] += agrees
        if not agrees:
            verdict = "FAILED" if failed else "MISSED" if theirs else "FALSE"
            print(name, verdict, model, path, ours if failed else theirs or ours, sep="\t", file=report)
    for kind in total:
        print(f"{name}: {kind}: {agreed[kind]} of {total[kind]} agree, {agreed[kind] / total[kind]:.2%}", flush=True)
    share = agreed.total() / max(total.total(), 1)
    print(f"{name}: {share:.2%} of {total.total()}", flush=True)
    return share


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
