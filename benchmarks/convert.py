"""Conversions to float16 beside peers: valid, accepted, error, casts, share of products in 16 bits, time, memory.

python -m benchmarks.convert FOLDER [--list FILES.json] [--tools A,B] [--autocast PYTHON] [--json OUT] [--files]
       [--repeat N]

Every tool converts the same files with inputs and outputs kept, in one run, as far as it is installed: Castsmith
without and with inputs to measure on, onnxconverter-common, ONNX Runtime's `transformers/float16.py` without and with
its symbolic shapes, and ModelOpt's AutoCast in the Python given (random calibration). Each conversion and each
judgement is a process of its own.

valid      the full checker takes the result
accepted   ONNX Runtime loads it with its optimization off and runs it, inputs and outputs are unchanged, and no output
           is infinite or NaN that was finite
openvino   OpenVINO compiles and runs it
error      the largest difference of an output from the float model, divided by its largest element, on two sets of
           inputs; both run one operator at a time, so that every value is rounded where the file says so
casts      casts in the result less those in the model
16 bits    the share of the products of MatMul, Gemm, Conv, Einsum, LSTM, ... that are of 16-bit operands
s, MB      processor time and peak memory of the conversion, less those of a process that only imports the tool
to ours    this time as a ratio to Castsmith's, of all files: the tools take turns, `--repeat` times, and the ratio is
           the median of the turns, with the least and the greatest
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import importlib
import json
import logging
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx_ir

from benchmarks.pairing import in_turns, ratios, spread
from castsmith.lowering.accuracy import measure, reference
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator

TOOLS = ("castsmith", "castsmith-inputs", "onnxconverter-common", "onnxruntime", "onnxruntime-symbolic", "autocast")
_SECONDS = 300


# The tools.


def convert(tool: str, path: str, out: str, sets: list[dict[str, Any]]) -> None:
    """Write the file in float16, with float inputs and outputs."""
    if tool.startswith("castsmith"):
        import castsmith

        found = castsmith.convert(path, to="float16", inputs=sets if tool.endswith("inputs") else None)
        castsmith.save(found.model, out)
    elif tool == "onnxconverter-common":
        from onnxconverter_common import float16 as common

        onnx.save(common.convert_float_to_float16(onnx.load(path), keep_io_types=True), out)
    elif tool == "onnxruntime":
        from onnxruntime.transformers import float16

        onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True), out)
    else:
        from onnxruntime.transformers.onnx_model import OnnxModel

        model = OnnxModel(onnx.load(path))
        model.convert_float_to_float16(use_symbolic_shape_infer=True, keep_io_types=True)
        model.save_model_to_file(out)


def modules(tool: str) -> tuple[str, ...]:
    """The modules that the tool needs, imported before its time is taken."""
    if tool.startswith("castsmith"):
        return ("castsmith.lowering.conversion", "castsmith.ir.io")
    if tool == "onnxconverter-common":
        return ("onnxconverter_common.float16",)
    return ("onnxruntime.transformers.float16", "onnxruntime.transformers.onnx_model")


def installed(tool: str, autocast: str | None) -> bool:
    if tool == "autocast":
        return autocast is not None
    try:
        return all(importlib.import_module(module) for module in modules(tool))
    except ImportError:
        return False


def in_process(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float, float]:
    """The result of the work in a process of its own, None where it died, with its seconds and its MB at most."""

    def target(pipe: Any) -> None:
        logging.disable(logging.CRITICAL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            found: Any = work(*arguments)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = time.process_time() - began + children.ru_utime + children.ru_stime
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pipe.send((found, spent, max(most - before, children.ru_maxrss) / 1024))
        pipe.close()

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(sender,))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(_SECONDS) else (None, float(_SECONDS), 0.0)
    except EOFError:
        return None, 0.0, 0.0
    finally:
        process.kill()
        process.join()


def autocast_run(python: str, path: str, out: str) -> None:
    command = [python, "-m", "modelopt.onnx.autocast", "--onnx_path", path, "--output_path", out, "--keep_io_types"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode or not Path(out).exists():
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no file")


# Judgement.


def session(model: str | bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def ports(found: Any) -> list[tuple[str, str]]:
    return [(port.name, port.type) for port in (*found.get_inputs(), *found.get_outputs())]


def feeds(found: Any, seed: int) -> dict[str, Any]:
    """Random inputs: floats around zero, indices where names say so, otherwise zeros and ones."""
    draw = np.random.default_rng(seed)
    types = {"float": "float32", "double": "float64"}
    made: dict[str, Any] = {}
    for port in found.get_inputs():
        name = port.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(types.get(name, name))
        shape = [dim if isinstance(dim, int) and dim > 0 else 2 for dim in port.shape or ()]
        indices = "mask" not in port.name and ("ids" in port.name or "token" in port.name)
        array = (
            draw.normal(0, 1 - seed / 2, shape) if dtype.kind == "f" else draw.integers(0, 100 if indices else 2, shape)
        )
        made[port.name] = np.asarray(np.ones(shape) if "mask" in port.name else array).astype(dtype)
    return made


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes(inner)


def casts(path: str) -> int:
    model = onnx.load(path, load_external_data=False)
    found = [*nodes(model.graph), *(node for function in model.functions for node in function.node)]
    return sum(node.op_type in ("Cast", "CastLike") for node in found)


def products(path: str, given: dict[str, Any]) -> tuple[int, int]:
    """The products that the model computes on these inputs, and those of 16-bit operands."""
    from castsmith import load
    from castsmith.ir.constants import constant_tensor

    model, total, half = load(path), 0, 0
    known: dict[onnx_ir.Value, tuple[tuple[int, ...], int]] = {}

    def entry(value: onnx_ir.Value | None) -> tuple[tuple[int, ...], float]:
        tensor = None if value is None else constant_tensor(value)
        if value is None or (tensor is None and value not in known):
            return (), 0
        return (tuple(tensor.shape.numpy()), tensor.dtype.itemsize) if tensor is not None else known[value]

    def watch(_: Any, value: onnx_ir.Value, tensor: Any) -> None:
        nonlocal total, half
        known[value] = (tensor.array.shape, tensor.array.dtype.itemsize)
        node = value.producer()
        if node is None or node.outputs[0] is not value:
            return
        shapes = [entry(each)[0] for each in node.inputs]
        count = _products(node, shapes, tensor.array.shape)
        total += count
        half += count if node.inputs and entry(node.inputs[0])[1] == 2 else 0

    Evaluator(model, PromotionRules(promote_unsafe=True), Engine("onnxruntime")).run(given, watch)
    return total, half


def _products(node: onnx_ir.Node, shapes: list[tuple[int, ...]], made: tuple[int, ...]) -> int:
    """The products that an operator computes, from the shapes of its operands and of its first result."""
    op_type = node.op_type
    if op_type == "MatMulNBits" or (op_type in ("MatMul", "Gemm") and min(map(len, shapes[:2])) > 1):
        return prod(made) * shapes[0][-1]
    if op_type == "Conv":
        return prod(made) * prod(shapes[1][1:])
    if op_type == "ConvTranspose":
        return prod(shapes[0]) * prod(shapes[1][1:])
    if op_type in ("LSTM", "GRU", "RNN"):
        return shapes[0][0] * shapes[0][1] * (prod(shapes[1]) + prod(shapes[2]))
    if op_type == "Attention":
        return 2 * prod(shapes[0]) * shapes[1][-2]
    if op_type == "Einsum" and len(shapes) > 1:
        return _einsum(node.attributes["equation"].as_string(), shapes)
    return 0


def _einsum(equation: str, shapes: list[tuple[int, ...]]) -> int:
    """The product of the dimensions of all letters, for equations without an ellipsis."""
    terms = equation.replace(" ", "").split("->")[0].split(",")
    pairs = (zip(term, shape, strict=False) for term, shape in zip(terms, shapes, strict=True))
    return prod({letter: dim for pair in pairs for letter, dim in pair}.values())


def openvino_runs(path: str, given: dict[str, Any]) -> bool | None:
    """True if OpenVINO compiles and runs the model; None if it is not installed."""
    try:
        import openvino
    except ImportError:
        return None
    try:
        compiled = openvino.Core().compile_model(openvino.Core().read_model(path), "CPU")
        compiled({port.any_name: given[port.any_name] for port in compiled.inputs})
    except Exception:
        return False
    return True


def judged(path: str, out: str, sets: list[dict[str, Any]]) -> dict[str, Any]:
    """The judgement of one conversion."""
    row: dict[str, Any] = {
        "casts": casts(out) - casts(path),
        "share": Path(out).stat().st_size / Path(path).stat().st_size,
    }
    try:
        onnx.checker.check_model(out, full_check=True)
        row["valid"] = True
    except Exception as error:
        row["invalid"] = str(error).strip()[:200]
    try:
        old, new = session(path), session(out)
        row["accepted"] = ports(old) == ports(new)
    except Exception as error:
        return {**row, "refused": str(error).strip()[:200]}
    try:
        expected = [old.run(None, each) for each in sets]
    except Exception:
        return row  # these inputs do not suit the model: loading is all that is judged
    try:
        row["finite"] = all(map(finite, expected, (new.run(None, each) for each in sets)))
        row["accepted"] = row["accepted"] and row["finite"]
    except Exception as error:
        return {**row, "accepted": False, "refused": str(error).strip()[:200]}
    row["openvino"] = openvino_runs(out, sets[0]) if openvino_runs(path, sets[0]) else None
    return row


def measured(path: str, out: str, sets: list[dict[str, Any]]) -> dict[str, Any]:
    """The error of one conversion and its products, of which each operator is run by itself."""
    row: dict[str, Any] = {}
    try:
        row["products"], row["half"] = products(out, sets[0])
        before = reference(load_file(path), sets)
        found = measure(before, load_file(out))
        row["error"], row["cosine"] = found.worst, min((each.cosine for each in found.outputs), default=1.0)
        row["absolute"] = max((each.absolute for each in found.outputs), default=0.0)
        row["overflows"] = len(found.overflows)
    except Exception as error:
        row["unmeasured"] = f"{type(error).__name__}: {error}"[:200]
    return row


def load_file(path: str) -> Any:
    from castsmith import load

    return load(path)


def finite(expected: list[Any], found: list[Any]) -> bool:
    """True if each element that was finite is."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(expected, found, strict=True)]
    return all(a.shape != b.shape or np.isfinite(b[np.isfinite(a)]).all() for a, b in pairs if a.dtype.kind == "f")


