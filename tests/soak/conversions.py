"""Every model of some folders, converted: the result is checked, and loaded by ONNX Runtime.

    nice python -m tests.soak.conversions FOLDER ... [--to float16] [--target NAME ...] [--jobs 2] [--match TEXT]

Each step runs in a process of its own, with limits of memory and time: a crash of onnx or of ONNX Runtime is an outcome
as any other. A result is wrong if it is invalid or fails to load where the model before did not. Prints what is
wrong, and in the end how many outcomes there were of each kind; exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

_MEMORY = 8 << 30
_CONTEXT = get_context("forkserver")
_FINE = "fine"


def _convert(path: str, out: str, to: str, target: str) -> str:
    import castsmith

    try:
        castsmith.save(castsmith.convert(path, to=to, target=target or None).model, out)
    except castsmith.CastsmithError as error:
        return f"refused: {error}"
    return _FINE


def _check(path: str, _: str) -> str:
    import onnx

    onnx.checker.check_model(path, full_check=True)
    return _FINE


def _load(path: str, level: str) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return _FINE


def _enter(end: Connection, step: Callable[..., str], *arguments: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        end.send(step(*arguments))
    except Exception as error:  # of foreign code, or a defect: each is an outcome
        end.send(f"{type(error).__name__}: {error}")


_LEAVING = 10.0
"""Seconds in which a process ends after it has answered."""


def outcome(step: Callable[..., str], *arguments: str, seconds: float) -> str:
    """Run a step in a process of its own: `fine`, or how it failed."""
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_enter, args=(there, step, *arguments))
    process.start()
    there.close()
    try:
        text = str(here.recv()) if here.poll(seconds) else "takes too long"
    except EOFError:
        process.join()
        text = f"the process ended with {process.exitcode}"
    process.join(0 if text == "takes too long" else _LEAVING)
    process.kill()  # an engine may keep it from ending
    process.join()
    return text


def judged(path: Path, target: str, to: str, seconds: float) -> tuple[str, str]:
    """Return the kind of the outcome for one model, and the text of what is wrong or refused."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/{path.stem}.onnx"
        converted = outcome(_convert, str(path), out, to, target, seconds=seconds)
        if converted != _FINE:
            return ("refused", converted) if converted.startswith("refused") else ("WRONG convert", converted)
        steps = ((_check, ""), (_load, "ORT_ENABLE_ALL"), (_load, "ORT_DISABLE_ALL"))
        faults = list[tuple[str, str]]()
        for step, level in steps:
            after = outcome(step, out, level, seconds=seconds)
            if after != _FINE:
                before = outcome(step, str(path), level, seconds=seconds)
                name = "invalid" if step is _check else f"does not load ({level})"
                if before == _FINE:
                    return f"WRONG {name}", after
                faults.append((f"{name}, as before", f"{after[:300]} | before: {before[:300]}"))
        if faults:
            return faults[0]
    return _FINE, ""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.conversions", description="Convert many models.")
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--to", default="float16")
    parser.add_argument("--target", action="append", help="`none`, or the name of a target; may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each step")
    parser.add_argument("--match", default="", help="only paths that contain this text")
    arguments = parser.parse_args(words)
    _CONTEXT.set_forkserver_preload(["castsmith.lowering.conversion", "onnx", "onnxruntime"])
    paths = [path for folder in arguments.folder for path in sorted(Path(folder).rglob("*.onnx"))]
    targets = ["" if name == "none" else name for name in arguments.target or ("none",)]
    cases = [(path, target) for path in paths if arguments.match in str(path) for target in targets]
    counts = Counter[str]()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        to, seconds = repeat(arguments.to), repeat(arguments.seconds)
        results = pool.map(judged, *zip(*cases, strict=True), to, seconds)
        for (path, target), (kind, text) in zip(cases, results, strict=True):
            counts[kind] += 1
            if kind != _FINE:
                print(f"{kind}: {path} {target}:", *text[:700].split(), flush=True)
    print(f"{len(cases)} conversions to {arguments.to}: {dict(counts)}")
    return 1 if any(kind.startswith("WRONG") for kind in counts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
