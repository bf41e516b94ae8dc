"""If, Loop, Scan and sequences: branches are joined, and the state of a loop widens until a turn adds nothing to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.bounds.interval import (
    Dims,
    Interval,
    collapsed,
    constant_interval,
    flags,
    hull,
    joined_along,
    with_bounds,
)
from castsmith.ir.bounds.rounding import limits_of
from castsmith.ir.bounds.step import Step, UnknownRangeError

Body = Callable[[onnx_ir.Graph, Sequence[Interval]], list[Interval]]
"""Walk a subgraph with intervals for its inputs, and return those of its outputs."""

_TURNS = 3
"""Turns of a loop that are followed before its state is widened."""
_UNROLLED = 32
"""Turns of a loop that are followed one by one, where their number is fixed."""


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


def _if(step: Step, body: Body) -> list[Interval]:
    condition = step.input(0)
    exact = condition.exact
    names = ["then_branch", "else_branch"]
    if exact is not None and exact.size == 1:
        names = names[:1] if exact.reshape(-1)[0] else names[1:]
    branches = [body(step.node.attributes[name].as_graph(), []) for name in names]
    return [hull(each) for each in zip(*branches, strict=True)]


def _widened(before: Interval, after: Interval, turn: int) -> tuple[Interval, bool]:
    """Return the state that holds both, and True if the second added nothing.

    After some iterations a moving end is widened to the limit of the type.
    """
    joint = hull([before, after])
    low, high = before.least, before.greatest
    grew_low, grew_high = joint.least < low, joint.greatest > high
    said = {name: getattr(joint, name) | flags(before, after)[name] for name in ("nan", "infinite", "assumes", "blame")}
    same = not grew_low and not grew_high and all(said[name] == getattr(before, name) for name in said)
    if same:
        return replace(collapsed(before, joint.dims), **said), True
    least, greatest = joint.least, joint.greatest
    if turn >= _TURNS:
        limits = limits_of(before.dtype)
        least = limits[0] if grew_low else least
        greatest = limits[1] if grew_high else greatest
    return constant_interval(least, greatest, joint.dims, before.dtype, **said), False


def _loop(step: Step, body: Body) -> list[Interval]:
    graph = step.node.attributes["body"].as_graph()
    count = len(step.node.inputs) - 2
    states = [step.input(2 + index) for index in range(count)]
    trips = step.optional(0)
    most = float(2**62) if trips is None else max(0.0, trips.greatest)
    fixed = trips is not None and trips.least == trips.greatest <= _UNROLLED and step.optional(1) is None
    stacked: list[Interval] = []
    turn_of = constant_interval(0.0, max(0.0, most - 1), (), DataType.INT64)
    truth = constant_interval(0.0, 1.0, (), DataType.BOOL)
    if fixed and _goes_on(graph):
        rows: list[list[Interval]] = []
        for turn in range(int(most)):
            results = body(graph, [constant_interval(turn, turn, (), DataType.INT64), truth, *states])
            states = results[1 : 1 + count]
            rows.append(results[1 + count :])
        stacked = [hull(list(each)) for each in zip(*rows, strict=True)]
    else:
        for turn in range(64):
            results = body(graph, [turn_of, truth, *states])
            found = [_widened(a, b, turn) for a, b in zip(states, results[1 : 1 + count], strict=True)]
            states, stacked = [each for each, _ in found], results[1 + count :]
            if all(done for _, done in found):
                break
        else:
            raise UnknownRangeError
    missing = len(step.node.outputs) - count - len(stacked)
    extra = [_stacked(each) for each in stacked] + [step.unbounded(count + i, nan=False) for i in range(missing)]
    return [*states, *extra]


def _goes_on(graph: onnx_ir.Graph) -> bool:
    """True if the body always asks for another turn."""
    node = graph.outputs[0].producer()
    return node is not None and node.op_type == "Identity" and node.inputs[0] is graph.inputs[1]


def _stacked(x: Interval, axis: int = 0) -> Interval:
    """The elements of all turns, along a new axis."""
    if x.dims is None:
        return x
    dims: Dims = (*x.dims[:axis], None, *x.dims[axis:])
    low, high = np.expand_dims(x.low, axis), np.expand_dims(x.high, axis)
    return with_bounds(x, low, high, dims)


def _scan(step: Step, body: Body) -> list[Interval]:
    graph = step.node.attributes["body"].as_graph()
    first = int(step.opset == 8)
    scanned = step.node.attributes["num_scan_inputs"].as_int()
    states = [step.input(index) for index in range(first, len(step.node.inputs) - scanned)]
    inputs = [step.input(index) for index in range(len(step.node.inputs) - scanned, len(step.node.inputs))]
    axes = step.node.attributes.get("scan_input_axes")
    given = [0] * scanned if axes is None else [int(each) for each in axes.as_ints()]
    slices = [collapsed(x, None) if first else _without(x, axis) for x, axis in zip(inputs, given, strict=True)]
    if first:
        states = [collapsed(each, None) for each in states]
    results: list[Interval] = []
    for turn in range(64):
        results = body(graph, [*states, *slices])
        found = [_widened(a, b, turn) for a, b in zip(states, results[: len(states)], strict=True)]
        states = [each for each, _ in found]
        if all(done for _, done in found):
            break
    else:
        raise UnknownRangeError
    out = step.node.attributes.get("scan_output_axes")
    count = len(results) - len(states)
    places = [0] * count if out is None else [int(each) for each in out.as_ints()]
    stacked = [_along(each, axis) for each, axis in zip(results[len(states) :], places, strict=True)]
    return [collapsed(each, None) for each in (*states, *stacked)] if first else [*states, *stacked]


def _along(x: Interval, axis: int) -> Interval:
    return x if x.dims is None else _stacked(x, axis % (len(x.dims) + 1))


def _without(x: Interval, axis: int) -> Interval:
    if x.dims is None:
        return x
    axis %= len(x.dims)
    low, high = joined_along(x, [axis])
    dims = tuple(dim for index, dim in enumerate(x.dims) if index != axis)
    return with_bounds(x, low.squeeze(axis), high.squeeze(axis), dims)
