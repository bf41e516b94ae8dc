"""If, Loop and Scan for the evaluator: what meets where control flow joins has the common type, taken or not.

The types are found by running: both branches of an If are run for the types of their results, and a body is run on the
states that enter it until the types that leave no longer widen them. The run that counts starts from those types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from tests.promoting import dtype_of

Array = NDArray[Any]
Scope = dict[onnx_ir.Value, Array]


class Evaluates(Protocol):
    rules: PromotionRules

    def graph(self, graph: onnx_ir.Graph, scope: Scope, imports: Mapping[str, int]) -> list[Array]: ...


def branches(run: Evaluates, node: onnx_ir.Node, taken: bool, scope: Scope, imports: Mapping[str, int]) -> list[Array]:
    graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    found = [run.graph(graph, dict(scope), imports) for graph in graphs]
    pairs = zip(*found, strict=True)
    return [cast(pair[not taken], _joined(run, [dtype_of(array) for array in pair])) for pair in pairs]


def loop(
    run: Evaluates, node: onnx_ir.Node, inputs: list[Array | None], scope: Scope, imports: Mapping[str, int]
) -> list[Array]:
    body = node.attributes["body"].as_graph()
    trips = None if inputs[0] is None else int(inputs[0])
    going = True if inputs[1] is None else bool(inputs[1])
    start = [array for array in inputs[2:] if array is not None]

    def step(turn: int, states: list[Array]) -> list[Array]:
        entry = [np.array(turn, np.int64), np.array(True), *states]
        return run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports)

    states, types = _settled(run, start, lambda states: step(0, states)[1 : 1 + len(states)])
    collected: list[list[Array]] = [[] for _ in range(len(node.outputs) - len(states))]
    turn = 0
    while going and (trips is None or turn < trips):
        found = step(turn, states)
        going, turn = bool(found[0]), turn + 1
        states = [cast(a, dtype) for a, dtype in zip(found[1 : 1 + len(types)], types, strict=True)]
        for elements, element in zip(collected, found[1 + len(types) :], strict=True):
            elements.append(element)
    return [*states, *(np.stack(elements) for elements in collected)]


def scan(
    run: Evaluates, node: onnx_ir.Node, inputs: list[Array], scope: Scope, imports: Mapping[str, int]
) -> list[Array]:
    """Scan along the first axis, forward."""
    body = node.attributes["body"].as_graph()
    count = len(inputs) - node.attributes["num_scan_inputs"].as_int()
    scanned = inputs[count:]

    def step(turn: int, states: list[Array]) -> list[Array]:
        entry = [*states, *(array[turn] for array in scanned)]
        return run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports)

    states, types = _settled(run, inputs[:count], lambda states: step(0, states)[:count])
    collected: list[list[Array]] = [[] for _ in range(len(node.outputs) - count)]
    for turn in range(len(scanned[0])):
        found = step(turn, states)
        states = [cast(a, dtype) for a, dtype in zip(found[:count], types, strict=True)]
        for elements, element in zip(collected, found[count:], strict=True):
            elements.append(element)
    return [*states, *(np.stack(elements) for elements in collected)]


def _settled(
    run: Evaluates, start: list[Array], leave: Callable[[list[Array]], list[Array]]
) -> tuple[list[Array], list[DataType]]:
    """The states that enter, in the types that the body keeps, and those types."""
    states = start
    while True:
        types = [_joined(run, [dtype_of(a), dtype_of(b)]) for a, b in zip(states, leave(states), strict=True)]
        if types == [dtype_of(array) for array in states]:
            return states, types
        states = [cast(array, dtype) for array, dtype in zip(start, types, strict=True)]


def _joined(run: Evaluates, types: list[DataType]) -> DataType:
    common = common_type([(dtype, 1) for dtype in types], run.rules)
    assert common is not None
    return common
