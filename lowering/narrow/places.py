"""The places of a model where a narrower type is possible, and the selection of those worth their casts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import OpKey, TypeGroup, actual_outputs, type_groups
from castsmith.lowering.narrow.facts import MOVING, NARROWER
from castsmith.numerics.exactness import is_exact


@dataclass(frozen=True)
class Place:
    """A node, the indices of its inputs and outputs to narrow, and their wide type."""

    node: onnx_ir.Node
    dtype: DataType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def groups_of(
    node: onnx_ir.Node, key: OpKey, dtype: DataType, inference: Inference
) -> Iterator[tuple[TypeGroup, tuple[int, ...], tuple[int, ...]]]:
    """Return the inputs and outputs of type variables that allow the wide and the narrower type."""
    formals = actual_outputs(key, len(node.outputs))
    for group in type_groups(key, tuple(value is not None for value in node.inputs)):
        if NARROWER[dtype] not in group.allowed or inference.type_of(node.inputs[group.indexes[0]]) != dtype:
            continue
        named = (i for i, formal in enumerate(formals) if formal is not None and formal.variable == group.variable)
        yield group, group.indexes, tuple(index for index in named if node.outputs[index].name != "")


def worth_it(places: Sequence[Place], inference: Inference) -> list[Place]:
    """Return all places except stretches of mere moves that are wide at both ends."""
    import networkx

    makers = {place.node.outputs[index]: place for place in places for index in place.outputs}
    place_of = {place.node: place for place in places}
    graph: networkx.Graph[onnx_ir.Node] = networkx.Graph()
    graph.add_nodes_from(place_of)
    for place in places:
        values = (place.node.inputs[index] for index in place.inputs)
        graph.add_edges_from(
            (place.node, makers[value].node) for value in values if value is not None and value in makers
        )
    narrowed: set[onnx_ir.Node] = set()
    for nodes in networkx.connected_components(graph):
        stretch = [place_of[node] for node in nodes]
        moves = all(place.node.op_type in MOVING and place.outputs for place in stretch)
        if not moves or not (_pays_to_enter(stretch, makers, inference) and _pays_to_leave(stretch)):
            narrowed |= nodes
    return [place for place in places if place.node in narrowed]


def _pays_to_enter(stretch: Collection[Place], outputs: Collection[onnx_ir.Value], inference: Inference) -> bool:
    """True if an operand must be cast that is neither constant nor was narrow before."""
    for place in stretch:
        for value in (place.node.inputs[index] for index in place.inputs):
            if value is None or value in outputs or constant_tensor(value) is not None:
                continue
            node = value.producer()
            source = None if node is None or read_cast(node) is None else inference.type_of(node.inputs[0])
            if source is None or not is_exact(source, NARROWER[place.dtype]):
                return True
    return False


def _pays_to_leave(stretch: Collection[Place]) -> bool:
    """True if a result must be cast for a user that is not a cast itself."""
    inside = {place.node for place in stretch}
    for place in stretch:
        for value in (place.node.outputs[index] for index in place.outputs):
            users = [user for user, _ in value.uses()]
            if value.is_graph_output() or any(user not in inside and read_cast(user) is None for user in users):
                return True
    return False
