"""The regions of a graph: connected moves of elements and casts, as problems to be solved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import SMALL, constant_tensor, narrowed
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import CastNode
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.walks import graph_of
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.passes.core.casts import cast_of, held
from castsmith.passes.core.cost import Legality
from castsmith.passes.place.chains import Casting, Chain, is_fixed, start
from castsmith.passes.place.choices import Choice, Mode
from castsmith.passes.place.movable import data_inputs, elements_moved, moves_input
from castsmith.passes.place.problem import Demand, MovingNode, Problem, Root
from castsmith.passes.place.sizes import Sizes

_IN_A_ROW = 64
"""Largest number of casts in a row that is analysed: with more, more than two change values."""


@dataclass
class Region:
    """Nodes that are connected by the elements they move: all in the order of the graph, and the casts among them."""

    nodes: dict[onnx_ir.Node, int] = field(default_factory=dict[onnx_ir.Node, int])
    inputs: dict[onnx_ir.Node, list[int]] = field(default_factory=dict[onnx_ir.Node, list[int]])
    """The inputs of each node that hold elements."""
    casts: dict[onnx_ir.Node, CastNode] = field(default_factory=dict[onnx_ir.Node, CastNode])

    @property
    def moves(self) -> list[onnx_ir.Node]:
        return [node for node in self.nodes if node not in self.casts]


def find_regions(
    graph: onnx_ir.Graph, inference: Inference, imports: Mapping[str, int], ranges: Ranges
) -> list[Region]:
    """Yield the regions of one graph, without its subgraphs, that have both a cast and a move."""
    casts: dict[onnx_ir.Node, CastNode] = {}
    members: dict[onnx_ir.Node, list[int]] = {}
    for node in graph:
        indexes, meaning = data_inputs(node), _movable_cast(node, inference, imports, ranges)
        if meaning is not None:
            casts[node], indexes = meaning, [0]
        elif not indexes or any(inference.type_of(node.inputs[index]) is None for index in indexes):
            continue
        members[node] = indexes
    first: dict[object, object] = {}
    for node, indexes in members.items():
        whole = _first(node, first)
        for member in (*node.outputs, *(node.inputs[index] for index in indexes)):
            first[_first(member, first)] = whole
    regions: defaultdict[object, Region] = defaultdict(Region)
    for place, node in enumerate(members):
        region = regions[_first(node, first)]
        region.nodes[node], region.inputs[node] = place, members[node]
        if node in casts:
            region.casts[node] = casts[node]
    return [region for region in regions.values() if 0 < len(region.casts) < len(region.nodes)]


def _first(member: object, first: dict[object, object]) -> object:
    """Return the one that stands for the set of `member`; the way there is halved, so that ways stay short."""
    above = first.setdefault(member, member)
    while above is not member:
        first[member] = first[above]
        member, above = above, first[above]
    return member


def pose(
    region: Region,
    inference: Inference,
    imports: Mapping[str, int],
    sizes: Sizes,
    *,
    legality: Legality,
    namer: Namer,
) -> Problem | str | None:
    """Return the problem of a region, or the reason why it is skipped; None for one that is not of two types."""
    if _longest_row(region) > _IN_A_ROW:
        return f"chain of more than {_IN_A_ROW} casts; skipped"
    opset, graph = opset_of(imports, "") or 1, graph_of(next(iter(region.nodes)))
    inputs = (node.inputs[index] for node, indexes in region.inputs.items() for index in indexes)
    steps = _steps(region.casts.values(), {_type(value, inference) for value in inputs}, opset)
    if isinstance(steps, str):
        return steps
    if len(steps) != 2:
        return None
    casting = Casting(steps, opset)
    numbers = {node: number for number, node in enumerate(region.moves)}
    histories: dict[onnx_ir.Value, Chain] = {}
    moves: list[MovingNode] = []
    unmoved: list[onnx_ir.Node] = []
    for node in region.nodes:
        indexes = region.inputs[node]
        operands = [value for index in indexes if (value := node.inputs[index]) is not None]
        for value in operands:
            if value not in histories:
                histories[value] = _history_of_source(value, inference, casting)
        if node in region.casts:
            extended = casting.extend(histories[operands[0]], region.casts[node].target)
            if extended is None:
                unmoved.append(node)
            else:
                histories[node.outputs[0]] = extended
            continue
        sizes.note_move(operands, node.outputs)
        dtype = _type(operands[0], inference)
        alike = len({histories[value] for value in operands}) == 1
        for output in node.outputs:
            histories[output] = histories[operands[0]] if alike else start(dtype)
        choices = tuple(_choices(node, indexes, dtype, casting, imports, legality))
        moves.append(MovingNode(node, dtype, choices, elements_moved(node, indexes, sizes)))
    for node in unmoved:
        # Fixed for the actual values, by a range that is not in their history: it bounds the region.
        del region.nodes[node], region.inputs[node], region.casts[node]
    # A value cast at optimization time must be a constant for any choice of types in the region.
    cast_now = all(namer.takes_constant(graph, dtype) for dtype in casting.types())
    roots = [
        _root(value, chain, region, numbers, sizes, cast_now=cast_now)
        for value, chain in histories.items()
        if value.producer() not in region.casts
    ]
    if legality.target is not None and legality.target.breaks_cast_after_transpose:
        _leave_casts_ahead(moves, roots)
    before = [_casts_of(root.value, region, root.elements, inference) for root in roots if root.price]
    total = sum(move.elements * move.dtype.itemsize for move in moves) + sum(moved for moved, _ in before)
    return Problem(moves, roots, casting, total, sum(casts for _, casts in before))


def _leave_casts_ahead(moves: list[MovingNode], roots: Iterable[Root]) -> None:
    """Drop the choices that put a cast between a Transpose and a MatMul, its only user."""
    for root in roots:
        if root.move is None or len(root.demands) != 1:
            continue
        move, (demand,) = moves[root.move], root.demands
        if move.node.op_type == "Transpose" and demand.user is not None and demand.user.op_type == "MatMul":
            wanted = demand.path[-1] if demand.path else move.dtype
            current, *others = move.choices
            moves[root.move] = replace(move, choices=(current, *(c for c in others if c.dtype == wanted)))


def _movable_cast(
    node: onnx_ir.Node, inference: Inference, imports: Mapping[str, int], ranges: Ranges
) -> CastNode | None:
    """Return the node's cast, if it is a Cast that the standard fixes for all actual values."""
    step = cast_of(node, inference) if node.op_type == "Cast" and node.outputs else None
    if step is None:
        return None
    value, source, meaning = step
    fixed = is_fixed(source, meaning, opset_of(imports, "") or 1) or held(value, ranges, source, meaning.target)
    return meaning if fixed else None


