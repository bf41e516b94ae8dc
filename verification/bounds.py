"""`castsmith.bounds`: the bounds of all values of a model by name, and what a narrower type does not hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.analysis import Analysis
from castsmith.analysis.bounds.calls import Calls
from castsmith.analysis.bounds.defaults import default_ranges
from castsmith.analysis.bounds.interval import Interval, absolute
from castsmith.analysis.bounds.remembered import Remembered
from castsmith.analysis.bounds.rounding import is_float, largest, smallest, unit_roundoff
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.ir.notebook import notebook_html
from castsmith.ir.validation import require_known_opset
from castsmith.ir.walks import nodes_of
from castsmith.numerics.arguments import mapping, range_of
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.numerics.types import TypeLike, parse_type, type_name
from castsmith.verification.inputs.given import GivenInputs, given_sets

How = Literal["proven", "measured", "unknown"]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds of the elements of one value.

    Attributes:
        low: No element is less, as far as `how` says.
        high: No element is greater.
        how: "proven": for every input in the declared ranges; "measured": on the given inputs; "unknown": neither.
        dtype: The element type.
        assumes: What a proof takes for granted, in words.
        depends_on: Inputs without a declared range that the value depends on.
        measured: The least and greatest element seen, where inputs were given.
        may_be_nan: True where NaN is not excluded; of a measured bound, where it was seen.
        least_magnitude: No element is nearer to 0, of a proven bound; 0 where an element may be 0.
    """

    low: float
    high: float
    how: How
    dtype: DataType | None = None
    assumes: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    measured: tuple[float, float] | None = None
    may_be_nan: bool = False
    least_magnitude: float = 0.0

    @property
    def magnitude(self) -> float:
        """The largest absolute value within the bounds."""
        return max(abs(self.low), abs(self.high))

    @property
    def margin(self) -> float | None:
        """The proven bound divided by the measured one; None if either is missing."""
        if self.measured is None or self.how != "proven":
            return None
        measured = max(abs(end) for end in self.measured)
        return self.magnitude / measured if measured else math.inf


@dataclass
class Bounds(Mapping[str, Bound]):
    """Bounds by the name of the value, in the order of the model.

    Attributes:
        makers: The node that makes each value, as `name (operator)`; the value's own name for inputs.
        sources: The values that each value is computed from.
        settling: Inputs without a declared range, with the number of unknown values that depend on each.
    """

    found: dict[str, Bound] = field(default_factory=dict[str, Bound])
    makers: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    settling: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def __getitem__(self, name: str) -> Bound:
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def count(self, how: How) -> int:
        """The number of values whose bound is known so."""
        return sum(bound.how == how for bound in self.found.values())

    def summary(self) -> str:
        """Return one sentence: the number of values, and how their bounds are known."""
        counts = ", ".join(f"{self.count(how)} {how}" for how in get_args(How))
        return f"{len(self)} value{'' if len(self) == 1 else 's'}: {counts}"

    def __repr__(self) -> str:
        return f"<Bounds: {self.summary()}>"

    def _repr_html_(self) -> str:
        names = sorted(self, key=lambda name: (self[name].how == "unknown", -self[name].magnitude))
        head = ("value", "node", "type", "low", "high", "how")
        rows = [(name, self.makers[name], *_cells(self[name])) for name in names]
        lines = [f"{count} unknown values depend on the range of {name}" for name, count in self.settling]
        return notebook_html(self.summary(), {"values": (head, rows)}, lines)


def _cells(bound: Bound) -> tuple[str, str, str, str]:
    dtype = "" if bound.dtype is None else type_name(bound.dtype)
    return dtype, f"{bound.low:.6g}", f"{bound.high:.6g}", bound.how


def bounds(
    model: ModelLike,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    inputs: GivenInputs | None = None,
    promotion: PromotionRules | str | None = None,
) -> Bounds:
    """Bound every floating-point value of a model.

    A bound is proven if it holds for every input in the declared ranges, roundings included. Inputs without a range may
    be any finite number; what follows from them holds as long as no value overflows the model's own type.

    Args:
        model: A model in any form, such as a path. It is not changed.
        ranges: Least and greatest element of graph inputs, by name. An input without one has the range that the model
            shows (masks, images with metadata), which is among what its bounds assume, or that of its type.
        inputs: Arrays to measure the values on: by name, several sets, an .npz or a folder.
        promotion: Rules for operands that disagree in type, or the name of a preset.

    Returns:
        A mapping from the names of values, those in subgraphs included, to bounds. A value in
        a function has one bound for all calls, and the name `domain::function/value`.

    Raises:
        ModelError: The model cannot be read.
        OptionError: A range names an unknown input or is empty.
        EngineError: The model does not run on the given inputs.
    """
    return bounds_remembering(model, ranges=ranges, inputs=inputs, promotion=promotion)


