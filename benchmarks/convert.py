"""Conversions to float16 beside peers: valid, accepted, error, casts, share of products in 16 bits, time.

python benchmarks/convert.py FOLDER [--list FILES.json] [--json OUT]

Every tool converts the same files with inputs and outputs kept, in one run: Castsmith, onnxconverter-common and ONNX
Runtime's `transformers/float16.py`, as far as they are installed. `valid` is the full checker; `accepted` is that ONNX
Runtime loads the result with its optimization off and runs it, inputs and outputs are unchanged, and no output is
infinite or NaN that was finite. Each tool runs in a process of its own, which is started again where it dies.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker

TOOLS = ("castsmith", "onnxconverter-common", "onnxruntime")
HEAVY = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_SECONDS = 300


def converted(tool: str, path: str) -> onnx.ModelProto:
    """The file in float16, with float inputs and outputs."""
    if tool == "castsmith":
        import onnx_ir

        from castsmith import convert

        return onnx_ir.to_proto(convert(path, to="float16").model)
    if tool == "onnxconverter-common":
        from onnxconverter_common import float16 as common

        return common.convert_float_to_float16(onnx.load(path), keep_io_types=True)
    from onnxruntime.transformers import float16

    return float16.convert_float_to_float16(onnx.load(path), keep_io_types=True)


def session(model: str | bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def ports(found: Any) -> list[tuple[str, str]]:
    return [(port.name, port.type) for port in (*found.get_inputs(), *found.get_outputs())]


def feeds(found: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    types = {"float": "float32", "double": "float64"}
    made: dict[str, Any] = {}
    for port in found.get_inputs():
        name = port.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(types.get(name, name))
        shape = [dim if isinstance(dim, int) and dim > 0 else 2 for dim in port.shape or ()]
        array = draw.normal(0, 0.5, shape) if dtype.kind == "f" else draw.integers(0, 2, shape)
        made[port.name] = np.asarray(array).astype(dtype)
    return made


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def heavy_in_half(model: onnx.ModelProto) -> tuple[int, int]:
    """The nodes that multiply matrices or convolve, and those of them in float16, by the type of their weights."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    types |= {info.name: info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    heavy = [node for node in nodes(model.graph) if node.op_type in HEAVY]
    return len(heavy), sum(types.get(node.input[1]) == onnx.TensorProto.FLOAT16 for node in heavy)


def judged(tool: str, path: str) -> dict[str, Any]:
    """One conversion, judged."""
    row: dict[str, Any] = {"tool": tool, "file": path, "valid": False, "accepted": False}
    started = time.monotonic()
    try:
        result = converted(tool, path)
    except Exception as error:
        return {**row, "failed": f"{type(error).__name__}: {error}"[:200]}
    row["seconds"] = round(time.monotonic() - started, 3)
    before = onnx.load(path)
    count = sum(node.op_type == "Cast" for node in nodes(before.graph))
    row["casts"] = sum(node.op_type == "Cast" for node in nodes(result.graph)) - count
    try:
        onnx.checker.check_model(result, full_check=True)
        row["valid"] = True
        row["heavy"], row["half"] = heavy_in_half(result)
    except Exception as error:
        row["invalid"] = str(error).strip()[:200]
    try:
        old, new = session(path), session(result.SerializeToString())
        row["accepted"] = ports(old) == ports(new)
        try:
            given = feeds(old)
            expected = old.run(None, given)
        except Exception:
            return row  # these inputs do not suit the model: loading is all that is judged
        row.update(compared(expected, new.run(None, given)))
        row["accepted"] = row["accepted"] and row["finite"]
    except Exception as error:
        row["accepted"] = False
        row["refused"] = str(error).strip()[:200]
    return row


def compared(expected: list[Any], found: list[Any]) -> dict[str, Any]:
    worst, finite = 0.0, True
    for a, b in zip(expected, found, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind != "f" or not a.size or a.shape != b.shape:
            continue
        usable = np.isfinite(a)
        finite = finite and bool(np.isfinite(b[usable]).all())
        if usable.any() and finite:
            scale = np.abs(a[usable]).max() or 1.0
            worst = max(worst, float(np.abs(a[usable].astype("f8") - b[usable].astype("f8")).max() / scale))
    return {"error": worst, "finite": finite}


def work(tool: str) -> None:
    """Judge each file whose path comes on standard input, and print a row of JSON for it."""
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(judged(tool, line.strip())), flush=True)


def rows_of(tool: str, files: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of all files; a file on which the tool dies or takes too long has a row that says so."""
    left = list(files)
    while left:
        command = [sys.executable, __file__, "--work", tool]
        try:
            done = subprocess.run(command, input="\n".join(left), capture_output=True, text=True, timeout=_SECONDS * 3)
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode().splitlines()
        found = [json.loads(line) for line in lines if line.startswith('{"tool"')]
        yield from found
        left = left[len(found) :]
        if left:
            yield {"tool": tool, "file": left.pop(0), "valid": False, "accepted": False, "failed": "died"}


def installed(tool: str) -> bool:
    module = {"castsmith": "castsmith", "onnxruntime": "onnxruntime.transformers.float16"}
    code = f"import {module.get(tool, 'onnxconverter_common.float16')}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def table(rows: list[dict[str, Any]], count: int) -> Iterator[str]:
    yield f"| of {count} models | valid | accepted | both | median error | above 0.1 | casts | products in half | s |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for tool in TOOLS:
        own = [row for row in rows if row["tool"] == tool]
        if not own:
            continue
        errors = sorted(row["error"] for row in own if row["accepted"] and "error" in row)
        heavy, half = (sum(row.get(key, 0) for row in own) for key in ("heavy", "half"))
        yield (
            f"| {tool} | {sum(row['valid'] for row in own)} | {sum(row['accepted'] for row in own)} |"
            f" {sum(row['valid'] and row['accepted'] for row in own)} |"
            f" {errors[len(errors) // 2] if errors else 0:.1e} | {sum(error > 0.1 for error in errors)} |"
            f" {sum(row.get('casts', 0) for row in own if row['accepted'])} |"
            f" {half} of {heavy} | {sum(row.get('seconds', 0) for row in own):.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--list", type=Path, help="a JSON list of the files, relative to the folder")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--work", choices=TOOLS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    names = json.loads(arguments.list.read_text()) if arguments.list else None
    found = [arguments.folder / name for name in names] if names else sorted(arguments.folder.rglob("*.onnx"))
    files = [str(path) for path in found]
    rows = [row for tool in TOOLS if installed(tool) for row in rows_of(tool, files)]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(table(rows, len(files))))


if __name__ == "__main__":
    main()
