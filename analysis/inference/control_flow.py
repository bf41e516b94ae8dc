"""Element types through If, Loop, Scan and SequenceMap: joined branches and loop states get a common type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import Disagreement, not_an_operand, not_passed_on
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_inputs, actual_outputs, op_key, opset_of
from castsmith.ir.ops.table import RUNS_GRAPHS, named_types
from castsmith.ir.text import located, site_of
from castsmith.ir.walks import graphs_of
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules

Types = list[DataType | None]


class TypeWalk(Protocol):
    """The interface of inference for the rules of control flow."""

    rules: PromotionRules
    types: dict[onnx_ir.Value, DataType]
    illegal: dict[onnx_ir.Node, list[Disagreement]]
    conversions: dict[tuple[onnx_ir.Node, int], DataType]
    output_conversions: dict[tuple[onnx_ir.Graph, int], DataType]

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None: ...
    def walk(self, scope: onnx_ir.Graph, imports: Mapping[str, int]) -> None: ...


def infer_control_flow(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int]) -> Types | None:
    """Return the output types of a node with subgraphs, and note conversions in `walk`; None for other nodes."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in RUNS_GRAPHS:
        return None
    outputs = _outputs(walk, node, imports)
    _note_illegal(walk, node, imports, outputs)
    return outputs


def walk_other_graphs(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
    """Infer the subgraphs of any other node, which takes and gives the types that they declare.

    FlexAttention states the type of what it hands to its modifiers, and takes back.
    """
    handed_on = _of_scores(walk, node) if (node.domain, node.op_type) == _FLEX_ATTENTION else None
    for graph in graphs_of(node):
        outputs = _body(walk, graph, [handed_on] * len(graph.inputs), imports)
        for index, dtype in enumerate(outputs):
            declared = graph.outputs[index].dtype
            _note_output(walk, graph, index, dtype, handed_on or (None if declared == DataType.UNDEFINED else declared))


_FLEX_ATTENTION = ("ai.onnx.preview", "FlexAttention")


def _of_scores(walk: TypeWalk, node: onnx_ir.Node) -> DataType | None:
    if node.attributes.get("softmax_precision") is not None:
        return named_types(node).get("softmax_precision")
    dtype = walk.type_of(node.inputs[0])
    return dtype if dtype in (None, DataType.DOUBLE) else DataType.FLOAT


def _outputs(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int]) -> Types:
    match node.op_type:
        case "If":
            return _branches(walk, node, imports)
        case "Loop":
            fixed: Types = [DataType.INT64, DataType.BOOL]
            return _states(walk, node, imports, range(2, len(node.inputs)), first_output=1, before=fixed)[1:]
        case "Scan":
            first = int(opset_of(imports, "") == 8)
            split = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
            scanned = [walk.type_of(value) for value in node.inputs[split:]]
            return _states(walk, node, imports, range(first, split), first_output=0, after=scanned)
        case _:
            elements = [walk.type_of(value) for value in node.inputs]
            return _body(walk, node.attributes["body"].as_graph(), elements, imports)


def _branches(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int]) -> Types:
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    for branch in branches:
        walk.walk(branch, imports)
    joined: Types = []
    for index, outputs in enumerate(zip(*(branch.outputs for branch in branches), strict=True)):
        types = [walk.type_of(output) for output in outputs]
        joined.append(_meet(walk, node, f"output {index} of the branches:", outputs, types))
        for branch, dtype in zip(branches, types, strict=True):
            _note_output(walk, branch, index, dtype, joined[-1])
    return joined


def _states(
    walk: TypeWalk,
    node: onnx_ir.Node,
    imports: Mapping[str, int],
    states: range,
    *,
    first_output: int,
    before: Sequence[DataType | None] = (),
    after: Sequence[DataType | None] = (),
) -> Types:
    """Walk the body until its states no longer widen; return the types of all outputs of the body."""
    body = node.attributes["body"].as_graph()
    entering = [walk.type_of(node.inputs[index]) for index in states]
    left = body.outputs[first_output : first_output + len(states)]
    carried = entering
    while True:
        outputs = _body(walk, body, [*before, *carried, *after], imports)
        widened: Types = []
        for index, value in enumerate(left):
            pair = (node.inputs[states[index]], value)
            types = [carried[index], outputs[first_output + index]]
            widened.append(_meet(walk, node, "a state whose initial and next value are", pair, types) or carried[index])
        if widened == carried:
            break
        carried = widened
    for index, old, new in zip(states, entering, carried, strict=True):
        walk.conversions.pop((node, index), None)
        if old != new and new is not None:
            walk.conversions[node, index] = new
    for index, dtype in enumerate(carried, start=first_output):
        _note_output(walk, body, index, outputs[index], dtype)
        outputs[index] = dtype or outputs[index]
    return outputs


def _body(walk: TypeWalk, body: onnx_ir.Graph, inputs: Types, imports: Mapping[str, int]) -> Types:
    for value, dtype in zip(body.inputs, inputs, strict=False):
        if dtype is not None:
            walk.types[value] = dtype
    walk.walk(body, imports)
    return [walk.type_of(value) for value in body.outputs]


def _meet(
    walk: TypeWalk, node: onnx_ir.Node, what: str, values: Sequence[onnx_ir.Value | None], types: Types
) -> DataType | None:
    """Return the common type of joined values; None unless all are known."""
    dtypes = [dtype for dtype in types if dtype is not None]
    if len(dtypes) < len(types):
        return None
    try:
        return dtypes[0] if len(set(dtypes)) == 1 else common_type([(dtype, 1) for dtype in dtypes], walk.rules)
    except PromotionError as error:
        raise located(site_of(node), what, zip(values, dtypes, strict=True), error) from None


def _note_illegal(walk: TypeWalk, node: onnx_ir.Node, imports: Mapping[str, int], outputs: Types) -> None:
    """Note an input or output of a type that the operator does not pass on at this opset."""
    key = op_key(node, imports)
    if key is None:
        return
    inputs = [walk.conversions.get((node, index)) or walk.type_of(value) for index, value in enumerate(node.inputs)]
    passed = [*zip(inputs, actual_inputs(key, len(inputs)), strict=True)]
    passed += zip(outputs, actual_outputs(key, len(outputs)), strict=True)
    for dtype, formal in passed:
        if dtype is not None and formal is not None and formal.allowed and dtype not in formal.allowed:
            only = next(iter(formal.allowed)) if len(formal.allowed) == 1 else None
            reason = not_passed_on(key, dtype) if only is None else not_an_operand(key, dtype, only)
            error = PromotionError(reason, rule="operator")
            walk.illegal.setdefault(node, []).append(Disagreement(node, (), (dtype,), None, error))
            return


def _note_output(
    walk: TypeWalk, graph: onnx_ir.Graph, index: int, dtype: DataType | None, wanted: DataType | None
) -> None:
    if wanted is not None and dtype is not None and dtype != wanted:
        walk.output_conversions[graph, index] = wanted
    else:
        walk.output_conversions.pop((graph, index), None)