def converted(tool: str, path: Path, out: str, sets: Any, autocast: str | None) -> tuple[Any, float, float]:
    """Convert the file in a process of its own."""
    if tool == "autocast":
        return in_process(autocast_run, autocast, str(path), out)
    return in_process(convert, tool, str(path), out, sets)


def rows_of(path: Path, tools: list[str], autocast: str | None, repeat: int) -> Iterator[dict[str, Any]]:
    """A row for each tool. Its results of the first turn are judged; the other turns take the time."""
    sets, *_ = in_process(lambda: [feeds(session(str(path)), seed) for seed in range(2)])
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out.onnx"
        works = {tool: lambda tool=tool: converted(tool, path, out, sets, autocast)[1] for tool in tools}
        turns = in_turns(works, repeat - 1)
    for tool in tools:
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out.onnx")
            found, seconds, most = converted(tool, path, out, sets, autocast)
            row = {
                "tool": tool,
                "file": path.name,
                "seconds": seconds,
                "turns": [seconds, *turns[tool]],
                "memory": most,
                "valid": False,
                "accepted": False,
            }
            if Path(out).exists():
                judgement, *_ = in_process(judged, str(path), out, sets)
                row.update(judgement or {"failed": "the judgement died"})
                if "finite" in row:
                    found, *_ = in_process(measured, str(path), out, sets)
                    row.update(found or {"unmeasured": "it takes too long"})
            else:
                row.update(found or {"failed": "the conversion died"})
            yield row


