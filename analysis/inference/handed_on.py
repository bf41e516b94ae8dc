"""Values that calls and control flow hand on: the elements of one are those of the other, or some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS

Pair = tuple[onnx_ir.Value | None, onnx_ir.Value]
"""A value, None for an operand that is left out, and the one that receives its elements."""
Border = tuple[onnx_ir.Node | onnx_ir.Graph, int]
"""An operand of a node, or an output of a graph."""


def handed_on(model: onnx_ir.Model, node: onnx_ir.Node) -> Iterator[Pair]:
    """Yield what the node hands into its function or subgraphs, from one turn to the next, and out."""
    return ((value_at(border), receiver) for border, receiver in borders(model, node))


def value_at(border: Border) -> onnx_ir.Value | None:
    """Return the value there; None for an operand that is left out."""
    owner, index = border
    return (owner.inputs if isinstance(owner, onnx_ir.Node) else owner.outputs)[index]


def borders(model: onnx_ir.Model, node: onnx_ir.Node) -> Iterator[tuple[Border, onnx_ir.Value]]:
    """Yield the same by the operands of the node, and the outputs of its function or subgraphs."""
    function = model.functions.get(node.op_identifier())
    if function is not None:
        yield from _crossing(node, range(len(node.inputs)), function.inputs)
        yield from _crossing(function.graph, range(len(function.outputs)), node.outputs)
    elif node.domain in DEFAULT_DOMAINS and node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            branch = node.attributes[name].as_graph()
            yield from _crossing(branch, range(len(branch.outputs)), node.outputs)
    elif node.domain in DEFAULT_DOMAINS and node.op_type in ("Loop", "Scan", "SequenceMap"):
        yield from _body(node, node.attributes["body"].as_graph())


def _body(node: onnx_ir.Node, body: onnx_ir.Graph) -> Iterator[tuple[Border, onnx_ir.Value]]:
    # A Loop counts its turns and takes a condition, inside and outside; a Scan of opset 8 takes lengths outside alone.
    inside = 2 if node.op_type == "Loop" else 0
    first = max(0, len(node.inputs) - len(body.inputs)) + inside
    ends = range(1 if node.op_type == "Loop" else 0, len(body.outputs))
    yield from _crossing(node, range(first, len(node.inputs)), body.inputs[inside:])
    yield from _crossing(body, ends, node.outputs)
    scanned = node.attributes["num_scan_inputs"].as_int() if node.op_type == "Scan" else 0
    if node.op_type != "SequenceMap":
        yield from _crossing(body, ends, body.inputs[inside : len(body.inputs) - scanned])


def _crossing(
    owner: onnx_ir.Node | onnx_ir.Graph, indices: Iterable[int], receivers: Iterable[onnx_ir.Value]
) -> Iterator[tuple[Border, onnx_ir.Value]]:
    return (((owner, index), receiver) for index, receiver in zip(indices, receivers, strict=False))
