"""No value of a real model leaves a proven bound, in ONNX Runtime and one operator at a time.

    python -m tests.ir.bounds.model_soak RUNS PLACE...     # files, or folders of .onnx files

Each model runs RUNS times in ONNX Runtime with its optimization off and on, every value of its main graph an output,
and a few times one operator at a time, with subgraphs and functions. Floating-point inputs are adversarial, within a
range declared for all of them; other inputs are small. Prints each violation, and at the end what was compared.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper

from castsmith import CastsmithError, bounds
from castsmith.ir.bounds.report import Bounds
from tests.ir.bounds.search import Array, adversarial
from tests.ir.bounds.soak import OF_KERNELS, outside

RANGES = (1.0, 8.0, 1000.0)
SIZES = (2, 1, 512)
"""Of dimensions that are not fixed: the first with which the model runs is taken."""
SECONDS = 120
"""For one model."""
_MOST = 1 << 28
"""Bytes of a model; larger ones are left out."""


class TooLongError(Exception):
    """The time for a model is over."""


def _feeds(model: onnx.ModelProto, most: float, rng: np.random.Generator, size: int) -> dict[str, Array]:
    """Return one set of inputs; sizes that are not fixed are `size`."""
    constants = {each.name for each in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in tensor.shape.dim]
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if kind.kind == "f" and kind.itemsize >= 2:
            feeds[value.name] = adversarial(-most, most, (6, *shape), rng, kind)[int(rng.integers(6))]
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(kind)
    return feeds


def _sessions(model: onnx.ModelProto, names: list[str]) -> Iterator[Any]:
    """Yield sessions of ONNX Runtime, without and with its optimization, in which these values are outputs."""
    import onnxruntime

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    kept = {each.name for each in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in kept)
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
        yield onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _size(model: onnx.ModelProto) -> int:
    """Return the first size with which the model runs, or the last one."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in SIZES[:-1]:
        try:
            session.run(None, _feeds(model, 1.0, np.random.default_rng(0), size))
        except Exception:
            continue
        return size
    return SIZES[-1]


def _violations(found: Bounds) -> list[str]:
    """Return the proven values for which one operator at a time gave more."""
    wrong: list[str] = []
    for name, bound in found.items():
        if bound.how != "proven" or bound.measured is None or OF_KERNELS & {*bound.assumes}:
            continue
        low, high = bound.measured
        if not (bound.low <= low and high <= bound.high):
            wrong.append(f"{name}: [{low!r}, {high!r}] was seen, [{bound.low!r}, {bound.high!r}] is proven")
    return wrong


def check(path: Path, runs: int, tally: Counter[str]) -> list[str]:
    """Return the violations of a model."""
    model, wrong = onnx.load(path), set[str]()
    size = _size(model)
    rng = np.random.default_rng(0)
    floats = [each.name for each in model.graph.input if each.type.tensor_type.elem_type in (1, 10, 11, 16)]
    names = [name for node in model.graph.node for name in node.output if name]
    for most in RANGES:
        ranges = dict.fromkeys(floats, (-most, most))
        few = [_feeds(model, most, rng, size) for _ in range(3)]
        found = bounds(path, ranges=ranges)
        tally["proven"] += found.count("proven")
        tally["unknown"] += found.count("unknown")
        try:
            wrong |= {f"one at a time: {each}" for each in _violations(bounds(path, ranges=ranges, inputs=few))}
            tally["runs"] += len(few)
        except CastsmithError:
            tally["ran only as a whole"] += 1
        kept = [name for name in names if name in found and found[name].how == "proven"]
        for session in _sessions(model, kept):
            wanted = [each.name for each in session.get_outputs() if each.name in kept]
            for _ in range(runs if wanted else 0):
                results = session.run(wanted, _feeds(model, most, rng, size))
                arrays = {name: x for name, x in zip(wanted, results, strict=True) if isinstance(x, np.ndarray)}
                wrong |= set(outside(found, {name: x for name, x in arrays.items() if x.dtype.kind == "f"}))
                tally["runs"] += 1
    return sorted(wrong)


def _stop(*_: object) -> None:
    raise TooLongError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int)
    parser.add_argument("places", nargs="+", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    tally, failed = Counter[str](), 0
    for place in arguments.places:
        for path in sorted(place.rglob("*.onnx")) if place.is_dir() else [place]:
            if path.stat().st_size > _MOST:
                continue
            signal.alarm(SECONDS)
            try:
                found = check(path, arguments.runs, tally)
            except Exception as error:  # the runtimes raise many kinds for what they do not run
                tally[f"not run: {type(error).__name__}"] += 1
                continue
            finally:
                signal.alarm(0)
            tally["models"] += 1
            failed += bool(found)
            for text in found[:5]:
                print(f"{path}: {text}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in tally.items()), f"; {failed} models with a value outside")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
