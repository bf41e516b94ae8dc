"""Random shape arithmetic: a runtime gives the same before and after `optimize`, at all sizes at which it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

import castsmith
from tests.graphs.shape_arithmetic import shape_graph
from tests.sampling import check_all, sampled

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], list[Array]]


@dataclass
class Comparison:
    """What was compared of one graph."""

    seed: int
    changed: bool = False
    compared: int = 0
    differences: list[str] = field(default_factory=list[str])


def _onnxruntime(model: onnx.ModelProto) -> Run:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda feeds: cast(Any, session.run(None, dict(feeds)))


def _reference(model: onnx.ModelProto) -> Run:
    evaluator = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return cast(Any, evaluator.run(None, dict(feeds)))

    return run


RUNTIMES: Mapping[str, Callable[[onnx.ModelProto], Run]] = {"onnxruntime": _onnxruntime, "reference": _reference}


def answers(runtime: str, model: onnx.ModelProto, inputs: tuple[dict[str, Array], ...]) -> list[list[Array] | str]:
    """What the runtime gives for each input: arrays, or the reason why it gives none."""
    try:
        run = RUNTIMES[runtime](model)
    except Exception as error:  # each has errors of its own
        return [f"does not load: {error}"] * len(inputs)
    found: list[list[Array] | str] = []
    for feeds in inputs:
        try:
            found.append([np.asarray(array) for array in run(feeds)])
        except Exception as error:  # each has errors of its own
            found.append(f"fails: {error}")
    return found


def same(before: list[Array], after: list[Array]) -> bool:
    return all(
        old.dtype == new.dtype and old.shape == new.shape and np.array_equal(_codes(old), _codes(new))
        for old, new in zip(before, after, strict=True)
    )


def _codes(array: Array) -> Array:
    """The bits of the elements; every NaN as one."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).view(np.uint8)


def compare(seed: int, **options: Any) -> Comparison:
    """Compare the results of one graph before and after `optimize` with the options."""
    graph, result = shape_graph(seed), Comparison(seed)
    try:
        onnx.checker.check_model(graph.model, full_check=True)
    except onnx.shape_inference.InferenceError:  # the reference evaluator is more lenient
        return result
    after = onnx_ir.to_proto(castsmith.optimize(graph.model, **options).model)
    result.changed = after != graph.model
    for runtime in RUNTIMES:
        old, new = (answers(runtime, model, graph.feeds) for model in (graph.model, after))
        for before, now, feeds in zip(old, new, graph.feeds, strict=True):
            if isinstance(before, str):
                continue
            result.compared += 1
            if isinstance(now, str):
                result.differences.append(f"{runtime} {feeds['x'].shape} {now[:300]}")
            elif not same(before, now):
                pairs = zip(graph.model.graph.output, before, now, strict=True)
                differ = [f"{port.name}: {one!r} -> {two!r}" for port, one, two in pairs if not same([one], [two])]
                result.differences.append(f"{runtime} {feeds['x'].shape} {differ[0]}")
    return result


def _check(seed: int) -> None:
    result = compare(seed)
    assert not result.differences, result.differences


def test_the_same_at_all_sizes() -> None:
    check_all(_check, sampled("random shapes", range(400), 40))
