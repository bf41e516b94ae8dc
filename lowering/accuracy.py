"""The error of a converted model, measured: both models run on the same inputs, one operator at a time.

Values keep their names when a model is converted, so that each can be compared with what it was before: the output
that is furthest off, the first node at which the error grows by leaps, and every value that became infinite or NaN,
even if a later node absorbs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.walks import nodes_of
from castsmith.lowering.results import Accuracy, OutputError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.precision.evidence import prefix_of
from castsmith.targets.target import Target
from castsmith.verification.bounds import Bound
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.engines import Engine, EngineError, adds_up
from castsmith.verification.evaluate.evaluator import Evaluator, Path as Route
from castsmith.verification.evaluate.limits import Budget, seconds_for
from castsmith.verification.evaluate.names import EngineName
from castsmith.verification.evaluate.sums import scales_a_sum
from castsmith.verification.inputs.given import GivenInputs, given_sets
from castsmith.verification.inputs.sets import mild_sets

Array = NDArray[Any]
Inputs = Literal["made-up"] | GivenInputs
"""Inputs to measure on: arrays by name, several sets of them, an .npz, a folder, or `made-up`."""


def is_made_up(inputs: Inputs | None) -> bool:
    """True if inputs are to be generated: the caller gives none, or asks for that."""
    return inputs is None or (isinstance(inputs, str) and inputs == "made-up")


FLOATS = frozenset({DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE})
"""The types between which inputs are rounded."""

_FLOATS = "fV"
"""Kinds of arrays of floating-point numbers; those of ml_dtypes are V."""

_MOST_BYTES = 256 << 20
"""Bytes of intermediate values of one run that are kept for comparison."""

_LEAP, _NOTABLE = 8.0, 1e-3
"""The error of a node leaps where it is so many times that of its inputs, and notable at all."""

_MASK = -1e5
"""Numbers up to this one are mask values: of them only the sign and the size matter."""

_LOGITS = 2
"""Elements along the last axis from which an output may be scores, of which the greatest counts."""


@dataclass
class Reference:
    """The model before the conversion, with its results on each set of inputs; each run has a time limit of its own."""

    model: onnx_ir.Model
    engine: Engine
    seconds: float
    runs: list[tuple[str, Any, dict[tuple[Route, str], Array]]] = field(default_factory=list[Any])
    notes: list[str] = field(default_factory=list[str])
    target: Target | None = None

    def measured(self) -> dict[str, Bound]:
        """The least and greatest finite element of each value over all sets, inputs included, by `keys_of`."""
        bounds = dict[str, Bound]()
        for key, arrays in self.arrays().items():
            finite = [numbers[np.isfinite(numbers)] for numbers in map(_wide, arrays)]
            sizes = [(float(numbers.min()), float(numbers.max())) for numbers in finite if numbers.size]
            if sizes:
                bounds[key] = Bound(min(low for low, _ in sizes), max(high for _, high in sizes), "measured")
        return bounds

    def arrays(self) -> dict[str, list[Array]]:
        """What each value is in all runs, turns of loops and calls, by `keys_of`."""
        arrays, calls = defaultdict[str, list[Array]](list), _Calls(self.model)
        for _, _, values in self.runs:
            for (route, name), array in values.items():
                arrays[calls.prefix(route) + name].append(array)
        return dict(arrays)

    def evaluator(self, model: onnx_ir.Model) -> Evaluator:
        """An evaluator of the model."""
        return Evaluator(model, PromotionRules(promote_unsafe=True), self.engine, Budget(self.seconds))

    def values(self, evaluator: Evaluator, feeds: Any) -> dict[tuple[Route, str], Array]:
        """The floating-point values of one run, which has all of the time; inputs and outputs under the empty route."""
        evaluator.budget, room = Budget(self.seconds), _MOST_BYTES
        fed = cast("Mapping[str, object]", feeds)
        values: dict[tuple[Route, str], Array] = {
            ((), name): array
            for name, array in fed.items()
            if isinstance(array, np.ndarray) and array.dtype.kind in _FLOATS
        }

        def watch(route: Route, value: onnx_ir.Value, tensor: Tensor) -> None:
            nonlocal room
            if tensor.array.dtype.kind in _FLOATS and tensor.array.nbytes <= room:
                room -= tensor.array.nbytes
                values[route, value.name or ""] = tensor.array

        results = evaluator.run(feeds, watch)
        return values | {((), name): held.array for name, held in results.items() if isinstance(held, Tensor)}


class _Calls:
    """The functions in which values are, by their routes."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self._calls: dict[str, dict[str, onnx_ir.Function]] = {}
        for prefix, scope in (("", model.graph), *((prefix_of(callee), callee) for callee in model.functions.values())):
            called = ((node, model.functions.get(node.op_identifier())) for node in nodes_of(scope) if node.outputs)
            self._calls[prefix] = {node.outputs[0].name or "": callee for node, callee in called if callee is not None}

    def prefix(self, route: Route) -> str:
        """Return what stands before the names of values there; nothing outside of functions."""
        prefix = ""
        for name, _ in route:
            function = self._calls[prefix].get(name)
            prefix = prefix if function is None else prefix_of(function)
        return prefix


