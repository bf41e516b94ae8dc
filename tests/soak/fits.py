"""Every model of some folders, fitted to targets; the engines that are installed run the results as whole models.

    nice python -m tests.soak.fits FOLDER ... [--target NAME ...] [--max-error 1e-2] [--seconds 300] [--match TEXT]

ONNX Runtime runs each result, without its optimizations and with all of them, and OpenVINO what was fitted to it. What
they compute is compared with what the same engine makes of the model, and with the values that `fit` measures against:
it has to agree with one of them. A result that needs kernels or operators that only its target has is lowered to ONNX
Runtime's CPU first. Each pair runs in a process of its own. Prints how each went; exits with 1 if a result fails or is
further off than the plan allows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.soak.conversions import outcome

TARGETS = (
    "tensorrt-11",
    "onnxruntime-webgpu",
    "coreml",
    "openvino-npu",
    "onnxruntime-android",
    "openvino-cpu",
    "onnxruntime-cpu",
)
_FLOATS = "fV"
_CANNOT = ("NOT_IMPLEMENTED", "is not a registered function/op", "INVALID_GRAPH", "type is not supported with")
"""What ONNX Runtime says of kernels, operators and types that only other targets have."""
_ORDER_OF_SUMS = {"FLOAT": 1e-4, "DOUBLE": 1e-4, "FLOAT16": 1e-2, "BFLOAT16": 5e-2}
"""What the order of sums may change in a model with values of the type, where the plan rounds none."""

Feeds = Mapping[str, Any]
Run = Callable[[str, Feeds], list[Any]]


def fitted(path: str, target: str, allowed: str) -> str:
    """Fit the model, run the result, and say how it went: `fine`, `refused: ...` or what is wrong."""
    import castsmith
    from castsmith.ir.walks import all_values
    from castsmith.lowering.accuracy import reference

    start = time.process_time()
    result = castsmith.fit(path, target=target, max_error=float(allowed))
    seconds = time.process_time() - start
    if not result.plan:
        return f"refused: {'; '.join(each.message for each in result.diagnostics)[:300]}"
    before = castsmith.load(path)
    _, feeds, values = reference(before, "made-up").runs[0]
    right = [values[(), value.name or ""] for value in before.graph.outputs]
    types = {value.dtype.name for value in all_values(before) if value.dtype is not None}
    limit = max([_ORDER_OF_SUMS.get(name, 0.0) for name in types] + [float(allowed) * (result.error is not None)])
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/made.onnx"
        result.save(made)
        for engine in _engines(target):
            try:
                outputs = engine(made, feeds)
                wanted = _wanted(path, feeds, engine, right)
            except Exception as error:  # of a foreign engine
                return f"WRONG: {type(error).__name__}: {str(error)[:300]}"
            # What agrees with the reference is right, also where the engine computes the model itself otherwise.
            worst = max(worst, min(max(map(_error, each, outputs)) for each in (wanted, right)))
    verdict = "fine" if worst <= limit else "WRONG"
    return f"{verdict}: error {worst:.2g}, allowed {limit:g} ({seconds:.1f} s, {len(result.plan)} steps)"


def _wanted(path: str, feeds: Feeds, engine: Run, right: list[Any]) -> list[Any]:
    try:
        return engine(path, feeds)
    except Exception:  # a foreign engine, which refuses what castsmith is there to repair
        return right


def _engines(target: str) -> list[Run]:
    if target == "openvino-cpu":
        return [_openvino]
    return [partial(_onnxruntime, optimized=optimized) for optimized in (False, True)]


def _onnxruntime(path: str, feeds: Feeds, *, optimized: bool) -> list[Any]:
    import castsmith

    try:
        return _in_session(path, feeds, optimized=optimized)
    except Exception as error:  # of a foreign engine
        if not any(text in str(error) for text in _CANNOT):
            raise
    lowered = castsmith.optimize(path, target="onnxruntime-cpu").proto.SerializeToString()
    return _in_session(lowered, feeds, optimized=optimized)


def _in_session(model: bytes | str, feeds: Feeds, *, optimized: bool) -> list[Any]:
    from tests.lowering.runtime import run
    from tests.soak.sweep.execute import ort_session

    session = ort_session(model, optimized=optimized)
    types = {each.name: each.type for each in session.get_inputs()}
    return run(session, {name: _as(types[name], array) for name, array in feeds.items() if name in types})


def _as(kind: str, array: Any) -> Any:
    """Return the array in the type of the input: a plan may change the types of inputs."""
    from castsmith.numerics.types import parse_type

    return np.asarray(array).astype(parse_type(kind.removeprefix("tensor(").removesuffix(")")).numpy())


def _openvino(path: str, feeds: Feeds) -> list[Any]:
    """Run the model; arrays of bfloat16, which OpenVINO calls float16, are passed and returned as they are."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = {
        port: _stored(np.asarray(feeds[port.any_name]), port) for port in compiled.inputs if port.any_name in feeds
    }
    results = compiled(given)
    return [results[port].view(ml_dtypes.bfloat16) if _is_brain(port) else results[port] for port in compiled.outputs]


def _stored(array: Any, port: Any) -> Any:
    return (
        array.astype(ml_dtypes.bfloat16).view(np.float16)
        if _is_brain(port)
        else array.astype(port.element_type.to_dtype())
    )


def _is_brain(port: Any) -> bool:
    return port.element_type.get_type_name() == "bf16"


def _error(wanted: Any, found: Any) -> float:
    """The greatest difference, relative to the greatest element, as `--measure` has it."""
    a, b = np.asarray(wanted).astype(np.float64), np.asarray(found).astype(np.float64)
    if a.shape != b.shape:
        return np.inf
    undefined = ~np.isfinite(a)
    if not np.array_equal(undefined, ~np.isfinite(b)):
        return np.inf
    difference = np.abs(np.where(undefined, 0, a) - np.where(undefined, 0, b))
    return float(difference.max(initial=0) / max(float(np.abs(np.where(undefined, 0, a)).max(initial=0)), 1e-30))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.fits", description="Fit many models, and run them.")
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--target", action="append", help="may be repeated")
    parser.add_argument("--max-error", default="1e-2")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each pair")
    parser.add_argument("--match", default="", help="only paths that contain this text")
    arguments = parser.parse_args(words)
    paths = [path for folder in arguments.folder for path in sorted(Path(folder).rglob("*.onnx"))]
    counts = Counter[str]()
    for path in (path for path in paths if arguments.match in str(path)):
        for target in arguments.target or TARGETS:
            text = outcome(fitted, str(path), target, arguments.max_error, seconds=arguments.seconds)
            kind = text.split(":")[0] if text.startswith(("fine", "refused")) else "WRONG"
            counts[kind] += 1
            print(f"{path.name} {target}: {text}", flush=True)
    print(dict(counts))
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
