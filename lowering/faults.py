"""Where a model that computes in float16 goes wrong: values that overflow, become NaN, or vanish, found by two runs.

The first run gives each node the operands that the reference has, rounded once: a result that is lost all the same is
a fault of this node, or of what its operands lose by being of float16. The second run goes on with what was lost, until
a later node gives again what it gives without: a mask that becomes minus infinity before a Softmax, or a small variance
beside its epsilon, harms nothing. A fault counts where its effect reaches an output of the model, or does not end.
Precision alone is no fault: only what overflows or is below the normal numbers, and what follows from that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.analysis.inference.handed_on import handed_on
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.table import CASTS, traits_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Inputs, Reference, fed, reference
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.patterns import paths_of
from castsmith.passes.precision.run import ConvertPrecision
from castsmith.targets.target import Target
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.engines import EngineError, adds_up
from castsmith.verification.evaluate.evaluator import Path
from castsmith.verification.evaluate.limits import Budget
from castsmith.verification.evaluate.sums import sums_on_the_way

Array = NDArray[Any]
Kind = Literal["overflow", "inside", "vanish", "operand"]

LIMITS = limits(DataType.FLOAT16)

_LOST, _LOST_BELOW = 0.125, 2.0**-6
"""The relative error of an element from which it is lost, and below the normal numbers: a rounding has 2^-11."""
WRONG = 0.01
"""The error of a tensor, relative to its greatest element, from which it is wrong."""
_SLIGHT = 2.0**-9
"""The error of a tensor below which elements that are lost are taken to do no harm, as long as others may."""
_ENDLESS = 16
"""Nodes that compute with what is wrong, without an end, from which the effect is taken to reach an output."""


IN_FLOAT_INSIDE = ("LayerNormalization", "RMSNormalization")
"""Operators whose statistics are in float by default."""
Key = tuple[Path, str]


@dataclass(frozen=True)
class Fault:
    """A node that float16 does not do, by the names that it had before anything was changed.

    Attributes:
        node: The node.
        name: The name of its first result.
        place: The path of its modules, if the model has it, its name and its operator.
        value: The name of the value that it loses: its result, or the operand that does not fit.
        kind: "overflow": the value is beyond float16; "vanish": it is below its normal numbers; "inside": operands and
            result fit, and what the node adds up does not; "operand": it reads what is lost.
        magnitude: The greatest magnitude that the value has, of what the node adds up inside.
        slight: True if what is lost is a small part of the tensor.
        unknown_to: The target of which it is unknown whether it adds up in float16.
    """

    node: onnx_ir.Node
    name: str
    place: str
    value: str
    kind: Kind
    magnitude: float
    slight: bool = False
    unknown_to: str = ""

    @property
    def reason(self) -> str:
        """What is wrong, as a clause."""
        name = self.value
        if self.kind == "inside":
            unknown = f"; whether {self.unknown_to} adds up in float16 is unknown" if self.unknown_to else ""
            return f"{name} fits float16, but the sum inside reaches {self.magnitude:.6g} (measured){unknown}"
        name = f"it reads {name}, which" if self.kind == "operand" else name
        if self.magnitude >= LIMITS.overflow:
            return f"{name} reaches {self.magnitude:.6g} (measured), beyond float16"
        return f"{name} has elements below {self.magnitude:.3g} (measured), where float16 loses bits"


def fault_at(node: onnx_ir.Node, value: onnx_ir.Value, kind: Kind, magnitude: float) -> Fault:
    """Return the fault of a node, which loses the value."""
    result = next((output.name or "" for output in node.outputs), "")
    path, name = next(map(".".join, paths_of(node)), ""), node.name or result
    place = f"{f'{path} ' if path and not name.startswith('/') else ''}{name} ({node.op_type})"
    return Fault(node, result, place, value.name or "", kind, magnitude)


@dataclass
class _Trail:
    """What a value that is lost goes back to: the faults, and for how many nodes it has been wrong; 0: lost only."""

    causes: dict[onnx_ir.Node, None]
    wrong: int


@dataclass
class _Runs:
    """The two runs on one set of inputs."""

    expected: Mapping[Key, Array]
    outputs: frozenset[str]
    renamed: Mapping[str, str]
    links: Mapping[onnx_ir.Value, list[onnx_ir.Value]]
    """The values whose elements a value gets across calls and control flow."""
    alone: dict[Key, Array] = field(default_factory=dict[Key, Array])
    """The float16 results of the first run."""
    faults: dict[onnx_ir.Node, Fault] = field(default_factory=dict[onnx_ir.Node, Fault])
    harmful: dict[onnx_ir.Node, None] = field(default_factory=dict[onnx_ir.Node, None])
    _trails: dict[Key, _Trail] = field(default_factory=dict[Key, _Trail])
    _latest: dict[onnx_ir.Value, _Trail] = field(default_factory=dict[onnx_ir.Value, _Trail])

    def first(self, route: Path, value: onnx_ir.Value, computed: Tensor) -> Tensor:
        """Note the fault of the node, and go on with what the reference has."""
        key = route, value.name or ""
        actual, expected = computed.array, self._recorded(key)
        if expected is None or actual.dtype.kind != "f" or actual.shape != expected.shape:
            return computed
        if actual.dtype == np.float16:
            self.alone[key] = actual
            self._judge(route, value, actual, expected)
        return Tensor(_as(expected, actual.dtype), computed.undefined)

    def _judge(self, route: Path, value: onnx_ir.Value, actual: Array, expected: Array) -> None:
        node, wide = value.producer(), expected.astype(np.float64)
        lost = _lost(actual, wide, wide, _LOST_BELOW)
        if node is None or not lost.any() or value in self.links:  # what is inside of calls and control flow counts
            return
        operand = self._lossy_operand(route, node)
        if operand is None or operand[1] >= LIMITS.normal:
            lost = _lost(actual, wide, wide)
        fault = self._fault(route, value, actual, wide, lost, operand) if lost.any() else None
        if fault is not None:
            fault = replace(fault, slight=not _is_wrong(actual, wide, _SLIGHT))
            # The same node may run many times, in a loop or for several calls: the worst counts.
            self.faults[node] = max(self.faults.get(node, fault), fault, key=_gravity)

    def _fault(
        self,
        route: Path,
        value: onnx_ir.Value,
        actual: Array,
        wide: Array,
        lost: NDArray[np.bool_],
        operand: tuple[onnx_ir.Value, float] | None,
    ) -> Fault | None:
        """Return what is wrong where elements of a result are lost; None if it is precision alone."""
        node, sizes = present(value.producer(), "the node of a result"), np.abs(wide[lost])
        greatest = float(sizes.max())
        if greatest >= LIMITS.overflow:
            return fault_at(node, value, "overflow", greatest)
        if operand is not None:
            return fault_at(node, operand[0], "operand", operand[1])
        if adds_up(node):
            return fault_at(node, value, "inside", self._inside(route, node, wide))
        if not np.isfinite(actual[lost]).all():
            return fault_at(node, value, "inside", self._product_inside(route, node, greatest))
        small = sizes[sizes < LIMITS.normal]
        return fault_at(node, value, "vanish", float(small.max())) if small.size else None

    def _lossy_operand(self, route: Path, node: onnx_ir.Node) -> tuple[onnx_ir.Value, float] | None:
        """Return the first operand that loses elements by being of float16, and the magnitude at which it does."""
        for operand in node.inputs:
            expected = None if operand is None else self._expected_of(route, operand)
            if operand is None or expected is None or operand.dtype not in (DataType.FLOAT16, None):
                continue
            wide = expected.astype(np.float64)
            lost = _lost(_as(expected, np.float16), wide, wide)
            if lost.any():
                return operand, float(np.abs(wide[lost]).max())
        return None

    def _expected_of(self, route: Path, operand: onnx_ir.Value) -> Array | None:
        """Return what the reference has for an operand of a node there."""
        expected = next((array for key in _keys(route, operand) if (array := self._recorded(key)) is not None), None)
        producer = operand.producer()
        if expected is None and producer is not None and producer.op_type in CASTS and producer.inputs[0] is not None:
            return self._expected_of(route, producer.inputs[0])
        return expected

    def _recorded(self, key: Key) -> Array | None:
        """Return what the reference has for a value, under the name that it had before the conversion."""
        if key in self.expected:
            return self.expected[key]
        route, name = key
        before = self.renamed.get(name)
        return None if before is None else self.expected.get((route, before))

    def _inside(self, route: Path, node: onnx_ir.Node, result: Array) -> float:
        """Return the largest sum that the node may make inside, as far as its operands say."""
        operand = None if node.inputs[0] is None else self._expected_of(route, node.inputs[0])
        return float(np.abs(result).max()) if operand is None else sum_inside(node, operand, result)

    def _product_inside(self, route: Path, node: onnx_ir.Node, result: float) -> float:
        """Return the largest sum inside of a product, or the magnitude of the result of another node."""
        tensors = map(constant_tensor, node.inputs)
        operands = [
            tensor.numpy() if tensor is not None else None if value is None else self._expected_of(route, value)
            for value, tensor in zip(node.inputs, tensors, strict=True)
        ]
        sums = sums_on_the_way(node, operands)
        return result if sums is None else float(sums.max())

    def second(self, route: Path, value: onnx_ir.Value, computed: Tensor) -> Tensor:
        """Go on with what is lost as long as that matters, and note which faults do harm."""
        key, node = (route, value.name or ""), value.producer()
        actual, expected = computed.array, self._recorded(key)
        if expected is None or node is None or actual.dtype.kind != "f" or actual.shape != expected.shape:
            if node is not None and (arriving := self._arriving(route, node, value)).causes:
                self._follow(key, value, arriving)
            return computed
        trail, alone, wide = self._arriving(route, node, value), self.alone.get(key), expected.astype(np.float64)
        right = Tensor(_as(expected, actual.dtype), computed.undefined)
        # What is wrong in another way than alone is so by its operands: the next round judges it.
        fault, most = self.faults.get(node), _LOST
        if fault is not None and fault.kind == "operand" and fault.magnitude < LIMITS.normal:
            most = _LOST_BELOW
        if alone is not None and fault is not None and (_lost(alone, wide, wide, most) & _alike(actual, alone)).any():
            alone_wrong = _is_wrong(alone, wide)
            if alone_wrong and not trail.wrong and fault.kind != "operand":
                trail.causes.clear()  # elements that were lost before do not explain a tensor that is wrong by itself
            if alone_wrong or not trail.wrong:
                trail.causes[node] = None
        if not trail.causes:
            return right
        compared = wide if alone is None else np.where(_lost(alone, wide, wide, most), wide, alone)
        lost = _lost(actual, wide, compared, _LOST_BELOW)
        fresh = node in trail.causes
        if not lost.any() and not (fresh and _lost(actual, wide, wide, most).any()):
            return right
        wrong = _is_wrong(actual, wide)
        steps = trail.wrong + (traits_of(node.domain, node.op_type).moves is None) if wrong else 0
        if wrong and (steps >= _ENDLESS or value.name in self.outputs):
            self.harmful.update(trail.causes)
            return right
        self._follow(key, value, _Trail(trail.causes, max(steps, int(wrong))))
        return computed

    def _follow(self, key: Key, value: onnx_ir.Value, trail: _Trail) -> None:
        self._trails[key] = self._latest[value] = trail

    def _arriving(self, route: Path, node: onnx_ir.Node, value: onnx_ir.Value) -> _Trail:
        """Return what the operands of the node go back to, all together, and what subgraphs and functions hand on."""
        arriving = _Trail({}, 0)
        trails = [self._trail_of(route, operand) for operand in node.inputs if operand is not None]
        for trail in (*trails, *map(self._latest.get, self.links.get(value, ()))):
            if trail is not None:
                arriving.causes.update(trail.causes)
                arriving.wrong = max(arriving.wrong, trail.wrong)
        return arriving

    def _trail_of(self, route: Path, operand: onnx_ir.Value) -> _Trail | None:
        handed = (self._latest[source] for source in self.links.get(operand, ()) if source in self._latest)
        trails = (self._trails[key] for key in _keys(route, operand) if key in self._trails)
        return next(trails, next(handed, None))


def _keys(route: Path, operand: onnx_ir.Value) -> Iterator[Key]:
    """Yield where the operand of a node may be from: the scope of the node, and those around it, from the inside."""
    return ((route[:depth], operand.name or "") for depth in range(len(route), -1, -1))


def sums_squares(node: onnx_ir.Node) -> bool:
    """True if a node that adds up many elements adds up their squares."""
    return node.op_type not in ("ReduceMean", "ReduceSum", "ReduceL1")


def sum_inside(node: onnx_ir.Node, operand: Array, result: Array) -> float:
    """Return the largest sum that a node may make inside of which the operand and the result are known."""
    greatest = float(np.abs(result).max())
    if not sums_squares(node):
        return greatest * (max(operand.size // result.size, 1) if node.op_type == "ReduceMean" else 1)
    if node.op_type in ("ReduceL2", "ReduceSumSquare"):
        return greatest ** (2 if node.op_type == "ReduceL2" else 1)
    squares, axes = operand.astype(np.float64) ** 2, None
    if node.op_type in ("LpNormalization", *IN_FLOAT_INSIDE):
        axis = (node.attributes.get_int("axis", -1) or 0) % operand.ndim
        axes = tuple(range(axis, axis + 1 if node.op_type == "LpNormalization" else operand.ndim))
    return float(squares.sum(axis=axes).max())


def _gravity(fault: Fault) -> tuple[bool, float]:
    """Return by what a fault of a node is worse than another."""
    return not fault.slight, fault.magnitude if fault.magnitude >= LIMITS.overflow else 0.0


def _as(array: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def _lost(actual: Array, expected: Array, compared: Array, most: float = _LOST) -> NDArray[np.bool_]:
    """Return the elements that are finite in the reference and lost here, beyond what is lost in `compared` as well."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide, finite = actual.astype(np.float64), np.isfinite(expected)
        sizes = np.abs(expected)
        greatest = float(sizes.max(where=finite, initial=0.0))
        share = np.where(sizes < LIMITS.normal, _LOST_BELOW, most)
        allowed = np.where(expected == 0, LIMITS.vanish * greatest, share * sizes) + 2 * np.abs(compared - expected)
        close = (wide == compared) | (np.abs(wide - compared) <= allowed)
    return finite & ~close


