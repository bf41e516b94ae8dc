"""The judgement of one conversion of a random model, under options drawn from its seed.

python -m tests.passes.precision.judged FIRST LAST     a process for each seed, since the runtime crashes on some models
"""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnxruntime

from castsmith import convert
from castsmith.ir.io.protos import to_proto
from castsmith.ir.records import Severity
from castsmith.numerics.errors import OptionError
from tests.passes.precision.random_models import HALF, random_model

_TYPES = {"float": 1, "float16": 10, "bfloat16": 16, "double": 11}
_SOURCES = {"float16": {1, 11, 16}, "bfloat16": {1, 11, 10}, "float": {11, 10, 16}}
_NUMPY = {"float": "f4", "float16": "f2", "double": "f8", "int64": "i8", "bool": "?"}
_WITHIN = {"float16": 0.02, "float": 1e-4}
"""The largest error beside the largest element that these small models may have, times the root of their nodes."""

Array = np.ndarray[Any, Any]


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def options_of(seed: int, proto: onnx.ModelProto) -> dict[str, Any]:
    """Options of convert drawn from the seed."""
    draw = random.Random(f"options {seed}")
    names = [node.name for node in proto.graph.node if node.name]
    ports = [value.name for value in (*proto.graph.input, *proto.graph.output)]
    chosen: dict[str, Any] = {"to": draw.choice(["float16", "float16", "float16", "bfloat16", "float"])}
    chosen["io"] = draw.choice(["keep", "keep", "convert", ",".join(draw.sample(ports, 1))])
    for option in ("lower", "keep"):
        if draw.random() < 0.4 and names:
            chosen[option] = [f"name:{name}" for name in draw.sample(names, len(names) // 2)]
    return chosen


def judged(seed: int) -> str:
    """The first fault of the conversion, or why it is not judged; empty if it is right."""
    before = random_model(seed)
    try:
        onnx.checker.check_model(before, full_check=True)
        old = session(before)
    except Exception as error:
        return f"skipped: {error}"
    options = options_of(seed, before)
    held = {value.type.tensor_type.elem_type for value in (*before.graph.input, *before.graph.output)}
    try:
        result = convert(before, **options)
    except OptionError as refused:
        expected_refusals = ("already in", "bfloat16")
        return "" if any(name in str(refused) for name in expected_refusals) else str(refused)
    warnings = [finding for finding in result.diagnostics if finding.severity is not Severity.NOTE]
    if warnings:
        return f"diagnostics: {warnings[0].message}"
    after = to_proto(result.model)
    merged = {rewrite.site.node for rewrite in result.rewrites if rewrite.pass_name == "simplify-casts"}
    return _valid(before, after, options, merged) or _values(before, old, after, options, held)


def _valid(before: onnx.ModelProto, after: onnx.ModelProto, options: dict[str, Any], merged: set[str]) -> str:
    try:
        onnx.checker.check_model(after, full_check=True)
    except Exception as error:
        return f"invalid: {error}"
    weights = {tensor.name for tensor in before.graph.initializer}
    olds, news = (*before.graph.input, *before.graph.output), (*after.graph.input, *after.graph.output)
    if [port.name for port in olds] != [each.name for each in news]:
        return "the names of inputs and outputs changed"
    io, to = options["io"], options["to"]
    for old, new in zip(olds, news, strict=True):
        source, converted = old.type.tensor_type.elem_type, new.type.tensor_type.elem_type
        asked = (io == "convert" or old.name in io.split(",")) and source in _SOURCES[to]
        if old.name in weights:
            continue
        if converted != (_TYPES[to] if asked else source):
            return f"{old.name} is of type {converted}, asked: {asked}"
    names = [node.name for node in after.graph.node if node.name]
    if len(set(names)) != len(names):
        return "two nodes have one name"
    if any(node.op_type in ("Cast", "CastLike", "ConstantOfShape") for node in before.graph.node):
        return ""  # casts may be removed, and with them what then has no user
    lost = {node.name for node in before.graph.node} - {*names, *merged, ""}
    return f"the node {min(lost)} lost its name" if lost else ""


def _values(
    before: onnx.ModelProto,
    old: onnxruntime.InferenceSession,
    after: onnx.ModelProto,
    options: dict[str, Any],
    held: set[int],
) -> str:
    if options["to"] == "bfloat16":
        return ""  # the runtime has too few kernels
    try:
        new = session(after)
    except Exception as error:
        return f"not loaded: {str(error)[:300]}"
    draw = np.random.default_rng(0)
    arrays = {port.name: draw.normal(0, 0.7, port.shape) for port in old.get_inputs() if port.name in ("x", "z")}
    try:
        expected = _run(old, arrays)
    except Exception as error:
        return f"skipped: {error}"
    actual = _run(new, arrays)
    rough = HALF in held or any(node.op_type in ("Cast", "CastLike") for node in before.graph.node)
    within = max(_WITHIN[options["to"]], _WITHIN["float16"] if rough else 0.0)
    for port, old_output, new_output in zip(before.graph.output, expected, actual, strict=True):
        a, b = np.asarray(old_output, np.float64), np.asarray(new_output, np.float64)
        if a.shape != b.shape:
            return f"{port.name} has another shape"
        usable = np.isfinite(a)
        if not np.isfinite(b[usable]).all():
            return f"{port.name} becomes infinite or NaN"
        error = float(np.abs(a[usable] - b[usable]).max(initial=0.0)) / (1 + float(np.abs(a[usable]).max(initial=0.0)))
        if error > within * len(before.graph.node) ** 0.5:
            return f"{port.name} is off by {error:.3g}"
    return ""


def _run(runs: onnxruntime.InferenceSession, arrays: dict[str, Array]) -> list[Any]:
    """The results on inputs that every type holds."""
    types = {port.name: _NUMPY[port.type[7:-1]] for port in runs.get_inputs()}
    fed = {name: np.asarray(array).astype("f2").astype(types[name]) for name, array in arrays.items()}
    return list(runs.run(None, fed))


def _judge_alone(seed: int, results: multiprocessing.Queue[str]) -> None:
    results.put(judged(seed))


if __name__ == "__main__":
    counts = Counter[str]()
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        answers: multiprocessing.Queue[str] = multiprocessing.Queue()
        process = multiprocessing.Process(target=_judge_alone, args=(number, answers))
        process.start()
        process.join()
        said = answers.get() if process.exitcode == 0 else "the process died"
        counts["skipped" if said.startswith("skipped") else "right" if not said else "wrong"] += 1
        if said and not said.startswith("skipped"):
            print(number, said, flush=True)
    print(dict(counts))