def _longest_row(region: Region) -> int:
    """Return the largest number of casts in a row, with no move between them."""
    rows: dict[onnx_ir.Value | None, int] = {}
    for node in region.casts:
        rows[node.outputs[0]] = rows.get(node.inputs[0], 0) + 1
    return max(rows.values())


def _type(value: onnx_ir.Value | None, inference: Inference) -> DataType:
    return present(inference.type_of(value), "the type of a value whose elements move")


def _steps(casts: Iterable[CastNode], types: set[DataType], opset: int) -> tuple[CastNode, ...] | str:
    """Return one cast to each type of the region."""
    steps: dict[DataType, CastNode] = {}
    for step in casts:
        other = steps.setdefault(step.target, step)
        policies = {
            policy_for(step.target, saturate=s.saturate, round_mode=s.round_mode, opset=opset) for s in (step, other)
        }
        if len(policies) > 1:
            return "casts to one type have different settings"
    for dtype in types - steps.keys():
        steps[dtype] = CastNode(dtype, saturate=True, round_mode="up")
    return tuple(steps[dtype] for dtype in sorted(steps))


def _choices(
    node: onnx_ir.Node,
    indexes: list[int],
    dtype: DataType,
    casting: Casting,
    imports: Mapping[str, int],
    legality: Legality,
) -> Iterable[Choice]:
    yield Choice(dtype, Mode.KEEP)
    for other in casting.types():
        if other == dtype or not all(legality.takes(node, index, other, imports) for index in indexes):
            continue
        ahead = is_fixed(dtype, casting.step_to(other), casting.opset)
        if ahead:
            yield Choice(other, Mode.AFTER)
        # If the type holds the other, and can be cast back to it, AFTER is the same.
        if not (ahead and embeds(other, dtype)) and is_fixed(other, casting.step_to(dtype), casting.opset):
            yield Choice(other, Mode.BEFORE)


def _history_of_source(value: onnx_ir.Value, inference: Inference, casting: Casting) -> Chain:
    """Return the history of an outer value: a small constant may fit the other type."""
    dtype, tensor = _type(value, inference), constant_tensor(value)
    (other,) = (each for each in casting.types() if each != dtype)
    if tensor is None or narrowed(tensor, other, casting.opset) is None:
        return start(dtype)
    return present(casting.extend(start(other), dtype), "the chain of a cast to a type that holds the other")


def _root(
    value: onnx_ir.Value,
    chain: Chain,
    region: Region,
    numbers: Mapping[onnx_ir.Node, int],
    sizes: Sizes,
    *,
    cast_now: bool,
) -> Root:
    producer = value.producer()
    tensor = constant_tensor(value)
    free = cast_now and tensor is not None and tensor.size <= SMALL
    demands = tuple(_demands(value, (), region, numbers))
    number = None if producer is None else numbers.get(producer)
    return Root(value, chain, number, sizes.of(value), demands, price=0 if free else 1)


def _casts_of(value: onnx_ir.Value, region: Region, elements: int, inference: Inference) -> tuple[float, int]:
    """Return the bytes that the region's casts of the value read and write, and their number."""
    total, count = 0.0, 0
    for node in value.consumers():
        if node in region.casts:
            types = (_type(value, inference), region.casts[node].target)
            moved, casts = _casts_of(node.outputs[0], region, elements, inference)
            total += elements * sum(dtype.itemsize for dtype in types) + moved
            count += 1 + casts
    return total, count


def _demands(
    value: onnx_ir.Value, path: tuple[DataType, ...], region: Region, numbers: Mapping[onnx_ir.Node, int]
) -> Iterable[Demand]:
    if value.is_graph_output():
        yield Demand(path, value, None, 0, None)
    for node, index in value.uses():
        if node in region.casts:
            yield from _demands(node.outputs[0], (*path, region.casts[node].target), region, numbers)
        elif node in numbers and moves_input(node, index):
            yield Demand(path, value, node, index, numbers[node])
        else:
            yield Demand(path, value, node, index, None)
