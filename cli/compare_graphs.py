"""Two graphs compared once their nodes are matched: what differs between the nodes of a pair, and what is left over."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.cli.compare_attributes import attribute_changes, graphs_of
from castsmith.cli.compare_changes import Change, GraphComparison
from castsmith.cli.compare_interface import Interface, interface_changes, pair_by_index, types_differ
from castsmith.cli.compare_keys import Keys
from castsmith.cli.compare_match import Matching, match_nodes
from castsmith.cli.compare_queries import Scope, operands, operator_key
from castsmith.cli.compare_rest import metadata_changes, unused_constant_changes
from castsmith.cli.compare_tensors import digest, tensor_difference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.text import node_text, site_of, type_text

Node = onnx_ir.Node


def compare_graphs(
    a: Scope, b: Scope, inputs: Interface, outputs: Interface, keys: Keys, tally: GraphComparison
) -> None:
    """Add what differs between two scopes, their subgraphs included, to `tally`. `keys` knows the values around."""
    place = a.name or ""
    tally.changes += interface_changes("input", place, inputs, a.inputs, b.inputs)
    tally.changes += interface_changes("output", place, outputs, a.outputs, b.outputs)
    for left, right in inputs.pairs:
        keys.of[left] = keys.of[right] = keys.intern("input", left, right)
        tally.changes += _default_changes(left, right, place)
    if keys.everything:
        tally.changes += unused_constant_changes(a, b, place)
    matching = match_nodes(a, b, keys, outputs.pairs)
    for left, right in outputs.pairs:
        tally.changes += _source_changes(matching, left, right, place, f"what makes output {left.name}")
    for left, right in _in_order(matching):
        if left is not None and right is not None:
            _compare_nodes(matching, left, right, tally)
        elif left is not None:
            tally.removed += 1
            tally.changes.append(Change("node-removed", str(site_of(left)), "node", node_text(left), ""))
        elif right is not None:
            tally.added += 1
            tally.changes.append(Change("node-added", str(site_of(right)), "node", "", node_text(right)))


def _in_order(matching: Matching) -> Iterator[tuple[Node | None, Node | None]]:
    """All nodes in the order of the second graph, what was removed ahead of what followed it in the first."""
    removed: dict[Node | None, list[Node]] = {}
    waiting: list[Node] = []
    for node in matching.sides[0]:
        if node not in matching.partner:
            waiting.append(node)
        elif waiting:
            removed[node], waiting = waiting, []
    partners = {b: a for a, b in matching.partner.items()}
    for node in matching.sides[1]:
        a = partners.get(node)
        yield from ((gone, None) for gone in removed.get(a, ()) if a is not None)
        yield a, node
    yield from ((gone, None) for gone in waiting)


def _compare_nodes(matching: Matching, a: onnx_ir.Node, b: onnx_ir.Node, tally: GraphComparison) -> None:
    before = len(tally.changes)
    place = str(site_of(a))
    if operator_key(a) != operator_key(b):
        tally.changes.append(Change("operator-changed", place, "operator", node_text(a), node_text(b)))
    else:
        tally.changes += attribute_changes(a, b, place, matching.keys)
        tally.changes += _operand_changes(matching, a, b, place)
    tally.changes += _output_type_changes(a, b, place)
    if matching.keys.everything:
        tally.changes += metadata_changes(a, b, place)
    same = len(tally.changes) == before
    tally.same += same
    tally.changed += not same
    for name in sorted(a.attributes.keys() & b.attributes.keys()):
        for left, right in zip(graphs_of(a.attributes[name]), graphs_of(b.attributes[name]), strict=False):
            inner = pair_by_index(left.inputs, right.inputs), pair_by_index(left.outputs, right.outputs)
            compare_graphs(left, right, *inner, matching.keys, tally)


def _operand_changes(matching: Matching, a: onnx_ir.Node, b: onnx_ir.Node, place: str) -> Iterator[Change]:
    left, right = operands(a), operands(b)
    for index in range(max(len(left), len(right))):
        x = left[index] if index < len(left) else None
        y = right[index] if index < len(right) else None
        yield from _source_changes(matching, x, y, place, f"input {index}")


def _source_changes(
    matching: Matching, x: onnx_ir.Value | None, y: onnx_ir.Value | None, place: str, subject: str
) -> Iterator[Change]:
    """The change from the value x to the value y where one of them was expected to be the other."""
    if x is None or y is None:
        if x is not y:
            yield Change("operand-changed", place, subject, _named(x), _named(y))
        return
    if _same_value(matching, x, y):
        return
    before, after = constant_tensor(x), constant_tensor(y)
    if before is not None and after is not None:
        found = tensor_difference(before, after)
        names = _named(x) if x.name == y.name else f"{_named(x)} -> {_named(y)}"
        yield Change("constant-changed", place, f"constant {names}", found.before, found.after, found.detail)
    else:
        names = (_named(x), _named(y)) if x.name != y.name else (_with_source(x), _with_source(y))
        yield Change("operand-changed", place, subject, *names)


def _same_value(matching: Matching, x: onnx_ir.Value, y: onnx_ir.Value) -> bool:
    """Whether both are one constant, the outputs of matched nodes, or computed in the same way."""
    keys, forward = matching.keys, matching.forward
    left, right = keys.constant(x), keys.constant(y)
    if left is not None or right is not None:
        return left == right
    if keys.of.get(x, x) == keys.of.get(y, y):
        return True
    return x in forward and forward[x] == forward.get(y)


def _default_changes(left: onnx_ir.Value, right: onnx_ir.Value, place: str) -> Iterator[Change]:
    """The values that inputs have when the caller gives none."""
    before, after = left.const_value, right.const_value
    subject = f"default of input {left.name}"
    if before is None or after is None:
        if before is not after:
            sides = ("" if tensor is None else "set" for tensor in (before, after))
            yield Change("constant-changed", place, subject, *sides)
    elif digest(before) != digest(after):
        found = tensor_difference(before, after)
        yield Change("constant-changed", place, subject, found.before, found.after, found.detail)


def _output_type_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str) -> Iterator[Change]:
    if len(a.outputs) != len(b.outputs):
        yield Change("output-count-changed", place, "number of outputs", str(len(a.outputs)), str(len(b.outputs)))
    for left, right in zip(a.outputs, b.outputs, strict=False):
        if not left.is_graph_output() and types_differ(left, right, strict=False):
            yield Change("type-changed", place, f"type of {left.name}", type_text(left), type_text(right))


def _named(value: onnx_ir.Value | None) -> str:
    return "none" if value is None else value.name or "(unnamed)"


def _with_source(value: onnx_ir.Value) -> str:
    node = value.producer()
    source = node.op_type if node is not None else "input"
    return f"{_named(value)} ({'constant' if constant_tensor(value) is not None else source})"
