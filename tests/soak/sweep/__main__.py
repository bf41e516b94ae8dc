"""Sweep many models through `optimize` to find unknown faults.

    python -m tests.soak.sweep corpus DIR        every .onnx file below DIR (default: $CASTSMITH_CORPUS)
    python -m tests.soak.sweep random 10000      random valid graphs, `--seed` the first of them
    python -m tests.soak.sweep moves 10000       random graphs of moves and casts; `scopes` and `shapes` likewise
    python -m tests.soak.sweep goldens           the sources of the golden cases
    python -m tests.soak.sweep backend           the backend node tests of ONNX

Each model is judged (`tests.soak.sweep.judge`) without a target and for each `--target`, in a process of its own with a
memory limit and a timeout. The report counts what is wrong by kind, and lists it; `--refusals` lists each refusal with
its text. The exit code is 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.soak.sweep.judge import TARGETS
from tests.soak.sweep.processes import run_all
from tests.soak.sweep.report import Report
from tests.soak.sweep.sources import SOURCES


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.sweep", description="Judge many models; see the module.")
    parser.add_argument("source", choices=sorted(SOURCES))
    parser.add_argument("what", nargs="?", default="", help="a directory for corpus, a count for random")
    parser.add_argument("--target", action="append", help="`none`, or the name of a target; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of random graphs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one model and all targets")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of address space for one model")
    parser.add_argument("--match", default="", help="only models whose name contains this text")
    parser.add_argument("--refusals", action="store_true", help="list each refusal with its text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every judgement to this file")
    arguments = parser.parse_args(words)
    targets = [None if name == "none" else name for name in arguments.target or ()] or list(TARGETS)
    models = [m for m in SOURCES[arguments.source](arguments.what, arguments.seed) if arguments.match in m.name]
    report = Report()
    limits = (int(arguments.memory * 2**30), arguments.timeout)
    for judged in run_all(models, targets, jobs=arguments.jobs, limits=limits):
        report.add(judged)
    report.print(refusals=arguments.refusals)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.data(), indent=1))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
