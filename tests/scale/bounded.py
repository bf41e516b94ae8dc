"""Commands run on files in processes of limited memory and time, and how each ended.

python -m tests.scale.bounded COMMAND[,COMMAND...] FILE... prints a line for each: the file, the command, the exit code
(negative: the signal that ended it), seconds of the processor, MiB of memory at most, and what was said on stderr.
After `--` there may be other commands and files.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path

from castsmith.cli.main import main

COMMANDS = {
    "optimize": ("optimize", "IN", "-o", "OUT"),
    "optimize for tensorrt-10": ("optimize", "IN", "-o", "OUT", "--target", "tensorrt-10"),
    "lower": ("optimize", "IN", "-o", "OUT", "--target", "onnxruntime-android", "--narrow", "int64", "--diff=full"),
    "check": ("check", "IN", "--target", "onnxruntime-android"),
    "convert": ("convert", "IN", "--to", "float16", "-o", "OUT"),
    "convert for onnxruntime-cuda": ("convert", "IN", "--to", "float16", "-o", "OUT", "--target", "onnxruntime-cuda"),
    "fit": ("fit", "IN", "-o", "OUT", "--target", "onnxruntime-webgpu", "--max-error", "0.01"),
    "bounds": ("bounds", "IN", "--to", "float16"),
    "show": ("show", "IN"),
    "diff": ("diff", "IN", "IN"),
    "batch": ("optimize", "IN", "GOOD", "-o", "FOLDER", "-j", "1"),
    "verify": ("verify", "IN", "IN", "--time-limit", "10"),
}
GOOD = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
"""A model of which nothing is wrong, beside the file in a batch."""
_NEEDED = (
    *(f"castsmith.cli.commands.{command}" for command in ("check", "diff", "fit", "optimize", "verify")),
    *("castsmith.lowering.pipeline", "castsmith.passes.place.run", "onnx.reference", "onnxruntime"),
)
"""Modules that are imported once, before the processes are made."""
_WITHOUT_THREADS = {"optimize", "lower", "check", "diff"}
"""Commands that a process may carry out on a small model before it forks, so that what they import is there."""


@dataclass(frozen=True)
class Bounds:
    """The seconds of the processor and the bytes that a command may take."""

    seconds: int = 30
    memory: int = 2 << 30


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    file: str
    command: str
    code: int
    seconds: float
    mebibytes: int
    said: str


def run_bounded(files: Sequence[Path], commands: Sequence[str], bounds: Bounds = Bounds()) -> Iterator[Ended]:
    """Run each command on each file, in a process of its own within the bounds."""
    for module in _NEEDED:
        import_module(module)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        good = Path(folder, "good.onnxtxt")
        good.write_text(GOOD)
        for command in set(commands) & _WITHOUT_THREADS:
            main(
                [{"IN": str(good), "OUT": str(Path(folder, "out.onnx"))}.get(word, word) for word in COMMANDS[command]]
            )
    for file in files:
        for command in commands:
            with tempfile.TemporaryDirectory() as folder:
                names = {"IN": file, "OUT": Path(folder, "out.onnx"), "GOOD": Path(folder, "good.onnxtxt")}
                names["GOOD"].write_text(GOOD)
                names["FOLDER"] = Path(folder, "out")
                yield _run(file, command, bounds, [str(names.get(word, word)) for word in COMMANDS[command]])


def _run(file: Path, command: str, bounds: Bounds, words: list[str]) -> Ended:
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        _limit(bounds)
        code = 70
        try:
            code = main(words)
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status, used = os.wait4(process, 0)
    seconds = used.ru_utime + used.ru_stime
    return Ended(
        file.name, command, os.waitstatus_to_exitcode(status), round(seconds, 2), used.ru_maxrss >> 10, said[-4000:]
    )


def _limit(bounds: Bounds) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + bounds.memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (bounds.seconds, bounds.seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    for separator, run in itertools.groupby(sys.argv[1:], "--".__eq__):
        if not separator:
            chosen, *names = run
            for ended in run_bounded([Path(name) for name in names], chosen.split(",")):
                print(json.dumps(asdict(ended)), flush=True)