def reference(
    model: onnx_ir.Model,
    inputs: Inputs | None = None,
    dims: Mapping[str, int] | None = None,
    engine: EngineName = "onnxruntime",
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    of: onnx_ir.Model | None = None,
    target: Target | None = None,
) -> Reference:
    """Run the model on the inputs and keep its values. Raises ModelError where it runs on no set of inputs.

    Args:
        ranges: Between which numbers generated inputs lie, by name.
        of: The model that the inputs are for, of which the other is the same in float.
        target: The runtime that says where float16 is added up in float16: where it does not say so, in sums and norms,
            and before the factor of a Gemm.
    """

    def half_inside(node: onnx_ir.Node) -> bool:
        dtype = None if target is None else target.sums_in(node.op_type)
        return adds_up(node) or scales_a_sum(node) if dtype is None else dtype == DataType.FLOAT16

    baseline = Reference(model, Engine(engine, half_inside), 2 * seconds_for((model,)), target=target)
    of = of or model
    evaluator, sampler = baseline.evaluator(model), baseline.evaluator(of)
    if inputs is None or is_made_up(inputs):
        sets = mild_sets(of, sampler, sampler.budget, dims or {})
        sets = ((name, _within(feeds, ranges or {})) for name, feeds in sets)
    else:
        sets = given_sets(of, inputs)
    for name, within in sets:
        feeds = fed(model, fed(of, within))
        try:
            baseline.runs.append((name, feeds, baseline.values(evaluator, feeds)))
        except EngineError as error:
            baseline.notes.append(f"not run on {name}: {error}")
    if not baseline.runs:
        why = baseline.notes[0] if baseline.notes else "there are no inputs"
        raise ModelError(f"the error cannot be measured: {why.rstrip('.')}.")
    return baseline


@dataclass
class _Comparison:
    """The differences of two models, over all sets of inputs."""

    results: frozenset[tuple[Route, str]]
    """The outputs of the model."""
    names: list[str] = field(default_factory=list[str])
    outputs: dict[str, OutputError] = field(default_factory=dict[str, OutputError])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    overflows: dict[str, None] = field(default_factory=dict[str, None])
    notes: list[str] = field(default_factory=list[str])
    differing: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def add(self, expected: Mapping[tuple[Route, str], Array], actual: Mapping[tuple[Route, str], Array]) -> None:
        """Compare the values of one run that both models have."""
        for key, before in expected.items():
            after, name, is_output = actual.get(key), key[1], key in self.results
            if after is None:
                continue
            if before.dtype.kind not in _FLOATS:
                if is_output:
                    differing = before.size if after.shape != before.shape else int(np.count_nonzero(after != before))
                    counts = self.differing.get(name, (0, 0))
                    self.differing[name] = counts[0] + differing, counts[1] + before.size
            elif after.shape != before.shape and is_output:
                self.outputs[name] = OutputError(name, np.inf, np.inf, 0.0, None)
            elif after.shape == before.shape:
                error = _error(name, before, after)
                if np.isfinite(_wide(before)).all() and not np.isfinite(_wide(after)).all():
                    self.overflows[name] = None
                self.errors[name] = max(self.errors.get(name, 0.0), error.relative)
                if is_output:
                    self._count_defined(name, before, after)
                    self.outputs[name] = _worse(self.outputs.get(name, error), error)
            if is_output and after.shape != before.shape:
                self.notes.append(f"{name} has the shape {list(after.shape)} instead of {list(before.shape)}")

    def _count_defined(self, name: str, before: Array, after: Array) -> None:
        """Note elements of an output that are NaN in the model alone, such as the softmax of a row of masks."""
        count = int(np.count_nonzero(np.isnan(_wide(before)) & ~np.isnan(_wide(after))))
        if count:
            self.notes.append(
                f"{count} of {before.size} elements of {name} are NaN in the model and numbers in the result"
            )