def _alike(actual: Array, alone: Array) -> NDArray[np.bool_]:
    """Return the elements that are as they are alone: the same number, or not finite either."""
    return (actual == alone) | ~(np.isfinite(actual) | np.isfinite(alone))


def _is_wrong(actual: Array, expected: Array, share: float = WRONG) -> bool:
    """True if an element is not finite though it is in the reference, or the tensor is far from it."""
    finite = np.isfinite(expected)
    if not np.isfinite(actual[finite]).all():
        return True
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(np.float64) - expected)
    return float(error.max(where=finite, initial=0.0)) > share * float(np.abs(expected).max(where=finite, initial=0.0))


def faults(reference: Reference, model: onnx_ir.Model) -> list[Fault]:
    """Return the nodes of a model that do harm in float16, in the order of the model, measured on all sets of inputs.

    Nodes that lose a small part of what they compute are returned if there are no others.

    Args:
        reference: The same model in float, with its values: those of a name are compared.
        model: The model that computes in float16, as a whole or in part.
    """
    evaluator, by_node = reference.evaluator(model), dict[onnx_ir.Node, Fault]()
    outputs = frozenset(value.name or "" for value in model.graph.outputs)
    renamed, links = dict(_renamed(model)), defaultdict[onnx_ir.Value, list[onnx_ir.Value]](list)
    for node in all_nodes(model):
        for source, receiver in handed_on(model, node):
            if source is not None:
                links[receiver].append(source)
    target = reference.target
    for _, feeds, expected in reference.runs:
        runs, inputs = _Runs(expected, outputs, renamed, links), fed(model, feeds)
        evaluator.budget = Budget(reference.seconds)
        try:
            evaluator.run(inputs, correct=runs.first)
            if runs.faults:
                evaluator.budget = Budget(reference.seconds)
                evaluator.run(inputs, correct=runs.second)
        except EngineError:  # the measured error says so
            continue
        for node in runs.harmful:
            fault, unknown = runs.faults[node], target is not None and target.sums_in(node.op_type) is None
            by_node.setdefault(node, replace(fault, unknown_to=str(target)) if unknown else fault)
    order = {node: number for number, node in enumerate(all_nodes(model))}
    grave = [fault for fault in by_node.values() if not fault.slight]
    return sorted(grave or by_node.values(), key=lambda fault: order.get(fault.node, len(order)))


