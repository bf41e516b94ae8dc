"""The growth of the time of each command with the graph, in every shape that could take quadratic work.

    python -m tests.soak.growth [--nodes 1000 4000 16000] [--shape NAME] [--command NAME] [--most 1.2]

Each command reads a model of each size in a process of its own, of limited memory and time. Prints the seconds of
the processor, and the exponent by which they grow between the two largest sizes, less what the command takes for 64
nodes. The exit code is 1 if an exponent is greater than `--most` and the time not negligible, or if a command fails.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

import onnx

from benchmarks.growing import SHAPES
from tests.scale.bounded import COMMANDS, Bounds, Ended, run_bounded

_FEW = 64
_ENDS = (0, 1, 2, 3)
"""Exit codes of commands that did their work, or said why not."""
_NEGLIGIBLE = 0.5
"""Seconds that a run of the largest model may take whatever its exponent: too few to measure one."""


def exponent(times: list[float], sizes: list[int]) -> float:
    """Return p where the time grows as nodes ** p from the last but one size to the last. times: less the start."""
    small, large = (max(seconds, 0.02) for seconds in times[-2:])
    return math.log(large / small) / math.log(sizes[-1] / sizes[-2])


def measured(shape: str, command: str, sizes: list[int], bounds: Bounds, folder: Path) -> tuple[list[float], Ended]:
    """Return the seconds for each size, less those for few nodes, up to the first that fails, and the last outcome."""
    start = ended = _run(shape, command, _FEW, bounds, folder)
    times = list[float]()
    for nodes in sizes if ended.code in _ENDS else ():
        ended = _run(shape, command, nodes, bounds, folder)
        if ended.code not in _ENDS:
            break
        times.append(ended.seconds - start.seconds)
    return times, ended


def _run(shape: str, command: str, nodes: int, bounds: Bounds, folder: Path) -> Ended:
    path = folder / f"{nodes}.onnx"
    if not path.exists():
        onnx.save(SHAPES[shape](nodes), path)
    (ended,) = run_bounded([path], [command], bounds)
    return ended


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.growth", description="See the module.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 4000, 16000])
    parser.add_argument("--shape", action="append", choices=sorted(SHAPES))
    parser.add_argument("--command", action="append", choices=sorted(COMMANDS))
    parser.add_argument("--most", type=float, default=1.2, help="the greatest exponent that passes")
    parser.add_argument("--seconds", type=int, default=120, help="processor time of one run")
    parser.add_argument("--memory", type=float, default=4.0, help="GiB of one run")
    arguments = parser.parse_args(words)
    bounds = Bounds(arguments.seconds, int(arguments.memory * 2**30))
    wrong = 0
    for shape in arguments.shape or SHAPES:
        with tempfile.TemporaryDirectory() as name:
            for command in arguments.command or COMMANDS:
                times, ended = measured(shape, command, arguments.nodes, bounds, Path(name))
                failed = len(times) < len(arguments.nodes)
                power = exponent(times, arguments.nodes) if not failed else math.inf
                bad = failed or (power > arguments.most and times[-1] > _NEGLIGIBLE)
                wrong += bad
                said = (
                    f"ended with {ended.code}: {ended.said[-200:]!r}"
                    if failed
                    else f"n^{power:.2f}, {ended.mebibytes} MiB"
                )
                seconds = ", ".join(f"{seconds:.2f}" for seconds in times)
                print(
                    f"{'!' if bad else ' '} {shape}: {command}: {seconds} s: {said}, exit code {ended.code}", flush=True
                )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
