"""rescale: Scale values of a float16 model by powers of two, so that they fit, and no node has to be in float.

Weights take the factors, exactly as long as their elements stay normal numbers; an epsilon moves with the square of
its operand's factor; where an operator is not homogeneous, or an input or output stands, a multiplication is put in.
A softmax written out gets its maximum subtracted, which is no scale.

    m = MatMul (x, w)        # reaches 1e+06
    n = LayerNormalization <epsilon = 1e-05> (m, scale)
becomes
    m_scaled = MatMul (x, w_scaled)        # w * 2^-5
    n = LayerNormalization <epsilon = 9.8e-09> (m_scaled, scale)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.analysis.inference.handed_on import handed_on, value_at
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor, drop_if_unused, new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.records import Effect, Records, Rewrite, RewriteResult, Site
from castsmith.ir.text import constant_item, node_item, node_items, site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Reference
from castsmith.lowering.faults import (
    IN_FLOAT_INSIDE,
    LIMITS,
    Fault,
    computes_in_half,
    faults,
    reference_of,
    sum_inside,
    sums_squares,
)
from castsmith.lowering.rescale.edits import NAME, put_before, put_behind
from castsmith.lowering.rescale.exponents import Edge, degree_of
from castsmith.lowering.rescale.softmax import SHIFT_SOFTMAX, Shifts
from castsmith.lowering.rescale.solve import Bound, Solution, solve
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import insert_behind, name_node, place_constant
from castsmith.passes.core.session import Session
from castsmith.passes.precision.evidence import keys_of
from castsmith.verification.evaluate.engines import adds_up
from castsmith.verification.evaluate.sums import PRODUCTS

Array = NDArray[Any]
MARGIN = 2.0
"""The factor by which other inputs may exceed those that were measured."""
_SCALED = (DataType.FLOAT16, DataType.FLOAT)
"""The types that are scaled: a model in float is scaled before it is converted."""
_FEWEST_BITS = 4
"""The bits above the least normal number to which what vanishes is raised."""
_MOST_AT_ONCE = 14
"""The largest power by which one multiplication scales: its factor is a normal float16."""
_DEFAULTS = {"epsilon": 1e-5, "alpha": 1.0, "beta": 1.0}
"""The numbers that attributes have by default."""
_SKIP_EPSILON = 1e-12
"""The epsilon of ONNX Runtime's SkipLayerNormalization by default."""

SCALE_CONSTANT = Rule(
    "scale-constant",
    "A constant is multiplied by a power of two, so that values that it makes fit float16.",
    why="Only the exponents change, as long as all elements stay normal numbers; the record counts those that do not.",
    example="- float16[2] w = {300, 2}\n+ float16[2] w_scaled = {37.5, 0.25}",
    advice="Convert without --rescale to keep the constant and compute nodes in float instead.",
    safety=(Effect.SCALED, Effect.CONVERTED),
    silence="Only castsmith convert --rescale does this.",
)
SCALE_VALUE = Rule(
    "scale-value",
    "A value is multiplied by a power of two before operators whose results would not fit float16.",
    why="The factor cannot be built into a weight, since an input, an output or another operator needs the value.",
    example="+ x_scaled = Mul (x, {0.125})",
    advice="Convert without --rescale to compute nodes in float instead.",
    safety=(Effect.SCALED,),
    silence="Only castsmith convert --rescale does this.",
)
SCALE_ATTRIBUTE = Rule(
    "scale-attribute",
    "The epsilon of a normalization or a factor of Gemm is multiplied by a power of two.",
    why="The epsilon takes the square of the factor of the operand, which leaves the result as it is. Alpha takes what"
    " makes the product before it fit.",
    example="- y = LayerNormalization <epsilon = 1e-05> (x, w)\n"
    "+ y = LayerNormalization <epsilon = 1.5e-07> (x_scaled, w)",
    advice="Nothing.",
    safety=(Effect.SCALED,),
    silence="Only castsmith convert --rescale does this.",
)
CARRY_SCALE = Rule(
    "carry-scale",
    "A number is added before Exp or after Log, or multiplied after Pow, because of a scaled value.",
    why="A factor of 2^k becomes a term of k * log(2) in a logarithm, and the other way round in an exponential. Behind"
    " a power, it makes up for the part of the factor that is not a power of two.",
    example="- l = Log (p)\n+ m = Log (p_scaled)\n+ l = Add (m, {2.773})",
    advice="Convert without --rescale to compute the node in float instead.",
    safety=(Effect.CONVERTED,),
    silence="Only castsmith convert --rescale does this.",
)


