"""No value of a real model leaves what is said of it, in ONNX Runtime without its optimization.

    python -m tests.soak.bounds_of_models RUNS PLACE...     # files, or folders of .onnx files

Each model runs RUNS times for each of some ranges, which are declared for all of its floating-point inputs; every value
of its main graph is an output. Prints each violation, and at the end what was compared.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper

from castsmith import load
from castsmith.numerics.promotion.rules import as_rules
from castsmith.verification.bounds import analysed
from tests.analysis.bounds.cases import Array, adversarial
from tests.analysis.bounds.containment import outside, results, runtimes

RANGES = (1.0, 8.0, 1000.0, 1e20)
SIZES = (2, 1, 512)
"""Of dimensions that are not fixed: the first with which the model runs is taken."""
SECONDS = 120
"""For one model."""
_MOST = 1 << 28
"""Bytes of a model; larger ones are left out."""


class TooLongError(Exception):
    """The time for a model is over."""


def _feeds(model: onnx.ModelProto, most: float, rng: np.random.Generator, size: int, turn: int) -> dict[str, Array]:
    """Return one set of inputs; sizes that are not fixed are `size`."""
    constants = {each.name for each in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else size for dim in tensor.shape.dim)
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if kind.kind == "f" and kind.itemsize >= 2:
            feeds[value.name] = adversarial(rng, shape, -most, most, kind, turn)
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(kind)
    return feeds


def check(path: Path, runs: int, tally: Counter[str]) -> list[str]:
    """Return the violations of a model."""
    model, wrong, rng = onnx.load(path), dict[str, str](), np.random.default_rng(0)
    half = any(each.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for each in model.graph.input)
    floats = [each.name for each in model.graph.input if each.type.tensor_type.elem_type in (1, 10, 11, 16)]
    kept = {each.name for each in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in kept]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    names = [each.name for each in model.graph.output]
    for most in RANGES[: 3 if half else None]:
        analysis = analysed(load(path), dict.fromkeys(floats, (-most, most)), as_rules(None))
        said = {value.name: x for value, x in analysis.seen.items()}
        tally["finite"] += sum(x.finite for x in said.values())
        tally["not certainly finite"] += sum(not x.finite for x in said.values())
        for _, run in runtimes(model, reference=False):
            size = next((n for n in SIZES if results(run, names, _feeds(model, 1.0, rng, n, 0)) is not None), None)
            for turn in range(0 if size is None else runs):
                arrays: Any = results(run, names, _feeds(model, most, rng, size or 1, turn)) or {}
                for name in arrays.keys() & said.keys():
                    tally["comparisons"] += 1
                    fault = outside(said[name], arrays[name], shaped=False)
                    if fault is not None:
                        wrong.setdefault(name, fault)
    return [f"{name}: {fault}" for name, fault in wrong.items()]


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
