"""The gain of converting a node, and the cost of the casts around it, in bytes that are read and written."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.table import CASTS, traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.passes.place.problem import LAUNCH_BYTES
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.ports import ANYTHING, CONVERTED, KEPT, Aim, Ports, Use
from castsmith.passes.precision.problem import Problem

_AT_EDGE = 0.25
"""Cost of a cast of an input or output of the model: who keeps their types asks for these casts.

Where values are known not to fit, it is that of others, so that a stream which norms read in float is not rounded.
"""

_FUSED = 4
"""One byte in so many counts that a node reads and writes which multiplies no matrices: runtimes fuse such nodes."""

_PREFERENCE = 0.5
"""Cost of converting a node that follows its neighbours: of two equal choices it stays in float."""


@dataclass(frozen=True)
class Gains:
    """Gains and costs in a model.

    Attributes:
        sizes: The number of elements of each value.
        source: Returns the type of a value before the conversion; None if it is unknown.
    """

    aim: Aim
    sizes: Sizes
    source: Callable[[onnx_ir.Value | None], DataType | None]

    def cast(self, value: onnx_ir.Value) -> float:
        """Return the cost of a cast of the value."""
        source = self.source(value)
        width = self.aim.to.itemsize + (source.itemsize if source is not None else 4)
        return LAUNCH_BYTES + self.sizes.of(value) * width

    def casts(self, node: onnx_ir.Node, ports: Ports, constants: Container[onnx_ir.Value]) -> float:
        """Return the cost of casts of all operands and results of the node that are not constants."""
        values = [node.inputs[index] for index in ports.follows] + [node.outputs[index] for index in ports.gives]
        cast_values = dict.fromkeys(value for value in values if value is not None and value not in constants)
        return sum(map(self.cast, cast_values))

    def saved(self, node: onnx_ir.Node, ports: Ports) -> float:
        """Return the bytes that need not be read and written, and the gain of multiplying in the precision."""
        row = traits_of(node.domain, node.op_type)
        if not node.outputs or row.moves in (Moves.KEEP, Moves.MAKE) or row.conversion is not None:
            return 0.0
        saved = 0.0
        if row.moves is Moves.SELECT:
            saved = 2.0 * sum(self._narrowing(value) for value in node.outputs)
        else:
            inputs = (value for index in ports.follows if (value := node.inputs[index]) is not None)
            saved = sum(map(self._narrowing, inputs)) + sum(self._narrowing(node.outputs[i]) for i in ports.gives)
        if row.products and not _is_quantized(node):
            saved = 4 * saved + self.sizes.of(node.outputs[0]) * self._terms(node) / 8
        elif _is_quantized(node):
            saved = 0.0
        else:
            saved /= _FUSED
        return saved

    def _narrowing(self, value: onnx_ir.Value) -> float:
        source = self.source(value)
        return float(self.sizes.of(value) * abs((source.itemsize if source is not None else 4) - self.aim.to.itemsize))

    def _terms(self, node: onnx_ir.Node) -> int:
        """Return the approximate number of products per element of the result."""
        value = node.inputs[1] if len(node.inputs) > 1 else None
        dims = None if value is None else self.sizes.dims(value)
        sizes = [dim or 64 for dim in dims or ()]
        if len(sizes) < 2:
            return 64
        if node.op_type in ("Conv", "ConvTranspose"):
            total = 1
            for dim in sizes[1:]:
                total *= dim
            return total
        return sizes[-2]


def _is_quantized(node: onnx_ir.Node) -> bool:
    """True if runtimes run the node on integers: all inputs are dequantized, and all outputs quantized."""
    sources = [value.producer() for value in node.inputs[:2] if value is not None]
    users = [user for user, _ in node.outputs[0].uses()] if node.outputs else []
    return (
        bool(sources)
        and all(source is not None and source.op_type == "DequantizeLinear" for source in sources)
        and any(user.op_type in ("QuantizeLinear", "Relu", "Clip") for user in users)
    )


def price(problem: Problem, *, sparing: bool = False) -> None:
    """Pay for all choices: what each converted node saves, and the casts between nodes of different types.

    sparing: A converted node costs more than the casts around it, so that as few as possible are; one that only moves
        elements is converted where that saves a cast.
    """
    gains = Gains(problem.aim, problem.sizes, problem.facts.source)
    edges = set[onnx_ir.Value]() if problem.beyond else {*problem.model.graph.inputs, *problem.model.graph.outputs}
    for node, (variable, ports) in problem.nodes.items():
        if node in problem.sensitivity.following:
            problem.costs.pay(variable, KEPT, _PREFERENCE)
            continue
        saved, casts = gains.saved(node, ports), gains.casts(node, ports, problem.facts.constants)
        if sparing:
            moves = traits_of(node.domain, node.op_type).moves is not None
            problem.costs.pay(variable, KEPT, _PREFERENCE if moves else saved + casts + _PREFERENCE)
            continue
        # Worthwhile even alone among others: fixed now, which keeps the cut small. A product always is.
        alone = saved > casts or (saved and traits_of(node.domain, node.op_type).products)
        problem.costs.pay(CONVERTED, variable, 1e3 * saved + casts if alone else saved)
    for value, uses in problem.uses.items():
        if value in problem.variables:
            _price_value(problem, value, uses, _AT_EDGE if value in edges else gains.cast(value))


def _price_value(problem: Problem, value: onnx_ir.Value, uses: Sequence[Use], cost: float) -> None:
    producing = problem.variables[value]
    wanted = list(dict.fromkeys(use.wants for use in uses if use.wants != ANYTHING))
    for use in uses:
        if use.wants == ANYTHING and isinstance(use.place, onnx_ir.Node) and use.place in problem.nodes:
            variable, ports = problem.nodes[use.place]
            if use.index in ports.anything and use.place.op_type in CASTS:
                problem.costs.pay(producing, variable, cost)
                problem.costs.pay(variable, producing, cost)
    if len(wanted) < 2:
        for variable in wanted:
            problem.costs.pay(variable, producing, cost)
            problem.costs.pay(producing, variable, cost)
        return
    lowered, raised = problem.costs.variable(), problem.costs.variable()
    problem.costs.pay(lowered, producing, cost)
    problem.costs.pay(producing, raised, cost)
    for variable in wanted:
        problem.costs.pay(variable, lowered, float("inf"))
        problem.costs.pay(raised, variable, float("inf"))
