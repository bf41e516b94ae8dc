"""If, Loop, Scan, sequences and optionals, run on contents: joined values get their common type.

The types are found by running: both branches of an If are run for the types of their results, and a body is run on its
initial states until the types of the next states no longer widen them. The actual run starts from those types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast as typing_cast

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.conversions import Content, Tensor
from castsmith.verification.evaluate.engines import EngineError
from castsmith.verification.evaluate.limits import Budget
from castsmith.verification.evaluate.promotion import dtype_of

Contents = dict[onnx_ir.Value, Content]
Imports = Mapping[str, int]


class Evaluates(Protocol):
    """The interface of the evaluator for control flow."""

    rules: PromotionRules
    budget: Budget

    def graph(self, graph: onnx_ir.Graph, scope: Contents, imports: Imports, *, trial: bool = False) -> list[Content]:
        """Return the outputs of a subgraph. trial: run to learn the types alone, without being recorded."""
        ...

    def took(self, node: onnx_ir.Node, way: str) -> None:
        """Note the branch that an If took, or the number of iterations of a loop."""
        ...

    def joined(
        self, node: onnx_ir.Node, find: Callable[[], list[DataType | None] | None]
    ) -> list[DataType | None] | None:
        """Return the cached result of `find` for this node in its scope."""
        ...


def run_control_flow(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Content], scope: Contents, imports: Imports
) -> list[Content] | None:
    """Return the outputs of an operator on graphs, sequences or optionals; None for any other node."""
    if node.op_type == "If":
        return _branches(run, node, _tensor(node, inputs[0]), scope, imports)
    if node.op_type == "Loop":
        return _loop(run, node, inputs, scope, imports)
    if node.op_type == "Scan":
        if "directions" in node.attributes or (opset_of(imports, "") or 9) < 9:
            return _scan_of_opset_8(run, node, inputs, scope, imports)
        return _scan(run, node, [_tensor(node, content) for content in inputs], scope, imports)
    if node.op_type == "SequenceMap":
        return _sequence_map(run, node, inputs, scope, imports)
    if node.op_type == "OptionalGetElement":
        if inputs[0] is None:
            raise EngineError("OptionalGetElement gets an empty optional.")
        return [inputs[0]]
    if node.op_type in _OPTIONAL:
        return [_OPTIONAL[node.op_type](inputs)]
    return _moved(node, inputs, imports) if node.op_type in _OF_SEQUENCES else None


def _branches(
    run: Evaluates, node: onnx_ir.Node, condition: Tensor, scope: Contents, imports: Imports
) -> list[Content]:
    is_true = bool(np.all(condition.array))
    chosen, skipped = ("then_branch", "else_branch") if is_true else ("else_branch", "then_branch")
    run.took(node, chosen)
    outcome = run.graph(node.attributes[chosen].as_graph(), dict(scope), imports)

    def join() -> list[DataType | None] | None:
        try:
            skipped_results = run.graph(node.attributes[skipped].as_graph(), dict(scope), imports, trial=True)
        except EngineError:
            return None  # inputs of a branch may be missing when it is not taken
        return [_joined(run, a, b) for a, b in zip(outcome, skipped_results, strict=True)]

    types = run.joined(node, join) or [None] * len(outcome)
    results = [_as(content, dtype) for content, dtype in zip(outcome, types, strict=True)]
    return results if condition.undefined is None else [_all_open(content) for content in results]


def _loop(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Content], scope: Contents, imports: Imports
) -> list[Content]:
    body = node.attributes["body"].as_graph()
    trips, condition = (None if content is None else _tensor(node, content) for content in inputs[:2])
    limit = None if trips is None else int(trips.array.reshape(()))
    going = True if condition is None else bool(np.all(condition.array))
    open_end = any(tensor is not None and tensor.undefined is not None for tensor in (trips, condition))
    start = list(inputs[2:])
    if None in node.inputs[2:]:
        raise EngineError(f"{_title(node)} has a state without an initial value, which is not supported.")

    def step(turn: int, states: list[Content], *, trial: bool = False) -> list[Content]:
        entry = [Tensor(np.array(turn, np.int64)), Tensor(np.array(True)), *states]
        return run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports, trial=trial)

    states, types = _settled(run, start, lambda states: step(0, states, trial=True)[1 : 1 + len(states)])
    collected: list[list[Tensor]] = [[] for _ in range(len(node.outputs) - len(states))]
    turn, nodes = 0, len(body)
    while going and (limit is None or turn < limit):
        run.budget.turn(_title(node), nodes)
        outcome = step(turn, states)
        last = _tensor(node, outcome[0])
        going, turn = bool(np.all(last.array)), turn + 1
        open_end |= last.undefined is not None
        states = [_as(content, dtype) for content, dtype in zip(outcome[1 : 1 + len(types)], types, strict=True)]
        for elements, element in zip(collected, outcome[1 + len(types) :], strict=True):
            elements.append(_tensor(node, element))
    run.took(node, str(min(turn, 2)))
    stacks: list[Content] = [_stacked(elements) for elements in collected if elements]
    if collected and not turn:
        stacks = [_no_turns(content) for content in step(0, states, trial=True)[1 + len(types) :]]
    results = [*states, *stacks]
    return [_all_open(content) for content in results] if open_end else results


def _scan(run: Evaluates, node: onnx_ir.Node, inputs: list[Tensor], scope: Contents, imports: Imports) -> list[Content]:
    body = node.attributes["body"].as_graph()
    count = len(inputs) - node.attributes["num_scan_inputs"].as_int()
    scanned = [_scanned(node, index, tensor) for index, tensor in enumerate(inputs[count:])]
    start: list[Content] = list(inputs[:count])
    states, collected, turns = _turns(run, node, body, start, scanned, scope, imports)
    stacks: list[Content] = []
    for index, elements in enumerate(collected):
        ordered = elements[::-1] if _entry(node, "scan_output_directions", index) else elements
        stack = _stacked(ordered) if turns else _no_turns(elements[0])
        axis = _entry(node, "scan_output_axes", index)
        stacks.append(_on(stack, lambda array, axis=axis: np.moveaxis(array, 0, axis)))
    return [*states, *stacks]


def _turns(
    run: Evaluates,
    node: onnx_ir.Node,
    body: onnx_ir.Graph,
    start: list[Content],
    scanned: Sequence[Tensor],
    scope: Contents,
    imports: Imports,
) -> tuple[list[Content], list[list[Tensor]], int]:
    """Return the last states, the elements that each output collects, and the number of iterations.

    Without iterations, a trial gives the shapes and types.
    """
    count, turns = len(start), len(scanned[0].array)

    def step(turn: int, states: list[Content], *, trial: bool = False) -> list[Content]:
        rows = [
            _on(tensor, lambda array: array[turn, ...] if turns else np.zeros_like(array, shape=array.shape[1:]))
            for tensor in scanned
        ]
        return run.graph(body, scope | dict(zip(body.inputs, [*states, *rows], strict=True)), imports, trial=trial)

    states, types = _settled(run, start, lambda states: step(0, states, trial=True)[:count])
    collected: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - count)]
    for turn in range(turns):
        run.budget.turn(_title(node), len(body))
        results = step(turn, states)
        states = [_as(content, dtype) for content, dtype in zip(results[:count], types, strict=True)]
        for elements, element in zip(collected, results[count:], strict=True):
            elements.append(_tensor(node, element))
    run.took(node, str(min(turns, 2)))
    if not turns:
        collected = [[_tensor(node, content)] for content in step(0, states, trial=True)[count:]]
    return states, collected, turns


def _scan_of_opset_8(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Content], scope: Contents, imports: Imports
) -> list[Content]:
    """Run Scan over sequences of a batch: the body runs for each member, and short sequences end in zeros."""
    body, states_given = node.attributes["body"].as_graph(), [_tensor(node, content) for content in inputs[1:]]
    count = len(states_given) - node.attributes["num_scan_inputs"].as_int()
    directions = node.attributes.get_ints("directions") or [0] * (len(states_given) - count)
    batch, longest = states_given[count].array.shape[:2]
    lengths = [longest] * batch if inputs[0] is None else _tensor(node, inputs[0]).array.tolist()
    members: list[list[Tensor]] = []
    for member, length in enumerate(lengths):
        rows = [_on(t, lambda array, m=member, n=length: array[m][:n]) for t in states_given[count:]]
        rows = [_on(t, lambda array: array[::-1]) if back else t for t, back in zip(rows, directions, strict=True)]
        start: list[Content] = [_on(t, lambda array, m=member: array[m]) for t in states_given[:count]]
        states, collected, turns = _turns(run, node, body, start, rows, scope, imports)
        stacks = [_stacked(elements) if turns else _no_turns(elements[0]) for elements in collected]
        padded = [
            _on(t, lambda array, n=longest: np.pad(array, [(0, n - len(array)), *[(0, 0)] * (array.ndim - 1)]))
            for t in stacks
        ]
        members.append([*(_tensor(node, state) for state in states), *padded])
    return [_stacked(list(parts)) for parts in zip(*members, strict=True)]


def _scanned(node: onnx_ir.Node, index: int, tensor: Tensor) -> Tensor:
    """Return an input of Scan with the scanned axis in front, in the order of the iterations."""
    axis, back = _entry(node, "scan_input_axes", index), _entry(node, "scan_input_directions", index)
    return _on(tensor, lambda array: np.moveaxis(array, axis, 0)[:: -1 if back else 1])


def _entry(node: onnx_ir.Node, name: str, index: int) -> int:
    """Return the entry of a list of axes or directions; 0 if the list is absent."""
    return (node.attributes.get_ints(name) or [0] * (index + 1))[index]


def _settled(
    run: Evaluates, start: list[Content], leave: Callable[[list[Content]], list[Content]]
) -> tuple[list[Content], list[DataType | None]]:
    """Return the initial states, in the types that the body keeps, and those types; None for a state without tensor."""
    states = start
    while True:
        pairs = zip(states, leave(states), strict=True)
        types = [_joined(run, a, b) for a, b in pairs]
        if types == [dtype_of(c.array) if isinstance(c, Tensor) else None for c in states]:
            return states, types
        states = [_as(content, dtype) for content, dtype in zip(start, types, strict=True)]


def _joined(run: Evaluates, a: Content, b: Content) -> DataType | None:
    """Return the common type; None if one is not a tensor."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return None
    types = dtype_of(a.array), dtype_of(b.array)
    if types[0] == types[1]:
        return types[0]
    return common_type([(dtype, 1) for dtype in types], run.rules)


