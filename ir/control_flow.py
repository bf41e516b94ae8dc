"""Element types through If, Loop and Scan: where branches join and states go round, the widest type wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import onnx_ir
from onnx_ir import DataType


class TypeWalk(Protocol):
    """What inference offers to the rules of control flow."""

    types: dict[onnx_ir.Value, DataType]
    conversions: dict[tuple[onnx_ir.Node, int], DataType]
    output_conversions: dict[tuple[onnx_ir.Graph, int], DataType]

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None: ...
    def walk(self, scope: onnx_ir.Graph, imports: Mapping[str, int]) -> None: ...
    def merge(self, types: Sequence[DataType | None]) -> DataType | None: ...


def infer_control_flow(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int]) -> list[DataType | None] | None:
    """The output types of If, Loop or Scan, with what must be converted noted in `walk`; None for other operators."""
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "If":
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        return _branches(walk, branches, imports)
    if node.op_type == "Loop":
        body = node.attributes["body"].as_graph()
        fixed: list[DataType | None] = [DataType.INT64, DataType.BOOL]
        outputs = _states(walk, node, body, imports, first_input=2, first_output=1, fixed=fixed)
        return outputs[1:]
    if node.op_type == "Scan":
        body = node.attributes["body"].as_graph()
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
        scanned = [walk.type_of(value) for value in node.inputs[states:]]
        return _states(walk, node, body, imports, first_input=0, first_output=0, states=states, scanned=scanned)
    return None


def _branches(walk: TypeWalk, branches: list[onnx_ir.Graph], imports: Mapping[str, int]) -> list[DataType | None]:
    for branch in branches:
        walk.walk(branch, imports)
    joined: list[DataType | None] = []
    for index in range(len(branches[0].outputs)):
        types = [walk.type_of(branch.outputs[index]) for branch in branches]
        joined.append(walk.merge(types))
        for branch, dtype in zip(branches, types, strict=True):
            _note_output(walk, branch, index, dtype, joined[-1])
    return joined


def _states(
    walk: TypeWalk,
    node: onnx_ir.Node,
    body: onnx_ir.Graph,
    imports: Mapping[str, int],
    *,
    first_input: int,
    first_output: int,
    states: int | None = None,
    fixed: Sequence[DataType | None] = (),
    scanned: Sequence[DataType | None] = (),
) -> list[DataType | None]:
    """Walk the body until its states no longer widen; returns the types of all outputs of the body."""
    count = len(node.inputs) - first_input if states is None else states
    entering = [walk.type_of(value) for value in node.inputs[first_input : first_input + count]]
    carried = list(entering)
    while True:
        for value, dtype in zip(body.inputs, (*fixed, *carried, *scanned), strict=False):
            if dtype is not None:
                walk.types[value] = dtype
        walk.walk(body, imports)
        leaving = [walk.type_of(value) for value in body.outputs[first_output : first_output + count]]
        widened = [walk.merge(pair) or pair[0] for pair in zip(carried, leaving, strict=True)]
        if widened == carried:
            break
        carried = widened
    for index, (before, after) in enumerate(zip(entering, carried, strict=True)):
        if before != after and after is not None:
            walk.conversions[node, first_input + index] = after
    outputs = [walk.type_of(value) for value in body.outputs]
    for index, dtype in enumerate(carried, start=first_output):
        _note_output(walk, body, index, outputs[index], dtype)
        outputs[index] = dtype or outputs[index]
    return outputs


def _note_output(
    walk: TypeWalk, graph: onnx_ir.Graph, index: int, dtype: DataType | None, wanted: DataType | None
) -> None:
    if wanted is not None and dtype is not None and dtype != wanted:
        walk.output_conversions[graph, index] = wanted
    else:
        walk.output_conversions.pop((graph, index), None)