def measure(before: Reference, after: onnx_ir.Model) -> Accuracy:
    """Run the converted model on the inputs of the reference and compare all values that both have."""
    evaluator = before.evaluator(after)
    results = frozenset[tuple[Route, str]](((), value.name or "") for value in before.model.graph.outputs)
    compared = _Comparison(results, notes=list(before.notes))
    for name, feeds, expected in before.runs:
        try:
            actual = before.values(evaluator, fed(after, feeds))
        except EngineError as error:
            compared.notes.append(f"the result does not run on {name}: {error}")
            continue
        compared.names.append(name)
        compared.add(expected, actual)
    contributions, leap = _by_node(before.model, compared.errors)
    return Accuracy(
        tuple(compared.names),
        tuple(compared.outputs.values()),
        leap,
        tuple(compared.overflows),
        contributions,
        tuple(dict.fromkeys(compared.notes)),
        compared.differing,
    )


def _within(feeds: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return generated inputs with those that have a range spread over it, both ends included."""
    spread_out = dict(feeds)
    for name, (low, high) in ranges.items():
        array = cast("Array | None", spread_out.get(name))
        if array is not None and array.dtype.kind == "f" and array.size:
            spread = np.random.default_rng(array.size).uniform(low, high, array.size)
            spread[:2] = (low, high)[: array.size]
            spread_out[name] = spread.reshape(array.shape).astype(array.dtype)
    return spread_out


def fed(model: onnx_ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs in the types that the model declares: those that a conversion changed are rounded."""
    types = {value.name: value.dtype for value in model.graph.inputs if value.dtype in FLOATS}
    with np.errstate(over="ignore"):
        return {
            name: cast("Array", array).astype(dtype.numpy())
            if (dtype := types.get(name)) is not None and isinstance(array, np.ndarray) and array.dtype.kind == "f"
            else array
            for name, array in feeds.items()
        }


def _wide(array: Array) -> Array:
    return np.asarray(array, dtype=np.float64)


def _error(name: str, expected: Array, actual: Array) -> OutputError:
    a, b = _wide(expected).ravel(), _wide(actual).ravel()
    # Mask values become the lowest number, and rows of masks alone, NaN, numbers: what is beside them is compared.
    compared = ~(((a <= _MASK) & (b <= _MASK / 2)) | np.isnan(a))
    a, b = a[compared], b[compared]
    if not a.size:
        return OutputError(name, 0.0, 0.0, 1.0, None)
    same = a == b
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
    difference: Array = np.where(np.isnan(difference), np.inf, difference)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(cast("float", finite.max())) if finite.size else 0.0
    absolute = float(cast("float", difference.max()))
    relative = absolute / scale if scale else (0.0 if absolute == 0.0 else float("inf"))
    return OutputError(name, absolute, relative, _cosine(a, b), _top1(expected, actual))


def _cosine(a: Array, b: Array) -> float:
    usable = np.isfinite(a) & np.isfinite(b)
    a, b = a[usable], b[usable]
    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(np.dot(a, b)) / lengths if lengths else 1.0


def _top1(expected: Array, actual: Array) -> float | None:
    if expected.ndim < 2 or expected.shape[-1] <= _LOGITS:
        return None
    rows = ~np.isnan(_wide(expected)).any(-1)
    same: Array = _wide(expected)[rows].argmax(-1) == _wide(actual)[rows].argmax(-1)
    return float(np.count_nonzero(same)) / max(same.size, 1)


def _worse(a: OutputError, b: OutputError) -> OutputError:
    top1 = None if a.top1 is None or b.top1 is None else min(a.top1, b.top1)
    return OutputError(a.name, max(a.absolute, b.absolute), max(a.relative, b.relative), min(a.cosine, b.cosine), top1)


def _by_node(model: onnx_ir.Model, errors: Mapping[str, float]) -> tuple[dict[str, float], tuple[str, float] | None]:
    """Return the error that each node of the main graph adds to that of its inputs, and the first that adds much."""
    contributions, leap = dict[str, float](), None
    for node in model.graph:
        name = node.outputs[0].name or "" if node.outputs else ""
        if name in errors:
            before = max((errors.get(value.name or "", 0.0) for value in node.inputs if value is not None), default=0.0)
            added = contributions[name] = max(0.0, errors[name] - before)
            if leap is None and added > max(_NOTABLE, _LEAP * before):
                leap = name, added
    return contributions, leap
