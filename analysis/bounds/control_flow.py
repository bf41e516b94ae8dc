"""If, Loop, Scan and sequences: branches are joined, and the state of a loop widens until a turn adds nothing to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    MINUS,
    NONE,
    PLUS,
    Dims,
    Interval,
    UnknownRangeError,
    collapsed,
    constant_interval,
    hull,
    inherited,
    joined_along,
)
from castsmith.analysis.bounds.rounding import is_float, is_integer, limits_of, widest
from castsmith.analysis.bounds.step import Step, axis_of

Body = Callable[[onnx_ir.Graph, Sequence[Interval], "Sequence[Interval] | None"], list[Interval]]
"""The walk through a subgraph: from the intervals of its inputs to those of its outputs.

The last argument has those of the walk just before, where nothing changed besides them: the rest is not walked again.
Raises UnknownRangeError if too many subgraphs were walked.
"""
_TURNS = 3
"""Turns of a loop that are followed before its state is widened."""
_MOST_TURNS = 64
"""Turns after which the state of a loop that has not settled is unknown."""
_MOST_TRIPS = 2.0**62
"""Turns of a loop whose number is not given."""


def control_flow(step: Step, body: Body) -> list[Interval] | None:
    """The results of a node with subgraphs; None for others."""
    match step.node.op_type:
        case "If":
            return _if(step, body)
        case "Loop":
            return _loop(step, body)
        case "Scan":
            return _scan(step, body)
        case _:
            return None


def _graph_of(step: Step, name: str) -> onnx_ir.Graph:
    return step.node.attributes[name].as_graph()


def _if(step: Step, body: Body) -> list[Interval]:
    exact = step.input(0).exact
    names = ["then_branch", "else_branch"]
    if exact is not None and exact.size == 1:
        names = names[:1] if exact.reshape(-1)[0] else names[1:]
    branches = [body(_graph_of(step, name), [], None) for name in names]
    return [hull(results) for results in zip(*branches, strict=True)]


def _widened(before: Interval, after: Interval, turn: int) -> tuple[Interval, bool]:
    """Return the state that holds both, and True if the second added nothing.

    After some iterations a moving end is widened to the limit of the type, and to infinity.
    """
    state = hull([before, after])
    state = collapsed(state, state.dims)
    grew_low, grew_high = state.least < before.least, state.greatest > before.greatest
    facts_before = before.bits, before.assumes, before.blame
    if not grew_low and not grew_high and (state.bits, state.assumes, state.blame) == facts_before:
        return state, True
    if turn < _TURNS:
        return state, False
    least, greatest, special = state.least, state.greatest, state.bits
    low, high = limits_of(state.dtype)
    if not is_integer(state.dtype) and state.bounded:  # an infinity, or any finite number on the way to it
        most = widest(state.dtype if is_float(state.dtype) else DataType.DOUBLE)
        low, high = -most, most
        special |= (PLUS if grew_high else NONE) | (MINUS if grew_low else NONE)
    ends = low if grew_low else least, high if grew_high else greatest
    return constant_interval(*ends, state.dims, state.dtype, special=special, **inherited(state)), False


def _settled(
    states: list[Interval], turn_of: Callable[[list[Interval], Sequence[Interval] | None], list[Interval]]
) -> tuple[list[Interval], list[Interval]]:
    """Return the states that hold those of all turns, and the other results of a turn.

    turn_of: Returns the results of a turn that starts with the states, after one that started with others: the states
        after it, and the other results.
    """
    states = [collapsed(state, state.dims) for state in states]
    before: Sequence[Interval] | None = None
    for turn in range(_MOST_TURNS):
        results, before = turn_of(states, before), states
        pairs = [_widened(before, after, turn) for before, after in zip(states, results, strict=False)]
        states = [state for state, _ in pairs]
        if all(done for _, done in pairs):
            return states, results[len(states) :]
    raise UnknownRangeError


def _loop(step: Step, body: Body) -> list[Interval]:
    graph, count = _graph_of(step, "body"), len(step.node.inputs) - 2
    states, trips = [step.input(2 + index) for index in range(count)], step.optional(0)
    most = _MOST_TRIPS if trips is None else max(0.0, trips.greatest)
    truth = constant_interval(0.0, 1.0, (), DataType.BOOL)
    fixed = [constant_interval(0.0, max(0.0, most - 1), (), DataType.INT64), truth]
    states, stacked = _settled(
        states, lambda now, last: body(graph, [*fixed, *now], None if last is None else [*fixed, *last])[1:]
    )
    return [*states, *map(_stacked, stacked)]


def _stacked(x: Interval, axis: int = 0, turns: int | None = None) -> Interval:
    """The elements of all turns, along a new axis."""
    if x.dims is None:
        return x
    axis = axis_of(axis, len(x.dims) + 1)
    return x.moved(lambda ends: np.expand_dims(ends, axis), (*x.dims[:axis], turns, *x.dims[axis:]))


def _scan(step: Step, body: Body) -> list[Interval]:
    """Scan; that of opset 8 has a batch dimension more, along which its bounds are joined."""
    graph, batched = _graph_of(step, "body"), step.opset < 9
    first, scanned = int(batched), step.int("num_scan_inputs", 0)
    operands = [step.input(index) for index in range(first, len(step.node.inputs))]
    if len(graph.inputs) != len(operands):
        raise UnknownRangeError
    states, inputs = operands[:-scanned], operands[-scanned:]
    axes = step.ints("scan_input_axes") or [0] * scanned
    if len(axes) != scanned:
        raise UnknownRangeError
    slices = [collapsed(x, None) if batched else _without(x, axis) for x, axis in zip(inputs, axes, strict=True)]
    if batched:
        states = [collapsed(state, None) for state in states]
    states, rows = _settled(
        states, lambda now, last: body(graph, [*now, *slices], None if last is None else [*last, *slices])
    )
    places = step.ints("scan_output_axes") or [0] * len(rows)
    if len(places) != len(rows):
        raise UnknownRangeError
    if batched:
        return [collapsed(interval, None) for interval in (*states, *rows)]
    lengths = [x.dims[axis] for x, axis in zip(inputs, axes, strict=True) if x.dims is not None]
    turns = next((length for length in lengths if length is not None), None)
    return [*states, *(_stacked(row, axis, turns) for row, axis in zip(rows, places, strict=True))]


def _without(x: Interval, axis: int) -> Interval:
    """What a turn takes along the axis."""
    if x.dims is None:
        return x
    axis = axis_of(axis, len(x.dims))
    dims: Dims = tuple(dim for index, dim in enumerate(x.dims) if index != axis)
    return joined_along(x, [axis]).moved(lambda ends: ends.squeeze(axis), dims)