def bounds_remembering(
    model: ModelLike,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    inputs: GivenInputs | None = None,
    promotion: PromotionRules | str | None = None,
    remembered: Remembered | None = None,
) -> Bounds:
    """Return the result of `bounds`, and remember what was found of large constants.

    Args:
        remembered: What was found of large constants in another model; takes what is found in this one.
    """
    model, rules = as_model(model), as_rules(promotion)
    analysis = analysed(model, mapping("ranges", ranges), rules, remembered)
    return _result(model, analysis, {} if inputs is None else _measured(model, rules, inputs))


def analysed(
    model: onnx_ir.Model,
    ranges: Mapping[str, tuple[float, float]],
    rules: PromotionRules,
    remembered: Remembered | None = None,
) -> Analysis:
    """Return the intervals of all values of a model."""
    require_known_opset(model)
    declared, inference = _checked(model, ranges), infer_element_types(model, rules)
    defaults = default_ranges(model, inference, declared)
    analysis = Analysis(inference, declared, defaults, model.opset_imports, remembered, Calls(model.functions))
    analysis.run(model.graph)
    return analysis


def _checked(model: onnx_ir.Model, ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    names = [value.name or "" for value in model.graph.inputs]
    for name in ranges:
        if name not in names:
            raise OptionError(f"unknown input {name!r} in ranges; the inputs are {', '.join(names) or 'none'}.")
    return {name: range_of(name, ends) for name, ends in ranges.items()}


@dataclass(slots=True)
class _Extremes:
    """The least and greatest number that a value held, infinities included, and True if it held NaN."""

    low: float = math.inf
    high: float = -math.inf
    nan: bool = False


def _measured(model: onnx_ir.Model, rules: PromotionRules, inputs: GivenInputs) -> dict[onnx_ir.Value, _Extremes]:
    from castsmith.verification.evaluate.conversions import Tensor
    from castsmith.verification.evaluate.engines import Engine
    from castsmith.verification.evaluate.evaluator import Evaluator

    extremes: dict[onnx_ir.Value, _Extremes] = {}

    def watch(path: object, value: onnx_ir.Value, content: Tensor) -> None:
        del path
        if content.array.dtype.kind in "SUO" or content.array.size == 0:
            return
        numbers, extreme = content.array.astype(np.float64), extremes.setdefault(value, _Extremes())
        nan = np.isnan(numbers)
        extreme.nan |= bool(nan.any())
        if not nan.all():
            extreme.low = min(extreme.low, float(numbers.min(where=~nan, initial=math.inf)))
            extreme.high = max(extreme.high, float(numbers.max(where=~nan, initial=-math.inf)))

    evaluator = Evaluator(model, rules, Engine("onnxruntime"))
    for _, feeds in given_sets(model, inputs):
        for value in model.graph.inputs:
            if isinstance(array := feeds.get(value.name or ""), np.ndarray):
                watch((), value, Tensor(array))
        evaluator.run(feeds, watch)
    return extremes


def _result(model: onnx_ir.Model, analysis: Analysis, extremes: Mapping[onnx_ir.Value, _Extremes]) -> Bounds:
    result, names = Bounds(), _names(model)
    for value, interval in analysis.seen.items():
        name = names.get(value) or value.name
        if not is_float(interval.dtype) or not name:
            continue
        bound = _bound(interval, extremes.get(value))
        before = result.found.get(name)
        result.found[name] = bound if before is None else _both(before, bound)
        node = value.producer()
        result.makers[name] = name if node is None else f"{node.name or name} ({node.op_type})"
        result.sources[name] = () if node is None else tuple(_sources(model, node, value.index() or 0, names))
    counts = Counter(name for bound in result.found.values() if bound.how == "unknown" for name in bound.depends_on)
    result.settling = counts.most_common()
    return result


def _names(model: onnx_ir.Model) -> dict[onnx_ir.Value, str]:
    """The values in functions, by names that no value of the graph has."""
    names: dict[onnx_ir.Value, str] = {}
    for function in model.functions.values():
        inner = [value for node in nodes_of(function) for value in node.outputs]
        for value in (*function.inputs, *inner):
            if value.name:
                names[value] = f"{function.domain}::{function.name}/{value.name}"
    return names


def _sources(model: onnx_ir.Model, node: onnx_ir.Node, index: int, names: Mapping[onnx_ir.Value, str]) -> Iterator[str]:
    """The names of what an output is computed from: of a call, the output of the function."""
    function = model.functions.get(node.op_identifier())
    values = node.inputs if function is None else [*node.inputs, *function.outputs[index : index + 1]]
    for value in values:
        name = None if value is None else names.get(value) or value.name
        if name:
            yield name


def _bound(interval: Interval, extremes: _Extremes | None) -> Bound:
    low, high = (float(end) + 0.0 for end in (interval.reach[0].min(), interval.reach[1].max()))
    may_be_nan = bool(interval.nan.any())
    least = float(absolute(interval.low, interval.high)[0].min())
    how: How = "unknown"
    measured = None if extremes is None or extremes.low > extremes.high else (extremes.low, extremes.high)
    refuted = bool(interval.assumes) and extremes is not None and _refutes(extremes, low, high)
    if interval.finite and interval.bounded and not refuted:
        how = "proven"
    elif extremes is not None:
        how, may_be_nan, least = "measured", extremes.nan, 0.0
        low, high = measured or (low, high)
    assumes = tuple(sorted(interval.assumes)) if how == "proven" else ()
    blame = tuple(sorted(interval.blame))
    return Bound(low, high, how, interval.dtype, assumes, blame, measured, may_be_nan, least)


def _refutes(extremes: _Extremes, low: float, high: float) -> bool:
    """True if a run gave something outside: what the proof assumes does not hold on its inputs."""
    return extremes.nan or extremes.low < low or extremes.high > high


_ORDER: tuple[How, ...] = ("proven", "measured", "unknown")


def _both(a: Bound, b: Bound) -> Bound:
    """The bound of two values of one name, in different scopes."""
    how: How = a.how if _ORDER.index(a.how) >= _ORDER.index(b.how) else b.how
    nan = a.may_be_nan or b.may_be_nan
    assumes = tuple(sorted({*a.assumes, *b.assumes}))
    depends = tuple(sorted({*a.depends_on, *b.depends_on}))
    return Bound(min(a.low, b.low), max(a.high, b.high), how, a.dtype, assumes, depends, None, nan)


Kind = Literal["nan", "infinite", "overflow", "vanish", "unknown"]


@dataclass(frozen=True, slots=True)
class Excess:
    """A value that a type does not hold.

    Attributes:
        value: The name of the value.
        node: The node that makes it, as `name (operator)`.
        bound: Its bounds.
        kind: "nan" or "infinite": it was NaN or infinite on the given inputs, in its own type; "overflow": an element
            can exceed the largest number; "vanish": every element that is not zero is below half the smallest one;
            "unknown": nothing is known.
        first: True if no value that it is computed from has the same fault.
        cause: The first value with the fault among those it is computed from, or itself.
        proposal: What to do about it, in words.
    """

    value: str
    node: str
    bound: Bound
    kind: Kind
    first: bool
    cause: str
    proposal: str


def exceeding(bounds: Bounds, to: TypeLike) -> list[Excess]:
    """List the values that overflow or vanish in a type, in the order of the model.

    Args:
        bounds: The result of `bounds`.
        to: A floating-point type.

    Raises:
        OptionError: `to` is not a floating-point type.
    """
    dtype = parse_type(to)
    if not is_float(dtype):
        raise OptionError(f"expected a floating-point type, got {type_name(dtype)}.")
    causes: dict[tuple[str, str], str] = {}
    results: list[Excess] = []
    for name, bound in bounds.found.items():
        kind = _kind(bound, dtype)
        if kind is None:
            continue
        before = next((causes[source, kind] for source in bounds.sources[name] if (source, kind) in causes), None)
        causes[name, kind] = before or name
        proposal = _proposal(kind, bound, dtype, bounds.makers[name], computed=bool(bounds.sources[name]))
        results.append(Excess(name, bounds.makers[name], bound, kind, before is None, before or name, proposal))
    return results


def _limit(dtype: DataType) -> float:
    """The least magnitude that overflows in the type."""
    return largest(dtype) + 2.0 ** (math.frexp(largest(dtype))[1] - 1) * unit_roundoff(dtype)


def _kind(bound: Bound, dtype: DataType) -> Kind | None:
    """The fault of a value in a type; None if it has none."""
    if bound.how == "unknown":
        return "unknown"
    if bound.may_be_nan:
        return "nan"
    if math.isinf(bound.magnitude):
        return "infinite"
    if bound.magnitude >= _limit(dtype):
        return "overflow"
    return "vanish" if 0 < bound.magnitude < smallest(dtype) / 2 else None


def _proposal(kind: Kind, bound: Bound, dtype: DataType, maker: str, *, computed: bool) -> str:
    if kind == "unknown":
        inputs = ", ".join(bound.depends_on[:2])
        return f"declare the range of {inputs}" if inputs else "give inputs to measure it on"
    if kind in ("nan", "infinite"):
        fault, own = (
            "NaN" if kind == "nan" else "infinite",
            "its own type" if bound.dtype is None else type_name(bound.dtype),
        )
        return f"{maker} is {fault} in {own} already: change the model or the inputs"
    if kind == "vanish":
        return f"keep {maker} in float"
    if not computed:
        return f"keep {maker} in float, or make it smaller; a mask can use the lowest number of the type"
    factor = 2.0 ** (math.floor(math.log2(bound.magnitude / _limit(dtype))) + 1)
    return f"keep {maker} in float, or divide its operands by {factor:g}"
