"""No result of an operator leaves a proven bound, with random attributes, shapes, types, ranges and opsets.

    python -m tests.ir.bounds.operator_soak START CASES [OPERATOR...]     # cases of each operator, such as 0 40

Each case runs in ONNX Runtime, without its optimization, and in the reference evaluator of ONNX, as far as they run it,
on adversarial inputs. Prints each violation, the share of proven results of each operator, and what ran it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import onnx
import onnx.helper
import onnx.reference
from onnx_ir import DataType

from castsmith import bounds
from tests.ir.bounds.cases import Array, Case
from tests.ir.bounds.operators import OPERATORS
from tests.ir.bounds.search import adversarial
from tests.ir.bounds.soak import outside

FEEDS = 24
_PACKED = (DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2, DataType.FLOAT8E4M3FNUZ)
"""Types that ONNX Runtime returns as bytes."""


def case_of(name: str, seed: int) -> Case:
    """Return the case of an operator that a seed gives."""
    first, last, make = OPERATORS[name]
    rng = np.random.default_rng([seed, sorted(OPERATORS).index(name)])
    case = Case(rng, int(rng.integers(first, last + 1)))
    make(case)
    return case


def feeds(case: Case) -> Iterator[dict[str, Array]]:
    """Yield inputs within the declared ranges."""
    columns: dict[str, Array] = {}
    for name, (shape, dtype) in case.shapes.items():
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
        low, high = case.ranges[name]
        rows = adversarial(low, high, (FEEDS, *shape), case.rng, kind)
        columns[name] = rows
    for turn in range(FEEDS):
        yield {name: rows[turn] for name, rows in columns.items()}


def runners(model: onnx.ModelProto, reference: bool) -> Iterator[tuple[str, Callable[[dict[str, Array]], Any]]]:
    """Yield the runtimes that take the model, with the function that runs it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        run: Any = cast("Any", session).run
        yield "onnxruntime", lambda given: run(None, given)
    except Exception:  # no kernel
        pass
    if not reference:
        return
    try:
        evaluate: Any = cast("Any", onnx.reference.ReferenceEvaluator(model)).run
        yield "reference", lambda given: evaluate(None, given)
    except Exception:
        pass


def violations(name: str, seed: int, ran: Counter[str], proven: Counter[str]) -> list[str]:
    """Run a case, and return what is outside its bounds."""
    case = case_of(name, seed)
    model = case.model()
    found = bounds(model, ranges=case.ranges)
    results = [each.name for each in model.graph.output]
    last = case.nodes[-1].output[0]
    proven[name, last in found and found[last].how] += 1  # pyright: ignore[reportArgumentType]
    wrong = set[str]()
    for runtime, run in runners(model, case.reference):
        for given in feeds(case):
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                    arrays = run(given)
            except Exception:  # an operator that the runtime lacks, or refuses at this size
                break
            ran[f"{name} in {runtime}"] += 1
            numbers = {
                each: np.asarray(array).astype(np.float64)
                for each, array in zip(results, arrays, strict=True)
                if isinstance(array, np.ndarray | np.generic)
                and np.asarray(array).dtype.kind not in "SUOc"
                and (each not in found or found[each].dtype not in _PACKED)
            }
            wrong |= {f"{runtime} opset {case.opset}: {text}" for text in outside(found, numbers)}
    return [f"{name} {seed}, {text}" for text in sorted(wrong)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=int)
    parser.add_argument("cases", type=int)
    parser.add_argument("operators", nargs="*")
    arguments = parser.parse_args()
    ran, proven, count = Counter[str](), Counter[Any](), 0
    names = arguments.operators or sorted(OPERATORS)
    for name in names:
        for seed in range(arguments.start, arguments.start + arguments.cases):
            for text in violations(name, seed, ran, proven):
                print(text, flush=True)
                count += 1
    for name in names:
        total = sum(proven[name, how] for how in ("proven", "measured", "unknown", False))
        places = ", ".join(each for each in ("onnxruntime", "reference") if ran[f"{name} in {each}"])
        print(f"  {name}: {proven[name, 'proven']} of {total} proven; ran in {places or 'nothing'}")
    print(f"{len(names)} operators, {sum(ran.values())} runs, {count} outside")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