@dataclass
class RescaleResult(RewriteResult):
    """A RewriteResult with the exponents of the values that are scaled.

    Attributes:
        factors: The value of this name is stored times 2 to the minus this power.
        moved: The keys of these values (`keys_of`), each with its key before and its exponent.
        unsolved: The values that no scale was found for.
    """

    factors: dict[str, int] = field(default_factory=dict[str, int])
    moved: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    unsolved: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rescale(SessionPass):
    """Scale values of a float16 model by powers of two, so that they fit.

    Attributes:
        reference: The same model in float, with its values on inputs; by default on generated ones.
        found: What goes wrong in float16, by the names of the results; by default it is measured on a model that is in
            float16 already.
    """

    codes = (SCALE_CONSTANT, SCALE_VALUE, SCALE_ATTRIBUTE, CARRY_SCALE, SHIFT_SOFTMAX)

    reference: Reference | None = None
    found: tuple[Fault, ...] | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model, records = session.model, Records()
        if self.reference is None and not computes_in_half(model):
            return RescaleResult(model, False)
        reference = self.reference or reference_of(model)
        detected = faults(reference, model) if self.found is None else _at_own_nodes(model, self.found)
        if not detected:
            return RescaleResult(model, False)
        namer, keys, moved = Namer(model), keys_of(model), dict[str, tuple[str, int]]()
        inference, factors = session.inference(PromotionRules(promote_unsafe=True)), dict[str, int]()
        evidence = _Evidence(model, reference, detected)
        shifted = Shifts(model, inference, records, namer, evidence.rank).apply(detected)
        if shifted:
            session.changed()
            inference = session.inference(PromotionRules(promote_unsafe=True))
            evidence = _Evidence(model, reference, detected, shifted)
        unsolved, bounds = list[Bound](), list(evidence.bounds(inference))
        if not all(bound.is_optional for bound in bounds):
            solution = solve(model, inference, bounds)
            unsolved = [bound for bound in solution.unsolved if not bound.is_optional]
            factors = _Change(solution, inference, namer, records).apply()
            now = keys_of(model)
            moved = {
                now[value]: (keys[value], exponent) for value, exponent in solution.values.items() if value in keys
            }
        values = [place if isinstance(place := bound.subject, onnx_ir.Value) else value_at(place) for bound in unsolved]
        names = tuple(dict.fromkeys(value.name or "" for value in values if value is not None))
        if records.rewrites:
            session.changed()
        return RescaleResult(model, bool(records.rewrites), records, factors=factors, moved=moved, unsolved=names)


def _at_own_nodes(model: onnx_ir.Model, detected: Iterable[Fault]) -> list[Fault]:
    """Return the faults of a copy or a conversion of the model at its own nodes."""
    nodes = defaultdict[str | None, list[onnx_ir.Node]](list)  # branches and functions may use a name again
    for node in (node for node in all_nodes(model) if node.outputs):
        nodes[node.outputs[0].name].append(node)
    return [replace(fault, node=node) for fault in detected for node in nodes[fault.name]]


# Bounds.


