"""If, Loop and Scan run on arrays: what meets where control flow joins has the common type, taken or not.

The types are found by running: both branches of an If are run for the types of their results, and a body is run on the
states that enter it until the types that leave no longer widen them. The run that counts starts from those types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.schemas import opset_of
from castsmith.ir.verify_engines import EngineError
from castsmith.ir.verify_promotion import Array, dtype_of
from castsmith.numerics.cast import cast
from castsmith.numerics.promotion import PromotionRules, common_type

Scope = dict[onnx_ir.Value, Array]
Imports = Mapping[str, int]

_MOST_TRIPS = 256


class Evaluates(Protocol):
    """What control flow asks of the evaluator around it."""

    rules: PromotionRules

    def graph(self, graph: onnx_ir.Graph, scope: Scope, imports: Imports, *, trial: bool = False) -> list[Array]:
        """The outputs of a subgraph. trial: run to learn the types alone, so that nobody watches."""
        ...


def run_control_flow(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Array | None], scope: Scope, imports: Imports
) -> list[Array] | None:
    """The outputs of an If, Loop or Scan; None for any other node."""
    if node.op_type == "If":
        return _branches(run, node, bool(np.all(inputs[0])), scope, imports)
    if node.op_type == "Loop":
        return _loop(run, node, inputs, scope, imports)
    if node.op_type == "Scan":
        return _scan(run, node, [array for array in inputs if array is not None], scope, imports)
    return None


def _branches(run: Evaluates, node: onnx_ir.Node, taken: bool, scope: Scope, imports: Imports) -> list[Array]:
    chosen, other = ("then_branch", "else_branch") if taken else ("else_branch", "then_branch")
    found = run.graph(node.attributes[chosen].as_graph(), dict(scope), imports)
    try:
        untaken = run.graph(node.attributes[other].as_graph(), dict(scope), imports, trial=True)
    except EngineError:
        return found  # what a branch needs may not be there when it is not taken
    pairs = zip(found, untaken, strict=True)
    return [array if _same(array, rest) else cast(array, _joined(run, [array, rest])) for array, rest in pairs]


def _loop(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Array | None], scope: Scope, imports: Imports
) -> list[Array]:
    body = node.attributes["body"].as_graph()
    trips = None if inputs[0] is None else int(inputs[0].reshape(()))
    going = True if inputs[1] is None else bool(inputs[1])
    start = [array for array in inputs[2:] if array is not None]
    if len(start) + 2 < len(inputs):
        raise EngineError(f"Loop {node.name or ''} has a state without an initial value, which is not run.")

    def step(turn: int, states: list[Array], *, trial: bool = False) -> list[Array]:
        entry = [np.array(turn, np.int64), np.array(True), *states]
        return run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports, trial=trial)

    states, types = _settled(run, start, lambda states: step(0, states, trial=True)[1 : 1 + len(states)])
    collected: list[list[Array]] = [[] for _ in range(len(node.outputs) - len(states))]
    turn = 0
    while going and (trips is None or turn < trips):
        if turn >= _MOST_TRIPS:
            raise EngineError(f"Loop {node.name or ''} does not end within {_MOST_TRIPS} turns on these inputs.")
        found = step(turn, states)
        going, turn = bool(found[0]), turn + 1
        states = [_as(array, dtype) for array, dtype in zip(found[1 : 1 + len(types)], types, strict=True)]
        for elements, element in zip(collected, found[1 + len(types) :], strict=True):
            elements.append(element)
    return [*states, *map(np.stack, _turned(node, collected))]


def _scan(run: Evaluates, node: onnx_ir.Node, inputs: list[Array], scope: Scope, imports: Imports) -> list[Array]:
    body = node.attributes["body"].as_graph()
    count = len(inputs) - node.attributes["num_scan_inputs"].as_int()
    if "directions" in node.attributes or (opset_of(imports, "") or 9) < 9:
        raise EngineError(f"Scan {node.name or ''} is that of opset 8, which is not run here.")
    scanned = [_scanned(node, index, array) for index, array in enumerate(inputs[count:])]

    def step(turn: int, states: list[Array], *, trial: bool = False) -> list[Array]:
        entry = [*states, *(array[turn] for array in scanned)]
        return run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports, trial=trial)

    states, types = inputs[:count], [dtype_of(array) for array in inputs[:count]]
    if len(scanned[0]):
        states, types = _settled(run, states, lambda states: step(0, states, trial=True)[:count])
    collected: list[list[Array]] = [[] for _ in range(len(node.outputs) - count)]
    for turn in range(len(scanned[0])):
        found = step(turn, states)
        states = [_as(array, dtype) for array, dtype in zip(found[:count], types, strict=True)]
        for elements, element in zip(collected, found[count:], strict=True):
            elements.append(element)
    return [*states, *(_collected(node, i, elements) for i, elements in enumerate(_turned(node, collected)))]


def _scanned(node: onnx_ir.Node, index: int, array: Array) -> Array:
    """An input of Scan with the axis along which it is scanned in front, in the order of the turns."""
    front = np.moveaxis(array, _entry(node, "scan_input_axes", index), 0)
    return front[::-1] if _entry(node, "scan_input_directions", index) else front


def _collected(node: onnx_ir.Node, index: int, elements: list[Array]) -> Array:
    ordered = elements[::-1] if _entry(node, "scan_output_directions", index) else elements
    return np.stack(ordered, _entry(node, "scan_output_axes", index))


def _entry(node: onnx_ir.Node, name: str, index: int) -> int:
    """The entry of a list of axes or directions; 0 where the list is left out."""
    return (node.attributes.get_ints(name) or [0] * (index + 1))[index]


def _turned(node: onnx_ir.Node, collected: list[list[Array]]) -> list[list[Array]]:
    """What the turns gave, of which there has to be something to know the shapes of the results."""
    if not all(collected):
        raise EngineError(
            f"{node.op_type} {node.name or ''} makes no turn on these inputs, so its results have no shape."
        )
    return collected


def _settled(
    run: Evaluates, start: list[Array], leave: Callable[[list[Array]], list[Array]]
) -> tuple[list[Array], list[DataType]]:
    """The states that enter, in the types that the body keeps, and those types."""
    states = start
    while True:
        pairs = zip(states, leave(states), strict=True)
        types = [dtype_of(a) if _same(a, b) else _joined(run, [a, b]) for a, b in pairs]
        if types == [dtype_of(array) for array in states]:
            return states, types
        states = [cast(array, dtype) for array, dtype in zip(start, types, strict=True)]


def _same(a: Array, b: Array) -> bool:
    return dtype_of(a) == dtype_of(b)


def _as(array: Array, dtype: DataType) -> Array:
    return array if dtype_of(array) == dtype else cast(array, dtype)


def _joined(run: Evaluates, arrays: Sequence[Array]) -> DataType:
    common = common_type([(dtype_of(array), 1) for array in arrays], run.rules)
    assert common is not None
    return common
