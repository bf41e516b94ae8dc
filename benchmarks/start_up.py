"""The processor time of a start of `castsmith optimize`, step by step, and beside loading and saving with onnx.

    python -m benchmarks.start_up [--repeat N]

Each step is a process that also does all the steps before it; the processes of all steps take turns, N times, and a
step takes what the time of its process exceeds that of the step before, the median of all turns. They are measured
twice: as in any program, and as in the command, which collects no garbage, starts no threads of NumPy and defers
modules. The last step is the command itself, for a model of eight nodes. The second table has the ratios of whole
processes in one turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import onnx

from benchmarks.graph_speed import SHAPES
from benchmarks.pairing import in_turns, ratios, spread
from benchmarks.peers import TOOLS, run

_STEPS: Mapping[str, str] = {
    "Python": "",
    "the modules of the command line": "import argparse, dataclasses, logging, re, tempfile, traceback, typing",
    "numpy": "import numpy",
    "ml_dtypes": "import ml_dtypes",
    "protobuf": "import google.protobuf.descriptor_pool, google.protobuf.internal.builder",
    "onnx": "import onnx",
    "onnx_ir": "import onnx_ir",
    "reading and writing the model with onnx_ir": "onnx_ir.save(onnx_ir.load(sys.argv[1]), sys.argv[2])",
    "the first look-up of a schema": "onnx.defs.get_schema('Add')",
}
_QUICK = "from castsmith.cli.main import start_quickly; start_quickly()"
_ALONE, _COMMAND = "as in any program", "as in the command"
_CASTSMITH, _ONNX = "castsmith", "onnx, load and save only"


def _commands(source: Path, result: Path) -> dict[tuple[str, str], list[str]]:
    made: dict[tuple[str, str], list[str]] = {}
    for kind in (_ALONE, _COMMAND):
        code = ["import sys"]
        for step, line in _STEPS.items():
            code += [_QUICK] * (kind == _COMMAND and step == "numpy") + [line] * bool(line)
            made[kind, step] = ["-c", "\n".join(code), str(source), str(result)]
    return made | {(_COMMAND, tool): TOOLS[tool](str(source), str(result)) for tool in (_CASTSMITH, _ONNX)}


def _processor(command: Sequence[str]) -> float:
    return run([sys.executable, *command], 600).processor


def _milliseconds(times: Mapping[tuple[str, str], list[float]], kind: str) -> list[str]:
    """Return the time of each step, and of all."""
    runs = [times[kind, step] for step in _STEPS]
    if kind == _COMMAND:
        runs.append(times[kind, _CASTSMITH])
    pairs = zip([[0.0] * len(runs[0]), *runs], runs, strict=False)
    more = [[later - earlier for earlier, later in zip(*pair, strict=True)] for pair in pairs]
    return [f"{1000 * median(each):.0f}" for each in (*more, runs[-1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "start.onnx", Path(folder) / "result.onnx"
        onnx.save(SHAPES["start"](1), source)
        commands = _commands(source, result)
        times = in_turns({key: partial(_processor, command) for key, command in commands.items()}, repeat)
    alone, command = _milliseconds(times, _ALONE), _milliseconds(times, _COMMAND)
    names = [*_STEPS, "the rest of castsmith optimize", "all"]
    alone.insert(-1, "")
    print(f"| step | {_ALONE}, ms | {_COMMAND}, ms |\n|---|---|---|")
    for row in zip(names, alone, command, strict=True):
        print(f"| {' | '.join(row)} |")
    ours, theirs = times[_COMMAND, _CASTSMITH], times[_COMMAND, _ONNX]
    print("\n| castsmith optimize to onnx, load and save | castsmith, s | onnx, s |\n|---|---|---|")
    print(f"| {spread(ratios(ours, theirs))} | {min(ours):.2f} | {min(theirs):.2f} |")


if __name__ == "__main__":
    main()
