"""Casts left by each optimizer, the bytes they move, and whether the model still computes the same bits.

python benchmarks/casts_left.py MODEL...      needs onnxruntime, onnxslim and onnxscript

"least" is what casts have to move whatever other operators do, given that every operator that computes keeps its types:
the place of casts that costs least when moves cost nothing, by `castsmith.passes.place.solve`.

Bits are compared between the model and what became of it, both run by the ONNX reference implementation with Cast as
the standard has it; `-` where the result has operators of the optimizer's own. Bytes are read and written by Casts of
values that are not constant, at the sizes that shape inference finds; an unknown dimension counts 1.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import onnxscript.optimizer
import onnxslim

import castsmith
from castsmith.ir.constants import constant_tensor
from castsmith.ir.inference.intervals import Ranges
from castsmith.ir.inference.walk import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.place.regions import find_regions, pose
from castsmith.passes.place.sizes import Sizes as PlaceSizes
from castsmith.passes.place.solve import solve
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for

Optimizer = Callable[[onnx.ModelProto], onnx.ModelProto]


def by_onnxruntime(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.log_severity_level = 4
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return onnx.load(options.optimized_model_filepath)


def by_onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxslim.slim(model)


def by_onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxscript.optimizer.optimize(model)


def by_castsmith(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx_ir.to_proto(castsmith.optimize(model).model)


OPTIMIZERS: dict[str, Optimizer] = {
    "as it is": lambda model: model,
    "onnxruntime": by_onnxruntime,
    "onnxslim": by_onnxslim,
    "onnxscript": by_onnxscript,
    "castsmith": by_castsmith,
}


def casts_and_bytes(proto: onnx.ModelProto) -> tuple[int, int, int]:
    """The Casts of values that are no constants, the bytes they read and write, and the Casts of constants."""
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    types = infer_element_types(model, PromotionRules(promote_unsafe=True))
    count = moved = constant = 0
    for node in model.graph.all_nodes():
        if node.op_type != "Cast":
            continue
        if constant_tensor(node.inputs[0]) is not None:
            constant += 1
            continue
        ends = [value for value in (*node.inputs, *node.outputs) if value is not None]
        size = sum(_elements(value) * (dtype.itemsize if (dtype := types.type_of(value)) else 4) for value in ends)
        count, moved = count + 1, moved + int(size)
    return count, moved, constant


def least_bytes(proto: onnx.ModelProto) -> int:
    """The bytes that casts of values that are no constants read and write at least, wherever they stand."""
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    types = infer_element_types(model, PromotionRules(promote_unsafe=True))
    sizes, ranges, saved = PlaceSizes(model, 1, {}), Ranges(types), 0.0
    for region in find_regions(model.graph, types, model.graph.opset_imports, ranges):
        problem = pose(region, types, model.graph.opset_imports, sizes, ranges, namer=Namer(model))
        if isinstance(problem, str):
            continue
        moved = problem.cost_of_moves(problem.kept)
        free = replace(problem, moves=[replace(move, elements=0) for move in problem.moves], _plans={})
        saved += problem.before - moved - free.cost(solve(free)[0])
    return casts_and_bytes(proto)[1] - int(saved)


def same_bits(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Whether two models compute the same bits from the same inputs."""
    if any(node.domain not in ("", "ai.onnx") for node in after.graph.node):
        return "-"
    first, second = onnx_ir.from_proto(before), onnx_ir.from_proto(after)
    feeds = inputs_for(first, 0, dimension=2)
    feeds = {name: np.random.default_rng(0).normal(0, 1, a.shape).astype(a.dtype) for name, a in feeds.items()}
    with np.errstate(all="ignore"):
        pairs = zip(evaluate(first, feeds), evaluate(second, feeds), strict=True)
        return "same" if all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs) else "DIFFER"


def _elements(value: onnx_ir.Value) -> int:
    return 1 if value.shape is None else prod(dim if isinstance(dim, int) else 1 for dim in value.shape)


def main(paths: list[str]) -> None:
    print(f"{'model':28}{'optimizer':14}{'casts':>6}{'bytes':>10}{'least':>10}{'of constants':>14}  bits")
    for path in paths:
        original = onnx.load(path)
        for name, optimizer in OPTIMIZERS.items():
            label = f"{Path(path).stem:28}{name:14}"
            model = onnx.ModelProto()
            model.CopyFrom(original)
            try:
                result = optimizer(model)
            except Exception as error:  # whatever another tool fails with is its result here
                print(f"{label} fails: {str(error).splitlines()[0][:60]}")
                continue
            count, moved, constant = casts_and_bytes(result)
            try:
                bits = same_bits(original, result)
            except Exception as error:
                bits = f"cannot run: {str(error).splitlines()[0][:50]}"
            least = least_bytes(result) if name == "castsmith" else ""
            print(f"{label}{count:6}{moved:10}{least:>10}{constant:14}  {bits}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
