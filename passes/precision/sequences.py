"""Values that are sequences or optional values: a cast converts tensors, so what such a value meets has its type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import DEFAULT_DOMAINS, actual_outputs, named_types, op_key, opset_of
from castsmith.ir.walks import Scope, all_nodes, all_values

Pair = tuple[onnx_ir.Value | None, onnx_ir.Value]


def sequences_of(model: onnx_ir.Model, imports: Mapping[Scope, Mapping[str, int]]) -> frozenset[onnx_ir.Value]:
    """The values of the model that hold a sequence or an optional value, also those that declare no type."""
    found = {
        value for value in all_values(model) if isinstance(value.type, onnx_ir.SequenceType | onnx_ir.OptionalType)
    }
    beside: dict[onnx_ir.Value, list[onnx_ir.Value]] = defaultdict(list)
    for node in all_nodes(model):
        assert node.graph is not None
        found.update(_made(node, imports[node.graph]))
        for one, other in _same(model, node, imports[node.graph]):
            if one is not None:
                beside[one].append(other)
                beside[other].append(one)
    waiting = list(found)
    while waiting:
        for other in beside[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return frozenset(found)


def _made(node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[onnx_ir.Value]:
    """The results of the node that its schema says are sequences or optional values."""
    key = op_key(node, imports)
    formals = () if key is None else actual_outputs(key, len(node.outputs))
    for value, formal in zip(node.outputs, formals, strict=False):
        if formal is not None and (formal.sequence or (node.op_type == "Optional" and node.domain in DEFAULT_DOMAINS)):
            yield value


def _same(model: onnx_ir.Model, node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[Pair]:
    """Pairs of values of which one is what the other is: across Identity, control flow and calls."""
    function = model.functions.get(node.op_identifier())
    if function is not None:
        yield from zip(node.inputs, function.inputs, strict=False)
        yield from zip(function.outputs, node.outputs, strict=False)
    elif node.domain not in DEFAULT_DOMAINS:
        return
    elif node.op_type == "Identity":
        yield node.inputs[0], node.outputs[0]
    elif node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            yield from zip(node.attributes[name].as_graph().outputs, node.outputs, strict=True)
    elif node.op_type in ("Loop", "Scan"):
        body, scan = node.attributes["body"].as_graph(), node.op_type == "Scan"
        first = int(opset_of(imports, "") == 8) if scan else 2
        states = len(node.inputs) - first - (node.attributes["num_scan_inputs"].as_int() if scan else 0)
        inside = body.inputs[0 if scan else 2 :][:states]
        ends = body.outputs[0 if scan else 1 :][:states]
        yield from zip(node.inputs[first:], inside, strict=False)
        yield from zip(ends, inside, strict=True)
        yield from zip(ends, node.outputs, strict=False)


def type_of_empty(value: onnx_ir.Value) -> DataType | None:
    """Return the element type of an empty sequence, which its node names; None for other values."""
    node = value.producer()
    if node is None or node.op_type != "SequenceEmpty" or node.domain not in DEFAULT_DOMAINS:
        return None
    return named_types(node).get("dtype", DataType.FLOAT)