def _renamed(model: onnx_ir.Model) -> Iterator[tuple[str, str]]:
    """Yield the names of values that a conversion put before a Cast which makes the value of the name before."""
    for node in all_nodes(model):
        if node.op_type in CASTS and node.inputs and node.inputs[0] is not None:
            yield node.inputs[0].name or "", node.outputs[0].name or ""


# Models that compute in float16 already.

_RULES = PromotionRules(promote_unsafe=True)
_WIDE = (DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16)


def computes_in_half(model: onnx_ir.Model) -> bool:
    """True if most nodes that compute with floating-point numbers do so in float16."""
    types, count = infer_element_types(model, _RULES), Counter[DataType | None]()
    for node in all_nodes(model):
        row = traits_of(node.domain, node.op_type)
        if row.moves is None and node.op_type not in CASTS and node.op_type != "Constant":
            count.update({types.type_of(value) for value in node.outputs})
    return count[DataType.FLOAT16] > sum(count[dtype] for dtype in _WIDE)


def widened(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return a copy that computes the same in float, its inputs and outputs included."""
    step = ConvertPrecision(DataType.FLOAT, sources=(DataType.FLOAT16,), lower=("*",), io="convert")
    return step(model.clone()).model


def reference_of(
    model: onnx_ir.Model,
    inputs: Inputs | None = None,
    dims: Mapping[str, int] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    target: Target | None = None,
) -> Reference:
    """Return the widened model with its values on inputs of the model itself."""
    return reference(widened(model), inputs, dims, ranges=ranges, of=model, target=target)


def half_faults(
    model: onnx_ir.Model,
    inputs: Inputs | None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    target: Target | None = None,
) -> list[Fault]:
    """Return the nodes that go wrong in float16 on inputs of the model; none of one that is not in float16."""
    if not computes_in_half(model):
        return []
    return faults(reference_of(model, inputs, ranges=ranges, target=target), model)
