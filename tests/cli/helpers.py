"""Small models as ONNX text, and the command run in this process."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile

import onnx
import onnx.parser
import pytest

from castsmith.cli.batch import worker
from castsmith.cli.main import _arguments, main, whole_parser  # pyright: ignore[reportPrivateUsage]
from castsmith.cli.outcome import Outcome, Task
from castsmith.cli.parser import subcommands
from castsmith.cli.text.terminal import Line

MIXED = """<ir_version: 10, opset_import: ["" : 18]>
mixed (float[N] x, int16[N] y) => (float[N] z) {
    z = Add (x, y)
}"""

UNSAFE = MIXED.replace("int16", "int64")

CLEAN = """<ir_version: 10, opset_import: ["" : 18]>
clean (float[N] x) => (float[N] z) {
    z = Relu (x)
}"""

CHAIN = """<ir_version: 10, opset_import: ["" : 18]>
chain (float16[N] x) => (float16[N] z) {
    a = Cast <to = 11> (x)
    b = Cast <to = 10> (a)
    z = Relu (b)
}"""


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    code: int
    out: str
    err: str


class Command:
    """Runs `castsmith` in this process and takes what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path) -> Ended:
        self._capsys.readouterr()
        code = main([str(word) for word in words])
        printed = self._capsys.readouterr()
        return Ended(code, printed.out, printed.err)


@cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by the words that name it, such as `dev trunc`."""
    top = subcommands(whole_parser())
    inner = {f"dev {name}": parser for name, parser in subcommands(top.pop("dev")).items()}
    return {**top, **inner}


def write_model(path: Path, text: str) -> Path:
    """Write the model that the ONNX text says."""
    onnx.save_model(onnx.parser.parse_model(text), path)
    return path


def marked(line: Line) -> str:
    """Return the line with the style before each part, and the indentation of its continuation at the end."""
    text = "".join(
        f"<{style}>{text}" if style else f"<>{text}" if index else text
        for index, (style, text) in enumerate(line.parts)
    )
    return f"{text}|{line.hang}" if line.hang else text


def is_one_sentence(text: str) -> bool:
    """True if the text is one line in the form of every error."""
    return (
        text.startswith("castsmith: ")
        and text.endswith((".\n", "?\n"))
        and text.count("\n") == 1
        and "Traceback" not in text
    )


def batch_in_this_process(_: int | None, tasks: Sequence[Task]) -> Iterator[Outcome]:
    """Do the work of the processes of a batch here."""
    yield from map(_done, tasks)


def _done(task: Task) -> Outcome:
    with TemporaryFile() as errors:
        text = TextIOWrapper(errors, write_through=True)
        with redirect_stderr(text):
            done = worker.outcome_of(task, errors)  # pyright: ignore[reportArgumentType]
        text.detach()
    return pickle.loads(pickle.dumps(done))


def task_for(*words: str) -> Task:
    """Return the task of the command with these words."""
    arguments = _arguments(list(words))
    values = {name: value for name, value in vars(arguments).items() if name != "parser"}
    return Task(arguments.input[0], "", values)
