"""Every command on every file of a corpus, each in a process of its own, of limited memory and time.

    CASTSMITH_CORPUS=DIR python -m tests.soak.commands [--command NAME] [--seconds 20] [--memory 4] [--match TEXT]

Prints each run that crashes, ends in an internal error, or takes more than it may, and the slowest; the exit code is 1
if there is one. A terminal shows how many runs are done. `python -m tests.soak.sweep corpus` judges what `optimize`
makes of the files.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.scale.bounded import COMMANDS, Bounds, Ended, run_bounded

_ENDS = (0, 1, 2, 3)
_FAULTS = ("internal error", "Traceback", "not enough memory")
_SLOWEST = 10


def fault(ended: Ended) -> str:
    """Return what is wrong with the outcome; nothing for one that did its work, or said why not."""
    if ended.code not in _ENDS:
        return f"ended with {ended.code}"
    return next((text for text in _FAULTS if text in ended.said), "")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.commands", description="See the module.")
    parser.add_argument("--command", action="append", choices=sorted(COMMANDS))
    parser.add_argument("--match", default="", help="only files whose path contains this text")
    parser.add_argument("--seconds", type=int, default=20, help="processor time of one command on one file")
    parser.add_argument("--memory", type=float, default=4.0, help="GiB of one command on one file")
    arguments = parser.parse_args(words)
    corpus = Path(os.environ.get("CASTSMITH_CORPUS", ""))
    files = [path for path in sorted(corpus.rglob("*.onnx")) if arguments.match in str(path)]
    if not os.environ.get("CASTSMITH_CORPUS") or not files:
        sys.exit("set CASTSMITH_CORPUS to a folder of models.")
    bounds, ran, wrong = Bounds(arguments.seconds, int(arguments.memory * 2**30)), list[Ended](), 0
    for ended in run_bounded(files, arguments.command or list(COMMANDS), bounds):
        ran.append(ended)
        text = fault(ended)
        if sys.stderr.isatty():
            print(f"\r{len(ran)} of {len(files) * len(arguments.command or COMMANDS)}", end="", file=sys.stderr)
        if text:
            wrong += 1
            print(f"{ended.command}: {ended.file}: {text} after {ended.seconds} s, {ended.said[-300:]!r}", flush=True)
    print(f"{len(ran)} runs on {len(files)} files, {wrong} wrong; the slowest:")
    for ended in sorted(ran, key=lambda each: -each.seconds)[:_SLOWEST]:
        print(
            f"  {ended.seconds:6.2f} s, {ended.mebibytes:5} MiB, exit code {ended.code}: {ended.command}: {ended.file}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
