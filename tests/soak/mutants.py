"""Mutants of small models through every command, in processes of limited memory and time.

    nice python -m tests.soak.mutants 3000 [FIRST_SEED] [--models FOLDER] [--jobs N] [--seconds 60] [--memory 4]

Bytes and fields are changed at random, and `tests.graphs.oddities` makes the changes that mean something. The models
are golden cases, random graphs, those of the repository, and the small ones of a folder. Each fault is printed with its
seed: an internal error, a traceback, a crash of native code, an exit code that no page names, a file left after a
failure, time, memory, an invalid model made of a valid one.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.checker
import onnx.shape_inference

from tests.cli.files.mutants import CHANGES, MODELS, SMALL, faults, prepared
from tests.soak.sweep.sources import SOURCES, goldens

_WORD = 8
_NOT_MADE = (UnicodeEncodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError)
"""Errors of protobuf and onnx, which do not write each mutant."""


def sources(folder: Path, corpus: Path | None) -> list[Path]:
    """The models to change."""
    written: list[Path] = []
    for source in (*goldens(), *SOURCES["random"]("200", 0)):
        (place := folder / str(len(written))).mkdir()
        written.append(source.file(place))
    others = [*MODELS, *(sorted(corpus.rglob("*.onnx")) if corpus is not None else ())]
    return [*written, *(path for path in others if 0 < path.stat().st_size < SMALL)]


def faults_of(seed: int, models: list[Path]) -> Iterator[str]:
    """The faults of all commands on one mutant, named after it."""
    draw = random.Random(seed)
    source, change = draw.choice(models), draw.choice(CHANGES)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(*_NOT_MADE):
        for fault in faults(source, change, seed, prepared(Path(folder))):
            yield f"seed {seed}, {change.__name__}, {source.name}: {fault.replace(folder, '')}"


@dataclass(frozen=True)
class Limits:
    """Seconds of the processor for all commands on a mutant, and bytes of memory."""

    seconds: int
    memory: int

    def set(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass
class _Worker:
    """A process that takes every n-th seed, and is started again after a crash.

    Attributes:
        seeds: The seeds that are left.
        shared: The seed in work and the number of faults, written by the process.
    """

    seeds: range
    limits: Limits
    shared: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 2 * _WORD))
    process: int = 0

    def word(self, index: int) -> int:
        return int.from_bytes(self.shared[index * _WORD : (index + 1) * _WORD], sys.byteorder)

    def put(self, index: int, number: int) -> None:
        self.shared[index * _WORD : (index + 1) * _WORD] = number.to_bytes(_WORD, sys.byteorder)

    def start(self, models: list[Path]) -> None:
        self.process = os.fork()
        if not self.process:
            try:
                self._work(models)
            finally:
                os._exit(1)

    def _work(self, models: list[Path]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.limits.set()
        said = os.dup(1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        for seed in self.seeds:
            self.put(0, seed)
            signal.setitimer(signal.ITIMER_PROF, self.limits.seconds)
            for fault in faults_of(seed, models):
                self.put(1, self.word(1) + 1)
                os.write(said, f"{fault}\n".encode(errors="replace"))
        os._exit(0)

    def goes_on_after(self, status: int, models: list[Path]) -> bool:
        """Report how the process ended, and start it again unless it did all its work."""
        if status == 0:
            return False
        seed, code = self.word(0), os.waitstatus_to_exitcode(status)
        self.put(1, self.word(1) + 1)
        what = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        late = f", more than {self.limits.seconds} s of the processor" if code == -signal.SIGPROF else ""
        print(f"seed {seed}: the process ended with {what}{late}", flush=True)
        self.seeds = self.seeds[self.seeds.index(seed) + 1 :]
        self.start(models)
        return True


def swept(seeds: range, models: list[Path], *, jobs: int, limits: Limits) -> int:
    """Return the number of faults of all mutants, which are printed."""
    workers = [_Worker(seeds[at::jobs], limits) for at in range(jobs)]
    for worker in workers:
        worker.start(models)
    running = {worker.process: worker for worker in workers}
    try:
        while running:
            process, status = os.wait()
            worker = running.pop(process, None)
            if worker is not None and worker.goes_on_after(status, models):
                running[worker.process] = worker
    finally:  # also when it is interrupted
        for process in running:
            os.kill(process, signal.SIGKILL)
    return sum(worker.word(1) for worker in workers)


def _stop(*_: object) -> None:
    sys.exit("stopped.")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.mutants", description="See the module.")
    parser.add_argument("count", type=int, nargs="?", default=3000)
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="change small models of this folder too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=60, help="processor time of all commands on one mutant")
    parser.add_argument("--memory", type=float, default=4.0, help="GiB of address space")
    arguments = parser.parse_args(words)
    signal.signal(signal.SIGTERM, _stop)
    limits = Limits(arguments.seconds, int(arguments.memory * 2**30))
    with tempfile.TemporaryDirectory() as folder:
        models = sources(Path(folder), arguments.models)
        seeds = range(arguments.first, arguments.first + arguments.count)
        found = swept(seeds, models, jobs=arguments.jobs, limits=limits)
        print(f"{arguments.count} mutants of {len(models)} models: {found} faults")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
