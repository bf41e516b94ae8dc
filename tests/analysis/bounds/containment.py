"""The oracle of the tests of bounds: what runtimes compute, compared with what the analysis says of it, exactly.

Each value of a model is an output of it. A number must lie between the ends of its place, and NaN and the infinities
must be among what is said to be possible there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Interval, collapsed
from castsmith.analysis.bounds.rounding import is_integer
from castsmith.numerics.promotion.rules import as_rules
from castsmith.verification.bounds import analysed
from tests.versions import ONNXRUNTIME

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], list[Any]]

_COUNTED = "biuf"
"""Kinds of arrays that numpy holds in types of its own."""


def intervals(model: onnx.ModelProto, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Interval]:
    """Return what is said of each value of the graph, by name."""
    graph = onnx_ir.from_proto(model)
    return {value.name or "": x for value, x in analysed(graph, ranges, as_rules(None)).seen.items()}


def outside(x: Interval, array: Array, *, shaped: bool = True) -> str | None:
    """Return what is wrong about an element that is not among those that the interval holds; None if all are.

    shaped: False for an evaluator that may be wrong about shapes, and about the width of integers: all elements are
        then compared with all entries.
    """
    if not shaped:
        x = collapsed(x, None)
        if is_integer(x.dtype) and array.dtype.kind in "iu":
            array = array.astype(x.dtype.numpy())
    if x.dims is not None and (
        len(x.dims) != array.ndim or any(dim not in (None, n) for dim, n in zip(x.dims, array.shape, strict=True))
    ):
        return f"the shape {array.shape} is not {x.dims}"
    if array.dtype == np.uint8 and x.dtype is not None and x.dtype not in (DataType.UINT8, DataType.BOOL):
        array = array.view(x.dtype.numpy())  # ONNX Runtime returns the codes of float8 types
    numbers = array.astype(np.float64)
    low, high, nan, plus, minus = (
        np.broadcast_to(each, numbers.shape) for each in (x.low, x.high, x.nan, x.plus, x.minus)
    )
    wrong = (numbers < low) | (numbers > high)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:  # which float64 does not hold
        wrong &= np.abs(numbers - np.clip(numbers, low, high)) > np.abs(numbers) * 2.0**-52
    possible = np.where(np.isnan(numbers), nan, np.where(numbers > 0, plus, minus))
    wrong = np.where(np.isfinite(numbers), wrong, np.logical_not(possible))
    if not wrong.any():
        return None
    place = tuple(int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    special = "".join(name for name, may in (("NaN", nan), ("+", plus), ("-", minus)) if may[place])
    return f"{array[place]!r} at {place} is not in [{low[place]!r}, {high[place]!r}] {special}"


_WRONG_UNTIL_1_32 = frozenset({"Erf", "LayerNormalization", "SkipLayerNormalization"})
"""Operators of ONNX Runtime that older releases compute wrongly.

Erf of NaN is -1 in 1.26. The variance of a short row is E[x^2] - E[x]^2, and NaN is the root of one below 0.
"""


def runtimes(model: onnx.ModelProto, *, reference: bool = True) -> Iterator[tuple[str, Run]]:
    """Yield the runtimes that take the model, with the function that runs it."""
    wrong = ONNXRUNTIME < (1, 32) and not _WRONG_UNTIL_1_32.isdisjoint(node.op_type for node in model.graph.node)
    if not wrong:
        yield from _onnxruntime(model)
    if not reference:
        return
    try:
        evaluate: Any = onnx.reference.ReferenceEvaluator(model)
        yield "reference", lambda feeds: evaluate.run(None, feeds)
    except Exception:
        pass


def _onnxruntime(model: onnx.ModelProto) -> Iterator[tuple[str, Run]]:
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session: Any = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        yield "onnxruntime", lambda feeds: session.run(None, feeds)
    except Exception:  # no kernel, for one of the many reasons that it gives
        pass


def results(run: Run, names: list[str], feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the numbers that a run gives, by name; None if the runtime refuses it."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            arrays = run(feeds)
    except Exception:
        return None
    found = zip(names, map(np.asarray, arrays), strict=True)
    return {name: array for name, array in found if array.dtype.kind in _COUNTED or array.dtype.name == "bfloat16"}


def violations(
    model: onnx.ModelProto,
    ranges: Mapping[str, tuple[float, float]],
    feeds: list[dict[str, Array]],
    *,
    reference: bool = True,
    ran: Callable[[str, int], None] = lambda _, __: None,
) -> list[str]:
    """Run a model, all of whose values are outputs, and return what is outside of what is said of it.

    ran: Called for each run with the runtime and the number of values that were compared.
    """
    said = intervals(model, ranges)
    names, wrong = [each.name for each in model.graph.output], dict[str, str]()
    for runtime, run in runtimes(model, reference=reference):
        for feed in feeds:
            arrays = results(run, names, feed)
            if arrays is None:
                break
            compared = {name: array for name, array in arrays.items() if name in said}
            ran(runtime, len(compared))
            for name, array in compared.items():
                fault = outside(said[name], array, shaped=runtime != "reference")
                if fault is not None:
                    wrong.setdefault(f"{runtime}: {name}", fault)
    return [f"{name}: {fault}" for name, fault in wrong.items()]
