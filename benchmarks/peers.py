"""Castsmith beside other ONNX optimizers, in one run on the same files: time, peak memory, correctness of the result.

    pip install castsmith onnxruntime onnxsim onnxslim onnxscript
    python -m benchmarks.peers [--small] [--only graph|weights] [--timeout SECONDS]

Each tool is a process of its own that reads the file, optimizes and writes it. They run in turn, three times over, but
once where it takes more than ten seconds. `wall` and `processor` are the ratios to Castsmith's times of the same turn,
the median with the least and the greatest; the seconds are the least. A tool that is not installed is named as such.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from benchmarks.graphs import cast_graph, weight_cast
from benchmarks.pairing import spread

_ORT = """import sys, onnxruntime as o
s = o.SessionOptions()
s.graph_optimization_level = o.GraphOptimizationLevel.ORT_ENABLE_BASIC
s.optimized_model_filepath = sys.argv[2]
o.InferenceSession(sys.argv[1], s, providers=["CPUExecutionProvider"])"""

_ONNXSCRIPT = """import sys, onnx_ir, onnxscript.optimizer
model = onnx_ir.load(sys.argv[1])
onnxscript.optimizer.optimize(model, input_size_limit=10**9, output_size_limit=10**9)
onnx_ir.save(model, sys.argv[2])"""

_COPY = "import sys, onnx; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"

TOOLS: dict[str, Callable[[str, str], list[str]]] = {
    "castsmith": lambda source, result: ["-m", "castsmith", "optimize", source, "-o", result],
    "ONNX Runtime, basic level": lambda source, result: ["-c", _ORT, source, result],
    "onnxsim": lambda source, result: ["-m", "onnxsim", source, result],
    "onnxslim": lambda source, result: ["-m", "onnxslim", source, result],
    "onnxscript": lambda source, result: ["-c", _ONNXSCRIPT, source, result],
    "onnx, load and save only": lambda source, result: ["-c", _COPY, source, result],
}
_MODULES = {
    "ONNX Runtime, basic level": "onnxruntime",
    **{name: name for name in ("onnxsim", "onnxslim", "onnxscript")},
}

_LAUNCHER = """import json, resource, subprocess, sys, time
start = time.perf_counter()
try:
    limit = float(sys.argv[1])
    code = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit).returncode
except subprocess.TimeoutExpired:
    code = None