@dataclass
class _Evidence:
    """What is known of the values of a model.

    Attributes:
        model: The model.
        reference: The same in float, with its values.
        faults: What goes wrong in float16.
        done: The nodes that are set right in another way.
    """

    model: onnx_ir.Model
    reference: Reference
    faults: Sequence[Fault]
    done: Container[onnx_ir.Node] = ()

    def __post_init__(self) -> None:
        self._sizes = {name: bound.magnitude for name, bound in self.reference.measured().items()}
        self._keys = keys_of(self.model)
        self._wrong = {fault.node for fault in self.faults} | {fault.value for fault in self.faults}
        inside = (fault for fault in self.faults if fault.kind == "inside" and fault.node.op_type in PRODUCTS)
        self._inside = {fault.name: fault.magnitude for fault in inside}
        self._vanishing = {fault.value: fault.magnitude for fault in self.faults if fault.magnitude < LIMITS.normal}
        self._arrays, self._sources = self.reference.arrays(), defaultdict[onnx_ir.Value, list[onnx_ir.Value]](list)
        for source, receiver in (pair for node in all_nodes(self.model) for pair in handed_on(self.model, node)):
            if source is not None:
                self._sources[receiver].append(source)

    def bounds(self, types: Inference) -> Iterator[Bound]:
        """Yield the exponents that values, sums inside of nodes and constants may have."""
        for node in all_nodes(self.model):
            for index, value in enumerate(node.inputs):
                tensor = constant_tensor(value)
                if tensor is not None and tensor.dtype in _SCALED:
                    yield from _of_constant((node, index), tensor)
            if node in self.done:
                continue
            for value in (value for value in node.outputs if types.type_of(value) in _SCALED):
                size = self._sizes.get(self._keys.get(value, ""), 0.0)
                if value.name in self._inside:
                    yield Bound(value, low=_needed(self._inside[value.name]), inside=True)
                if value.name in self._vanishing:
                    yield Bound(value, high=_raised(self._vanishing[value.name]))
                if size < LIMITS.overflow or not self._wrong.isdisjoint((node, value.name)):  # the others do no harm
                    yield from _fitting(value, size)
                if size:
                    yield Bound(value, high=max(0, _raised(size)))
                    if _raised(size) < 0:  # it loses bits as it is, which what is wrong before it may hide
                        yield Bound(value, high=_raised(size), soft=True)
            if node.op_type == "BatchNormalization":
                yield from self._of_batch_normalization(node)
            in_float = node.op_type in IN_FLOAT_INSIDE  # as `stash_type` says; not every runtime heeds it
            if (adds_up(node) or in_float) and types.type_of(present(node.inputs[0], "an operand")) in _SCALED:
                bounds = _fitting((node, 0), self._sum_inside(node), 2 if sums_squares(node) else 1)
                yield from (replace(bound, soft=in_float) for bound in bounds)

    def _of_batch_normalization(self, node: onnx_ir.Node) -> Iterator[Bound]:
        """Yield what is asked of the product inside, which is divided by the deviation, and of the least variance."""
        tensors = [constant_tensor(value) for value in node.inputs[1:]]
        if None in tensors:
            return
        scale, _, mean, variance = (present(tensor, "a constant").numpy().astype(np.float64) for tensor in tensors)
        least = float(variance.min(where=variance > 0, initial=math.inf))
        yield Bound((node, 4), high=max(0, _raised(least)) if math.isfinite(least) else math.inf)
        for array in self._arrays_of(present(node.inputs[0], "the operand of a normalization")):
            columns = (-1, *(1,) * (array.ndim - 2))
            products = scale.reshape(columns) * (array - mean.reshape(columns))
            for bound in _fitting(node.outputs[0], float(np.abs(products).max(initial=0.0))):
                yield replace(bound, inside=True, soft=True)

    def _sum_inside(self, node: onnx_ir.Node) -> float:
        """Return the largest sum inside of the node in any run."""
        operands, results = self._arrays_of(present(node.inputs[0], "an operand")), self._arrays_of(node.outputs[0])
        if not operands or not results:
            return 0.0
        pairs = (*((operand, results[0]) for operand in operands), *((operands[0], result) for result in results))
        return max(sum_inside(node, operand, result.astype(np.float64)) for operand, result in pairs)

    def rank(self, value: onnx_ir.Value) -> int | None:
        """Return how many axes the value has."""
        return next((array.ndim for array in self._arrays_of(value)), None)

    def _arrays_of(self, value: onnx_ir.Value) -> list[Array]:
        """Return what the value is in the runs; for an input of a subgraph or function, what is handed in."""
        waiting, reached, arrays = [value], set[onnx_ir.Value](), list[Array]()
        while waiting:
            value = waiting.pop()
            if value not in reached:
                reached.add(value)
                measured = self._arrays.get(self._keys.get(value, ""), [])
                arrays += measured
                waiting += [] if measured else self._sources.get(value, ())
        return arrays


def _fitting(subject: onnx_ir.Value | Edge, size: float, factor: int = 1) -> Iterator[Bound]:
    """Yield the exponents with which a value of the size fits; one that fits already needs none."""
    if 0 < size < math.inf:
        least = _needed(size)
        yield Bound(subject, low=least if size >= LIMITS.overflow else min(0, least), factor=factor)


