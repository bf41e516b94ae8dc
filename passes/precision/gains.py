"""The gain of converting a node, and the cost of the casts around it, in bytes that are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir

from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.errors import present
from castsmith.passes.place.problem import LAUNCH_BYTES
from castsmith.passes.precision.ports import ANYTHING, CONVERTED, KEPT, Ports, Use
from castsmith.passes.precision.problem import Problem

_AT_EDGE = 0.25
"""Cost of a cast of an input or output of the model: who keeps their types asks for these casts.

Where values are known not to fit, it is that of others, so that a stream which norms read in float is not rounded.
"""

_FUSED = 4
"""One byte in so many counts that a node reads and writes which multiplies no matrices: runtimes fuse such nodes."""

_PREFERENCE = 0.5
"""Cost of converting a node that follows its neighbours: of two equal choices it stays in float."""


def cast_cost(problem: Problem, value: onnx_ir.Value) -> float:
    """Return the cost of a cast of the value."""
    return LAUNCH_BYTES + problem.sizes.of(value) * (problem.aim.to.itemsize + _width(problem, value))


def casts_cost(problem: Problem, node: onnx_ir.Node, ports: Ports) -> float:
    """Return the cost of casts of all operands and results of the node that are not constants."""
    cast_values = dict.fromkeys(value for value in ports.values(node) if value not in problem.facts.constants)
    return sum(cast_cost(problem, value) for value in cast_values)


def saved_bytes(problem: Problem, node: onnx_ir.Node, ports: Ports) -> float:
    """Return the bytes that need not be read and written, and the gain of multiplying in the precision."""
    row = traits_of(node.domain, node.op_type)
    if not node.outputs or row.moves in (Moves.KEEP, Moves.MAKE) or row.conversion is not None or _is_quantized(node):
        return 0.0
    values = [node.outputs[index] for index in ports.gives] * 2 if row.moves is Moves.SELECT else ports.values(node)
    saved = sum(_narrowing(problem, value) for value in values)
    if row.products:
        return 4 * saved + problem.sizes.of(node.outputs[0]) * _terms(problem, node) / 8
    return saved / _FUSED


def _narrowing(problem: Problem, value: onnx_ir.Value) -> float:
    return float(problem.sizes.of(value) * abs(_width(problem, value) - problem.aim.to.itemsize))


def _width(problem: Problem, value: onnx_ir.Value) -> float:
    """Return the bytes of an element before the conversion."""
    return present(problem.facts.source(value), "the type of a value that is converted").itemsize


def _terms(problem: Problem, node: onnx_ir.Node) -> int:
    """Return the approximate number of products per element of the result."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    dims = None if value is None else problem.sizes.dims(value)
    sizes = [dim or 64 for dim in dims or ()]
    if len(sizes) < 2:
        return 64
    return prod(sizes[1:]) if node.op_type in ("Conv", "ConvTranspose") else sizes[-2]


def _is_quantized(node: onnx_ir.Node) -> bool:
    """True if runtimes run the node on integers: all inputs are dequantized, and all outputs quantized."""
    sources = [value.producer() for value in node.inputs[:2] if value is not None]
    users = [user for user, _ in node.outputs[0].uses()]
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
    edges = set[onnx_ir.Value]() if problem.beyond else {*problem.model.graph.inputs, *problem.model.graph.outputs}
    for node, (variable, ports) in problem.nodes.items():
        if node in problem.sensitivity.following:
            problem.costs.pay(variable, KEPT, _PREFERENCE)
            continue
        saved, casts = saved_bytes(problem, node, ports), casts_cost(problem, node, ports)
        if sparing:
            moves = traits_of(node.domain, node.op_type).moves is not None
            problem.costs.pay(variable, KEPT, _PREFERENCE if moves else saved + casts + _PREFERENCE)
            continue
        # Worthwhile even alone among others: fixed now, which keeps the cut small. A product always is.
        alone = saved > casts or (saved and traits_of(node.domain, node.op_type).products)
        problem.costs.pay(CONVERTED, variable, 1e3 * saved + casts if alone else saved)
    for value, uses in problem.uses.items():
        if value in problem.variables:
            _price_value(problem, value, uses, _AT_EDGE if value in edges else cast_cost(problem, value))


def _price_value(problem: Problem, value: onnx_ir.Value, uses: Sequence[Use], cost: float) -> None:
    producing = problem.variables[value]
    wanted = list(dict.fromkeys(use.wants for use in uses if use.wants != ANYTHING))
    for use in uses:
        if isinstance(use.place, onnx_ir.Node) and use.place in problem.nodes:
            variable, ports = problem.nodes[use.place]
            if use.index in ports.anything:  # of a cast
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
