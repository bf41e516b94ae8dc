"""Judge models in processes of their own, each with a memory limit and a timeout."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from tests.soak.sweep.judge import ORIGINAL, Judgement, judge
from tests.soak.sweep.sources import Source

_BATCH = 64
"""Models that share a process, at most: what a crash leaves is judged in the next."""


@dataclass
class Judged:
    """A model with what was found for each target, or what became of its process."""

    name: str
    judgements: list[Judgement] = field(default_factory=list[Judgement])
    crash: str = ""
    seconds: float = 0.0


@dataclass
class _Running:
    process: ForkProcess
    receiver: Connection
    judged: Judged
    left: list[Source]
    stage: str = "start"
    started: float = 0.0
    closed: bool = False


def run_all(
    models: Sequence[Source], targets: Sequence[str | None], *, jobs: int, limits: tuple[int, float]
) -> Iterator[Judged]:
    """Each model judged, in the order in which they end. limits: bytes of memory, and seconds for one model."""
    size = max(1, min(_BATCH, len(models) // (16 * jobs)))
    waiting = [list(models[i : i + size]) for i in range(0, len(models), size)][::-1]
    running: list[_Running] = []
    done, last = 0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_start(waiting.pop(), targets, limits[0]))
        wait([each.receiver for each in running], timeout=1)
        for each in list(running):
            ended = _received(each)
            for judged in ended:
                done += 1
                yield judged
            if not each.judged.crash and not each.closed and time.monotonic() - each.started > limits[1]:
                each.process.kill()
                each.judged.crash = f"timeout after {limits[1]:.0f} s at: {each.stage}"
            if each.closed:
                each.process.join()
                each.receiver.close()
                running.remove(each)
                if each.left:
                    again = _without_runtime(each)
                    if again is not None:
                        waiting.append([again, *each.left[1:]])
                        continue
                    each.judged.crash = each.judged.crash or f"{_ended(each.process.exitcode or 0)} at: {each.stage}"
                    done += 1
                    yield each.judged
                    if each.left[1:]:
                        waiting.append(each.left[1:])
        if time.monotonic() - last > 30:
            last = time.monotonic()
            print(f"{done} of {len(models)}", file=sys.stderr, flush=True)


def _start(sources: list[Source], targets: Sequence[str | None], memory: int) -> _Running:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sources, list(targets), memory, sender))
    process.start()
    sender.close()
    return _Running(process, receiver, Judged(sources[0].name), list(sources), started=time.monotonic())


def _received(each: _Running) -> list[Judged]:
    """Take what the process has sent; the models that it has ended."""
    ended: list[Judged] = []
    try:
        while each.receiver.poll():
            kind, content = each.receiver.recv()
            if kind == "stage":
                each.stage = content
            elif kind == "judgement":
                each.judged.judgements.append(content)
            else:
                each.judged.seconds = content
                ended.append(each.judged)
                each.left.pop(0)
                each.started = time.monotonic()
                each.judged = Judged(each.left[0].name if each.left else "")
    except EOFError:
        each.closed = True
    return ended


def _without_runtime(each: _Running) -> Source | None:
    """The model to judge once more, without the runtime that crashed or hung on the original."""
    name = each.stage.removeprefix(ORIGINAL)
    if name == each.stage or name in each.left[0].without:
        return None
    return replace(each.left[0], without=(*each.left[0].without, name))


def _ended(code: int) -> str:
    return f"killed by signal {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def _work(sources: list[Source], targets: list[str | None], memory: int, sender: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)

    def send(kind: str, content: Any) -> None:
        sender.send((kind, content))

    for source in sources:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = source.file(Path(folder))
                for judgement in judge(str(path), targets, lambda text: send("stage", text), source.without):
                    send("judgement", judgement)
            except BaseException as error:
                send("stage", traceback.format_exc(limit=-2))
                raise error
        send("end", time.monotonic() - started)