def _needed(size: float) -> int:
    """Return the least exponent with which a value of this size fits, with the margin."""
    return math.ceil(math.log2(size * MARGIN / LIMITS.overflow))


def _raised(size: float) -> int:
    """Return the greatest exponent with which a value of this size has some bits to spare above subnormal numbers."""
    return math.floor(math.log2(size / LIMITS.normal)) - _FEWEST_BITS


def _of_constant(edge: Edge, tensor: onnx_ir.TensorProtocol) -> Iterator[Bound]:
    array = np.abs(tensor.numpy().astype(np.float64))
    size = float(array.max(where=np.isfinite(array), initial=0.0))
    if size and tensor.size > 1:
        yield Bound(edge, math.ceil(math.log2(size / LIMITS.overflow)), max(0, _raised(size)))
    elif size:
        yield Bound(edge, math.ceil(math.log2(size / LIMITS.overflow)))


# Changes.


@dataclass
class _Change:
    """The application of a solution."""

    solution: Solution
    types: Inference
    namer: Namer
    records: Records
    _scaled: dict[tuple[onnx_ir.Value, int], onnx_ir.Value] = field(default_factory=dict[Any, onnx_ir.Value])
    _constants: dict[tuple[Any, onnx_ir.Value, int], onnx_ir.Value] = field(default_factory=dict[Any, onnx_ir.Value])

    def apply(self) -> dict[str, int]:
        """Change the model and record it; return the exponents of the values that are scaled."""
        for (node, index), exponent in self.solution.constants.items():
            if isinstance(node, onnx_ir.Node):
                self._constant(node, index, exponent)
        for (node, name), exponent in self.solution.attributes.items():
            self._attribute(node, name, exponent)
        adapted = Counter[Edge]()
        for place, exponent in self.solution.adapters.items():
            edges = place.uses() if isinstance(place, onnx_ir.Value) else (place,)
            adapted.update(dict.fromkeys(edges, exponent))
        for edge, exponent in adapted.items():
            while exponent:
                part = max(-_MOST_AT_ONCE, min(exponent, _MOST_AT_ONCE))
                self._adapt(edge, part)
                exponent -= part
        for node, exponent in self.solution.repairs.items():
            self._repair(node, exponent)
        factors = dict[str, int]()
        for value, exponent in self.solution.values.items():
            if not value.is_graph_output():
                value.name = self.namer.fresh(f"{value.name}_scaled")
                factors[value.name] = exponent
        return factors

    def _constant(self, node: onnx_ir.Node, index: int, exponent: int) -> None:
        old = present(node.inputs[index], "a constant")
        key = (node.graph, old, exponent)  # what is in a subgraph is not seen outside of it
        new = self._constants.get(key)
        if new is None:
            tensor = present(constant_tensor(old), "the tensor of a constant")
            array, witness = _times(tensor.numpy(), exponent)
            new = new_constant(self.namer.fresh(f"{old.name}_scaled"), onnx_ir.tensor(array))
            place_constant(new, node, self.namer)
            self._constants[key] = new
            reason = f"multiplied by 2^{-exponent}" + (f"; not exactly: {witness}" if witness else ", exactly")
            effect = Effect.CONVERTED if witness else Effect.SCALED
            site = Site(site_of(node).graph, old.name or "", "Constant")
            before, after = constant_item(old), constant_item(new, "constant")
            self.records.rewrites.append(Rewrite(NAME, SCALE_CONSTANT.code, site, before, after, reason, effect))
        node.replace_input_with(index, new)
        drop_if_unused(old)

    def _attribute(self, node: onnx_ir.Node, name: str, exponent: int) -> None:
        before = node_item(node)
        default = _SKIP_EPSILON if node.op_type.startswith("Skip") else _DEFAULTS.get(name)
        number = node.attributes.get_float(name, default) or 0.0
        node.attributes[name] = onnx_ir.AttrFloat32(name, math.ldexp(number, -exponent))
        reason = f"{name} is multiplied by 2^{-exponent}, as its operand or its result is"
        self.records.rewrites.append(
            Rewrite(NAME, SCALE_ATTRIBUTE.code, site_of(node), before, node_item(node), reason, Effect.SCALED)
        )

    def _repair(self, node: onnx_ir.Node, exponent: int) -> None:
        """Put a term or a factor beside the node, which makes up for the exponent that it does not hand on."""
        before, is_exp = node_item(node), node.op_type == "Exp"
        value = present(node.inputs[0] if is_exp else node.outputs[0], "what is repaired")
        if node.op_type == "Pow":
            operator, number = "Mul", 2.0 ** (exponent * present(degree_of(node), "a constant power")[1])
            reason = f"the part of (2^{exponent})^p that is no power of two is multiplied by again"
        else:
            operator, number = "Add", (-exponent if is_exp else exponent) * math.log(2)
            reason = f"{'the result' if is_exp else 'the operand'} is multiplied by 2^{-exponent}"
        constant = self._number(value, number)
        if operator == "Mul" and present(constant.const_value, "a number").numpy() == 1:
            return
        if is_exp:
            repair = onnx_ir.node(operator, [value, constant])
            put_before(node, [repair], self.namer)
            node.replace_input_with(0, repair.outputs[0])
        else:
            repair = put_behind(node, operator, constant, self.namer)
        place_constant(constant, repair, self.namer)
        after = node_items([repair, node] if is_exp else [node, repair])
        self.records.rewrites.append(
            Rewrite(NAME, CARRY_SCALE.code, site_of(node), before, after, reason, Effect.CONVERTED)
        )

    def _number(self, value: onnx_ir.Value, number: float) -> onnx_ir.Value:
        """Return a constant for a node that computes with the value."""
        dtype = np.float32 if self.types.type_of(value) == DataType.FLOAT else np.float16
        return new_constant(self.namer.fresh(f"{value.name}_factor"), onnx_ir.tensor(np.array(number, dtype)))

    def _adapt(self, edge: Edge, exponent: int) -> None:
        (owner, index), value = edge, present(value_at(edge), "an operand")
        new = self._scaled.get((value, exponent)) if isinstance(owner, onnx_ir.Node) else None
        if new is None:
            product = self._multiplied(value, exponent)
            new = self._scaled[value, exponent] = product.outputs[0]
            if not isinstance(owner, onnx_ir.Node):
                inner = self.namer.fresh(f"{value.name}_scaled")
                new.name, value.name = value.name, inner
            reason = f"multiplied by 2^{-exponent}, so that what is computed from it fits float16"
            self.records.rewrites.append(
                Rewrite(NAME, SCALE_VALUE.code, site_of(product), (), node_items([product]), reason, Effect.SCALED)
            )
        if isinstance(owner, onnx_ir.Node):
            owner.replace_input_with(index, new)
        else:
            owner.outputs[index] = new

    def _multiplied(self, value: onnx_ir.Value, exponent: int) -> onnx_ir.Node:
        """Return a node that multiplies the value by a power of two, where all see it that see the value."""
        factor = self._number(value, 2.0**-exponent)
        product = onnx_ir.node("Mul", [value, factor])
        product.outputs[0].name, product.outputs[0].type, product.outputs[0].shape = (
            f"{value.name}_scaled",
            value.type,
            value.shape,
        )
        name_node(product, self.namer)
        insert_behind(value, product)
        place_constant(factor, product, self.namer)
        return product


def _times(array: Array, exponent: int) -> tuple[Array, str]:
    """Return elements times a power of two, and an element that loses bits by it, if there is one.

    A single number that would become 0 becomes the least, as an epsilon against a division by 0.
    """
    exact = np.ldexp(array.astype(np.float64), -exponent)
    with np.errstate(over="ignore"):
        scaled = exact.astype(array.dtype)
    if array.size == 1 and exact.item() != 0 and scaled.item() == 0:
        scaled = np.full(array.shape, math.copysign(2 * LIMITS.vanish, exact.item()), array.dtype)
    lost = np.isfinite(exact) & (scaled.astype(np.float64) != exact)
    if not lost.any():
        return scaled, ""
    number, result = float(array[lost].ravel()[0]), float(scaled[lost].ravel()[0])
    count = int(np.count_nonzero(lost))
    what = "become subnormal" if np.isfinite(scaled[lost]).all() else "exceed float16"
    return scaled, f"{count} of {array.size} elements {what}, as {number:.6g}, which becomes {result:.6g}"