# The table.


def table(rows: list[dict[str, Any]], tools: list[str], count: int) -> Iterator[str]:
    """One line for each tool; error, casts and products are those of its accepted results."""
    heads = (
        "valid",
        "accepted",
        "both",
        "openvino",
        "median error",
        "above 0.1",
        "casts",
        "16 bits",
        "s",
        "MB",
        "to ours",
    )
    yield f"| of {count} models | {' | '.join(heads)} |"
    yield "|---" * 12 + "|"
    times = {
        tool: [sum(turn) for turn in zip(*(row["turns"] for row in rows if row["tool"] == tool), strict=True)]
        for tool in tools
    }
    for tool in tools:
        own = [row for row in rows if row["tool"] == tool]
        good = [row for row in own if row["accepted"]]
        errors = [row["error"] for row in good if "error" in row]
        total, half = (sum(row.get(key, 0) for row in good) for key in ("products", "half"))
        yield (
            f"| {tool} | {sum(row['valid'] for row in own)} | {len(good)} |"
            f" {sum(row['valid'] for row in good)} | {sum(bool(row.get('openvino')) for row in own)} |"
            f" {statistics.median(errors) if errors else 0:.1e} | {sum(error > 0.1 for error in errors)} |"
            f" {sum(row.get('casts', 0) for row in good)} | {100 * half / max(total, 1):.1f}% |"
            f" {min(times[tool]):.0f} | {max(row['memory'] for row in own):.0f} |"
            f" {spread(ratios(times[tool], times['castsmith'])) if 'castsmith' in times else '-'} |"
        )