def _as(content: Content, dtype: DataType | None) -> Content:
    if not isinstance(content, Tensor) or dtype is None or dtype_of(content.array) == dtype:
        return content
    return Tensor(cast(content.array, dtype), content.undefined)


def _title(node: onnx_ir.Node) -> str:
    return f"{node.op_type} {node.name or ''}".strip()


def _tensor(node: onnx_ir.Node, content: Content) -> Tensor:
    if not isinstance(content, Tensor):
        raise EngineError(f"{_title(node)} needs a tensor, but its operand is not one.")
    return content


def _on(tensor: Tensor, move: Callable[[np.ndarray], np.ndarray]) -> Tensor:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    """Apply a move of array elements to the tensor and its mask."""
    return Tensor(move(tensor.array), None if tensor.undefined is None else move(tensor.undefined))


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Return the tensors joined along a new axis."""
    try:
        array = np.stack([tensor.array for tensor in tensors])
    except ValueError as error:
        raise EngineError(f"tensors of different shapes cannot be joined ({error}).") from None
    if all(tensor.undefined is None for tensor in tensors):
        return Tensor(array)
    marks = [np.zeros(t.array.shape, np.bool_) if t.undefined is None else t.undefined for t in tensors]
    return Tensor(array, np.stack(marks))


def _no_turns(content: Content) -> Tensor:
    """Return the collected result of a loop without iterations, by the shape and type of one iteration."""
    array = content.array if isinstance(content, Tensor) else np.zeros(0, np.float32)
    return Tensor(np.zeros((0, *array.shape), array.dtype))


def _all_open(content: Content) -> Content:
    if isinstance(content, Tensor):
        return Tensor(content.array, np.ones(content.array.shape, np.bool_))
    return None if content is None else [_all_open(part) for part in content]


def _sequence_map(
    run: Evaluates, node: onnx_ir.Node, inputs: Sequence[Content], scope: Contents, imports: Imports
) -> list[Content]:
    body, first = node.attributes["body"].as_graph(), _sequence(node, inputs[0])
    results: list[list[Content]] = [[] for _ in node.outputs]
    for index in range(len(first)):
        run.budget.turn("SequenceMap", len(body))
        entry = [content[index] if isinstance(content, list) else content for content in inputs]
        outcome = run.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports)
        for elements, element in zip(results, outcome, strict=True):
            elements.append(element)
    run.took(node, str(min(len(first), 2)))
    return [*results]


def _sequence(node: onnx_ir.Node, content: Content) -> list[Content]:
    if not isinstance(content, list):
        raise EngineError(f"{_title(node)} needs a sequence.")
    return content


# Sequences, moved by the reference implementation of ONNX; marks of undefined elements move as the elements do.

_OF_SEQUENCES = operators(lambda row: row.moves in (Moves.PACK, Moves.UNPACK, Moves.CONTENT))


def _moved(node: onnx_ir.Node, inputs: Sequence[Content], imports: Imports) -> list[Content]:
    from onnx.reference import ReferenceEvaluator  # few models have sequences, and all conversions import this module

    place = _place_of_position(node)
    position = None if place >= len(inputs) or inputs[place] is None else _tensor(node, inputs[place])
    if node.op_type == "SplitToSequence" and position is not None:
        _require_parts(node, _tensor(node, inputs[0]), position)
    opset = opset_of(imports, "") or 1
    evaluator = ReferenceEvaluator(onnx_ir.serde.serialize_node(node), opsets={"": opset})

    def run(of: Callable[[Tensor], np.ndarray]) -> Any:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
        parts = [position.array if position and at == place else _each(part, of) for at, part in enumerate(inputs)]
        feeds = {value.name or "": part for value, part in zip(node.inputs, parts, strict=True) if value is not None}
        results: Any = evaluator.run(None, feeds)
        return results[0]

    marks = run(lambda tensor: np.zeros(tensor.array.shape, np.bool_) if tensor.undefined is None else tensor.undefined)
    moved = _marked(run(lambda tensor: tensor.array), marks)
    return [moved if position is None or position.undefined is None else _all_open(moved)]


def _place_of_position(node: onnx_ir.Node) -> int:
    """Return which operand says where to take, put or split, if there is one: its elements are not moved."""
    if node.op_type in ("SequenceAt", "SequenceErase", "SplitToSequence"):
        return 1
    return 2 if node.op_type == "SequenceInsert" else len(node.inputs)


def _require_parts(node: onnx_ir.Node, tensor: Tensor, parts: Tensor) -> None:
    """Raise EngineError if a tensor cannot be split so: the reference implementation would leave elements out."""
    size = tensor.array.shape[node.attributes.get_int("axis", 0) or 0]
    if parts.undefined is not None:
        raise EngineError("SplitToSequence gets sizes that the standard leaves undefined.")
    if int(parts.array.sum()) != size if parts.array.ndim else int(parts.array) < 1:
        raise EngineError(f"SplitToSequence cannot split {size} elements into {parts.array.tolist()}.")


def _each(content: Content, of: Callable[[Tensor], Any]) -> Any:
    return [_each(part, of) for part in content] if isinstance(content, list) else of(content) if content else None


def _marked(moved: Any, marks: Any) -> Content:
    """Return what was moved, with the marks that were moved with it; a number that was counted has none."""
    if isinstance(moved, list):
        pairs = zip(typing_cast("list[Any]", moved), marks, strict=True)
        return [_marked(part, mark) for part, mark in pairs]
    return Tensor(moved, marks if marks.dtype == np.bool_ and marks.any() else None)


_OPTIONAL: dict[str, Callable[[Sequence[Content]], Content]] = {
    "Optional": lambda inputs: inputs[0] if inputs else None,
    "OptionalHasElement": lambda inputs: Tensor(np.array(bool(inputs) and inputs[0] is not None)),
}