used = resource.getrusage(resource.RUSAGE_CHILDREN)
wall = time.perf_counter() - start
print(json.dumps([code, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))"""
"""A small process that starts the tool: Linux counts the memory of what forks a process as the process's own."""


@dataclass(frozen=True)
class Measured:
    """What one tool took for one file, and what is to be said of its result."""

    seconds: float
    processor: float
    megabytes: float
    verdict: str


def measure(
    commands: Mapping[str, Sequence[str]], result: Path, verdict: Callable[[Path], str], timeout: float
) -> dict[str, list[Measured]]:
    """Run every command, then all again, three times over, but for those that take long; the runs of each, and what
    `verdict` says of its last `result`."""
    runs: dict[str, list[Measured]] = {tool: [] for tool in commands}
    verdicts: dict[str, str] = {}
    for _ in range(3):
        for tool, command in commands.items():
            if verdicts.get(tool) and runs[tool][-1].seconds > 10:
                continue
            result.unlink(missing_ok=True)
            runs[tool].append(run(command, timeout))
            verdicts[tool] = runs[tool][-1].verdict or (verdict(result) if result.exists() else "writes nothing")
            result.unlink(missing_ok=True)
    return {tool: [replace(each, verdict=verdicts[tool]) for each in done] for tool, done in runs.items()}


def run(command: Sequence[str], timeout: float) -> Measured:
    """Run the command once, with bytecode, as installed. The verdict is empty where it ended in time."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(timeout)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told = subprocess.check_output([*launcher, *command], env=environment)
    code, seconds, processor, megabytes = json.loads(told)
    return Measured(seconds, processor, megabytes, f"stopped after {timeout:.0f} s" if code is None else "")


def same_outputs(source: Path) -> Callable[[Path], str]:
    """Whether a result computes the bits that the source does, both run as they are, and how many nodes it has."""
    feed = {"x": np.random.default_rng(0).standard_normal((4, 8), np.float32)}
    expected = _outputs(source, feed)

    def verdict(result: Path) -> str:
        model = onnx.load(result)
        casts = sum(node.op_type == "Cast" for node in model.graph.node)
        same = _outputs(result, feed).tobytes() == expected.tobytes()
        return f"{'right' if same else 'WRONG'}, {len(model.graph.node)} nodes, {casts} casts"

    return verdict


def _outputs(path: Path, feed: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feed)[0])


def right_weight(source: Path, to: int) -> Callable[[Path], str]:
    """Whether a result holds the weight in its new type, to the bit."""
    weight = onnx.numpy_helper.to_array(onnx.load(source).graph.initializer[0])
    expected = weight.astype(np.float16 if to == TensorProto.FLOAT16 else ml_dtypes.float8_e4m3fn).tobytes()

    def verdict(result: Path) -> str:
        graph = onnx.load(result).graph
        if any(node.op_type == "Cast" for node in graph.node):
            return "not folded"
        tensors = [*graph.initializer, *(node.attribute[0].t for node in graph.node if node.op_type == "Constant")]
        if [tensor.data_type for tensor in tensors] != [to]:
            return "WRONG type"
        return "right" if onnx.numpy_helper.to_array(tensors[0]).tobytes() == expected else "WRONG values"

    return verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--only", choices=("graph", "weights"), help="the table of the graph, or those of weights")
    parser.add_argument("--timeout", type=float, default=120.0)
    arguments = parser.parse_args()
    scale = 10 if arguments.small else 1
    with tempfile.TemporaryDirectory() as name:
        if arguments.only != "weights":
            nodes, source = 20_000 // scale, Path(name) / "graph.onnx"
            onnx.save(cast_graph(nodes, nodes // 4), source)
            _table(f"{nodes} nodes, {nodes // 4} casts", source, same_outputs(source), arguments.timeout)
        megabytes, types = 400 // scale, ((TensorProto.FLOAT16, "float16"), (TensorProto.FLOAT8E4M3FN, "float8e4m3fn"))
        for to, text in types if arguments.only != "graph" else ():
            source = Path(name) / f"{text}.onnx"
            weight_cast(source, megabytes, to)
            title = f"{megabytes} MB float weight, cast to {text}"
            _table(title, source, right_weight(source, to), arguments.timeout)
            source.unlink()


def _table(title: str, source: Path, verdict: Callable[[Path], str], timeout: float) -> None:
    print(f"\n### {title}\n\n| tool | wall | processor | wall s | processor s | peak MB | result |")
    print("|---|---|---|---|---|---|---|")
    result = source.with_name(f"out_{source.name}")
    present = {tool: make for tool, make in TOOLS.items() if importlib.util.find_spec(_MODULES.get(tool, "onnx"))}
    commands = {tool: [sys.executable, *arguments(str(source), str(result))] for tool, arguments in present.items()}
    found = measure(commands, result, verdict, timeout)
    base = found["castsmith"]
    for tool, runs in found.items():
        pairs = list(zip(runs, base, strict=False))
        walls = spread([each.seconds / ours.seconds for each, ours in pairs])
        ratios = f"{walls} | {spread([each.processor / ours.processor for each, ours in pairs])}"
        times = f"{min(each.seconds for each in runs):.2f} | {min(each.processor for each in runs):.2f}"
        print(f"| {tool} | {ratios} | {times} | {runs[-1].megabytes:.0f} | {runs[-1].verdict} |", flush=True)
    for tool in TOOLS:
        if tool not in found:
            print(f"| {tool} {'| - ' * 5}| not installed |")


if __name__ == "__main__":
    main()