def by_file(rows: list[dict[str, Any]], tools: list[str]) -> Iterator[str]:
    """One line for each file: error, casts and share of the products in 16 bits, by tool."""
    yield "| file | " + " | ".join(tools) + " |"
    yield "|---" * (len(tools) + 1) + "|"
    found = {(row["file"], row["tool"]): row for row in rows}
    for file in dict.fromkeys(row["file"] for row in rows):
        yield f"| {file} | " + " | ".join(_cell(found[file, tool]) for tool in tools) + " |"


_NOISE = 1.1
"""How much larger an error may be and count as the same: it is that of two sets of random inputs."""


def beaten(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each file on which a tool has fewer casts, as many products in 16 bits, and no larger error."""
    for file in dict.fromkeys(row["file"] for row in rows):
        own = [row for row in rows if row["file"] == file and "error" in row and row["accepted"] and row["valid"]]
        for ours in (row for row in own if row["tool"].startswith("castsmith")):
            for row in own:
                fewer = (
                    row["casts"] < ours["casts"] and row["half"] * ours["products"] >= ours["half"] * row["products"]
                )
                if fewer and not row["tool"].startswith("castsmith") and row["error"] <= _NOISE * ours["error"]:
                    yield f"| {file} | {ours['tool']} | {_cell(ours)} | {row['tool']} | {_cell(row)} |"


def _cell(row: dict[str, Any]) -> str:
    if not row["accepted"]:
        return "not converted" if "failed" in row else "not accepted"
    share = f"{100 * row['half'] / max(row['products'], 1):.0f}%" if "products" in row else "?"
    return f"{row.get('error', float('nan')):.1e}, {row['casts']}, {share}{'' if row['valid'] else ', invalid'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, help="a JSON list of the files, relative to the folder")
    parser.add_argument("--tools", default=",".join(TOOLS), help="the tools to compare")
    parser.add_argument("--autocast", metavar="PYTHON", help="the Python in which nvidia-modelopt is installed")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--files", action="store_true", help="print the figures of each file too")
    parser.add_argument("--repeat", type=int, default=3, help="how often each file is converted (default: 3)")
    arguments = parser.parse_args()
    names = json.loads(arguments.list.read_text()) if arguments.list else None
    files = [arguments.folder / name for name in names] if names else sorted(arguments.folder.rglob("*.onnx"))
    tools = [tool for tool in arguments.tools.split(",") if installed(tool, arguments.autocast)]
    rows = [row for path in files for row in rows_of(path, tools, arguments.autocast, arguments.repeat)]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(table(rows, tools, len(files))))
    if arguments.files:
        print("\n" + "\n".join(by_file(rows, tools)))
        print("\n| file | ours | error, casts, 16 bits | fewer casts | error, casts, 16 bits |\n|---|---|---|---|---|")
        print("\n".join(beaten(rows)))


if __name__ == "__main__":
    main()
