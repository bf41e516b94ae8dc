"""Values that calls and control flow hand on: the elements of one are those of the other, or some of them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS

Pair = tuple[onnx_ir.Value | None, onnx_ir.Value]
"""A value, None for an operand that is left out, and the one that receives its elements."""


def handed_on(model: onnx_ir.Model, node: onnx_ir.Node) -> Iterator[Pair]:
    """Yield what the node hands into its function or subgraphs, from one turn to the next, and out."""
    function = model.functions.get(node.op_identifier())
    if function is not None:
        yield from zip(node.inputs, function.inputs, strict=False)
        yield from zip(function.outputs, node.outputs, strict=False)
    elif node.domain in DEFAULT_DOMAINS and node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            yield from zip(node.attributes[name].as_graph().outputs, node.outputs, strict=False)
    elif node.domain in DEFAULT_DOMAINS and node.op_type in ("Loop", "Scan", "SequenceMap"):
        yield from _body(node, node.attributes["body"].as_graph())


def _body(node: onnx_ir.Node, body: onnx_ir.Graph) -> Iterator[Pair]:
    # A Loop counts its turns and takes a condition, inside and outside; a Scan of opset 8 takes lengths outside alone.
    inside = 2 if node.op_type == "Loop" else 0
    inputs = node.inputs[max(0, len(node.inputs) - len(body.inputs)) + inside :]
    ends = body.outputs[1 if node.op_type == "Loop" else 0 :]
    yield from zip(inputs, body.inputs[inside:], strict=False)
    yield from zip(ends, node.outputs, strict=False)
    scanned = node.attributes["num_scan_inputs"].as_int() if node.op_type == "Scan" else 0
    if node.op_type != "SequenceMap":
        yield from zip(ends, body.inputs[inside : len(body.inputs) - scanned], strict=False)
