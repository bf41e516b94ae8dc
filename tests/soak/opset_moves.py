"""Move every backend node test of ONNX to every older opset, with its dimensions and with symbols in their place.

    python -m tests.soak.opset_moves [PATTERN] [--oldest N] [--newest N] [--jobs N]

A move that is not refused gives a model that onnx.checker (full check) accepts, that ONNX Runtime loads if it loads the
original and has the kernels, and whose results are the same; close ones for floats, for which it has kernels of its own
for some opsets. Prints every move that does not, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx.backend.test.case.test_case import TestCase

from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.numerics.errors import present
from castsmith.targets.target import Target
from tests.graphs.backend import array_of_case, node_cases
from tests.lowering.runtime import LEVELS, run, session

OLDEST, NEWEST = 7, 27
_NO_KERNEL = "NOT_IMPLEMENTED"
_RANDOM = re.compile("bernoulli|dropout|random|multinomial|training", re.IGNORECASE)
"""Tests of operators that draw numbers."""
_PACKED = re.compile("u?int[24]($|_)|float[46]e", re.IGNORECASE)
"""Tests of types whose elements share bytes: the Python interface of ONNX Runtime does not give them as arrays."""


@dataclass(frozen=True)
class Outcome:
    """The end of a move: refused, moved, or the fault, and a text about it."""

    kind: str
    text: str = ""


def opset_of_proto(proto: onnx.ModelProto) -> int:
    return next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)


def with_symbols(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a symbol of its own for every dimension of its inputs and outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    for value in (*model.graph.input, *model.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()):
            dim.dim_param = f"{value.name}_{axis}"
    return model


def refusal_of_checker(proto: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


def move(name: str, proto: onnx.ModelProto, to: int, case: TestCase) -> Outcome:
    """Move the model, and compare it with the original."""
    model = onnx_ir.from_proto(proto)
    target = Target("old", "of an older opset", newest_opset=to, newest_ir_version=model.ir_version)
    records = LegalizeVersion(target)(model).records
    moved = onnx_ir.to_proto(model)
    if records.refusals:
        same = moved.SerializeToString() == onnx_ir.to_proto(onnx_ir.from_proto(proto)).SerializeToString()
        return Outcome("refused" if same else "refused but changed", records.refusals[0].reason)
    if opset_of_proto(moved) != to:
        return Outcome("not moved")
    refusal = refusal_of_checker(moved)
    if refusal and not refusal_of_checker(proto):
        return Outcome("invalid", refusal)
    return run_both(name, proto, moved, case)


def run_both(name: str, before: onnx.ModelProto, after: onnx.ModelProto, case: TestCase) -> Outcome:
    """Compare what both give in ONNX Runtime, without optimization and with all of it, and the data of the test."""
    tensors = all(value.type.HasField("tensor_type") for value in (*before.graph.input, *before.graph.output))
    parts = present(case.data_sets, "the data")[0] if tensors else ([], [])
    inputs, data = ([array_of_case(each) for each in part] for part in parts)
    ran = Outcome("moved, not run")
    for level in LEVELS:
        try:
            first = session(before, level)
        except Exception:  # ONNX Runtime has a class for each kind of failure
            return ran
        try:
            second = session(after, level)
        except Exception as error:
            kind = "moved, no kernel" if _NO_KERNEL in str(error) else "loading -> not loading"
            return Outcome(kind, str(error))
        if not tensors or _RANDOM.search(name) or _PACKED.search(name):
            return ran
        feeds = dict(zip((value.name for value in before.graph.input), inputs, strict=True))
        try:
            expected = run(first, feeds)
        except Exception:
            return ran
        try:
            results = run(second, feeds)
        except Exception as error:
            return Outcome("running -> not running", str(error))
        ran = Outcome("same")
        for wanted, got, right in zip(expected, results, data, strict=True):
            if wanted.dtype != got.dtype or wanted.shape != got.shape:
                return Outcome("another type or shape", f"{wanted.dtype}{wanted.shape}, {got.dtype}{got.shape}")
            if wanted.tobytes() != got.tobytes() and not any(_close(each, got) for each in (wanted, right)):
                return Outcome("other numbers", f"{wanted.ravel()[:8]}, {got.ravel()[:8]}")
    return ran


def _close(wanted: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> bool:
    """True if floats differ by what kernels of one operator at two opsets may round otherwise."""
    if wanted.shape != got.shape or wanted.dtype.kind in "biuOSU":
        return False
    tolerance = 1e-5 if wanted.dtype.itemsize >= 4 else 1e-2
    return np.allclose(wanted.astype(np.float64), got.astype(np.float64), tolerance, tolerance, equal_nan=True)


GOOD = ("refused", "moved, not run", "moved, no kernel", "same")


def moves_of(name: str, oldest: int, newest: int) -> Iterator[tuple[str, int, Outcome]]:
    """Yield the variant, the opset and the outcome of each move of the test."""
    case = node_cases("")[name]
    if case.model is None:
        return
    for variant, proto in (("declared", case.model), ("symbols", with_symbols(case.model))):
        if variant == "symbols" and refusal_of_checker(proto):
            continue
        for to in range(oldest, min(opset_of_proto(proto), newest + 1)):
            try:
                yield variant, to, move(name, proto, to, case)
            except Exception as error:
                yield variant, to, Outcome("internal error", f"{type(error).__name__}: {error}")


def _judged(task: tuple[str, int, int]) -> tuple[str, list[tuple[str, int, Outcome]]]:
    warnings.simplefilter("ignore")
    return task[0], list(moves_of(*task))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.opset_moves", description="See the module.")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--oldest", type=int, default=OLDEST)
    parser.add_argument("--newest", type=int, default=NEWEST)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(words)
    tasks = [(name, arguments.oldest, arguments.newest) for name in sorted(node_cases(arguments.pattern))]
    counts = Counter[str]()
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=50) as pool:
        for name, outcomes in pool.imap_unordered(_judged, tasks):
            counts.update(outcome.kind for _, _, outcome in outcomes)
            for variant, to, outcome in outcomes:
                if outcome.kind not in GOOD:
                    print(f"{outcome.kind}: {name} ({variant}) to {to}: {outcome.text[:300]}", flush=True)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    return 1 if set(counts) - set(GOOD) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
