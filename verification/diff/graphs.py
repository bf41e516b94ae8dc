"""Comparison of two graphs after their nodes are matched: differences within pairs, and unmatched nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.records import Item, Site, ValueItem, item_text
from castsmith.ir.text import attribute_text, constant_text, node_item, site_of, value_item
from castsmith.ir.walks import GRAPH_KINDS, TENSOR_KINDS, graphs_in
from castsmith.numerics.types import type_name
from castsmith.verification.diff.interface import (
    Change,
    GraphComparison,
    Interface,
    interface_changes,
    pair_by_index,
    types_differ,
)
from castsmith.verification.diff.keys import Keys, Scope, attribute_key, name_of_undefined, operands, operator_key
from castsmith.verification.diff.match import Matching, match_nodes
from castsmith.verification.diff.tensors import digest, tensor_difference

# Attributes of two matched nodes. Graphs in attributes are compared by the caller.

_NOT_SET = "not set"


def attribute_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str, keys: Keys) -> Iterator[Change]:
    """Yield the attributes that one node lacks, or that are not bit-identical."""
    keys_of_attributes = keys.attributes(a), keys.attributes(b)
    for name in sorted(keys_of_attributes[0].keys() | keys_of_attributes[1].keys()):
        left, right = a.attributes.get(name), b.attributes.get(name)
        subject = f"attribute {name}"
        if left is None or right is None:
            yield Change("attribute-changed", place, subject, _text(left), _text(right))
        elif left.is_ref() or right.is_ref() or left.type != right.type:
            if attribute_key(left, keys, {}) != attribute_key(right, keys, {}):
                yield Change("attribute-changed", place, subject, _text(left), _text(right))
        elif left.type in GRAPH_KINDS:
            counts = [len(graphs_in(attribute)) for attribute in (left, right)]
            if counts[0] != counts[1]:
                yield Change("attribute-changed", place, f"number of graphs in {name}", str(counts[0]), str(counts[1]))
        elif attribute_key(left, keys, {}) != attribute_key(right, keys, {}):
            yield _value_change(left, right, place, subject)


def _value_change(left: onnx_ir.Attr, right: onnx_ir.Attr, place: str, subject: str) -> Change:
    if left.type == AttributeType.TENSOR:
        difference = tensor_difference(left.as_tensor(), right.as_tensor())
        return Change("attribute-changed", place, subject, difference.before, difference.after, difference.detail)
    return Change("attribute-changed", place, subject, _text(left), _text(right))


def _text(attribute: onnx_ir.Attr | None) -> str:
    if attribute is None:
        return _NOT_SET
    if attribute.type in GRAPH_KINDS and not attribute.is_ref():
        return "a graph"
    if attribute.type in TENSOR_KINDS and not attribute.is_ref():
        return "a tensor"
    return attribute_text(attribute)


# Without effect, so compared on request only: the metadata of nodes, and unused constants.


def metadata_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str) -> Iterator[Change]:
    """Yield the metadata entries on which two matched nodes differ."""
    for name in sorted(a.metadata_props.keys() | b.metadata_props.keys()):
        before, after = a.metadata_props.get(name, ""), b.metadata_props.get(name, "")
        if before != after or (name in a.metadata_props) != (name in b.metadata_props):
            yield Change("node-metadata-changed", place, f"metadata {name}", before, after)


def unused_constant_changes(a: Scope, b: Scope, place: str) -> Iterator[Change]:
    """Yield the unused initializers that differ, by name."""
    left, right = _unused(a), _unused(b)
    for name in sorted(left.keys() | right.keys()):
        before, after = left.get(name), right.get(name)
        if before is None or after is None:
            kind = "unused-constant-added" if before is None else "unused-constant-removed"
        elif before.const_value is None or after.const_value is None:
            continue
        elif digest(before.const_value) != digest(after.const_value):
            kind = "unused-constant-changed"
        else:
            continue
        yield Change(kind, place, f"unused constant {name}", _shortened_text(before), _shortened_text(after))


def _unused(scope: Scope) -> dict[str, onnx_ir.Value]:
    if isinstance(scope, onnx_ir.Function):
        return {}
    values = scope.initializers.items()
    return {n: v for n, v in values if not v.uses() and not v.is_graph_output() and not v.is_graph_input()}


def _shortened_text(value: onnx_ir.Value | None) -> str:
    return "" if value is None else constant_text(value)


Node = onnx_ir.Node


def compare_graphs(
    a: Scope, b: Scope, inputs: Interface, outputs: Interface, keys: Keys, tally: GraphComparison
) -> None:
    """Add the differences of two scopes, including their subgraphs, to `tally`. `keys` knows the outer values."""
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
        tally.changes += _source_changes(matching, left, right, place, f"producer of output {left.name}")
    for left, right in _in_order(matching):
        if left is not None and right is not None:
            _compare_nodes(matching, left, right, tally)
        elif left is not None:
            tally.removed += 1
            tally.changes.append(
                _items_change("node-removed", site_of(left), "node", node_item(left, tally.types), None)
            )
        elif right is not None:
            tally.added += 1
            tally.changes.append(
                _items_change("node-added", site_of(right), "node", None, node_item(right, tally.types))
            )


def _items_change(kind: str, site: Site, subject: str, removed: Item | None, added: Item | None) -> Change:
    """Return a change of nodes or values, with the text of the items."""
    before, after = ("" if item is None else item_text(item) for item in (removed, added))
    return Change(kind, str(site), subject, before, after, "", removed, added, site)


def _in_order(matching: Matching) -> Iterator[tuple[Node | None, Node | None]]:
    """Return all nodes in the order of the second graph, removed nodes before those that followed them in the first."""
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
        yield from ((removed_node, None) for removed_node in removed.get(a, ()) if a is not None)
        yield a, node
    yield from ((removed_node, None) for removed_node in waiting)


def _compare_nodes(matching: Matching, a: onnx_ir.Node, b: onnx_ir.Node, tally: GraphComparison) -> None:
    before = len(tally.changes)
    site, place = site_of(a), str(site_of(a))
    if operator_key(a) != operator_key(b):
        items = node_item(a, tally.types), node_item(b, tally.types)
        tally.changes.append(_items_change("operator-changed", site, "operator", *items))
    else:
        tally.changes += attribute_changes(a, b, place, matching.keys)
        tally.changes += _operand_changes(matching, a, b, place)
    tally.changes += _output_type_changes(a, b, place)
    if matching.keys.everything:
        tally.changes += metadata_changes(a, b, place)
    tally.changes[before:] = (replace(change, site=site) for change in tally.changes[before:])
    same = len(tally.changes) == before
    tally.same += same
    tally.changed += not same
    for name in sorted(a.attributes.keys() & b.attributes.keys()):
        for left, right in zip(graphs_in(a.attributes[name]), graphs_in(b.attributes[name]), strict=False):
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
    """Return the change from the value x to the value y, which take the same place in the two graphs."""
    if x is None or y is None:
        if x is not y:
            yield Change("operand-changed", place, subject, _name_text(x), _name_text(y))
        return
    if _same_value(matching, x, y):
        return
    before, after = constant_tensor(x), constant_tensor(y)
    if before is not None and after is not None:
        names = _name_text(x) if x.name == y.name else f"{_name_text(x)} -> {_name_text(y)}"
        yield _constant_change(place, f"constant {names}", before, after)
    elif x.name != y.name:
        yield Change("operand-changed", place, subject, _name_text(x), _name_text(y))
    else:
        a, b = (ValueItem(value.name or "", role=_source(value)) for value in (x, y))
        before, after = (f"{_name_text(value)} ({item.role})" for value, item in ((x, a), (y, b)))
        yield Change("operand-changed", place, subject, before, after, removed=a, made=b)


def _constant_change(place: str, subject: str, a: onnx_ir.TensorProtocol, b: onnx_ir.TensorProtocol) -> Change:
    difference = tensor_difference(a, b)
    x, y = (
        ValueItem(tensor.name or "", type_name(tensor.dtype), f"[{', '.join(map(str, tensor.shape.numpy()))}]")
        for tensor in (a, b)
    )
    return Change(
        "constant-changed", place, subject, difference.before, difference.after, difference.detail, removed=x, made=y
    )


def _same_value(matching: Matching, x: onnx_ir.Value, y: onnx_ir.Value) -> bool:
    """True if both are one constant, outputs of matched nodes, or computed in the same way."""
    keys, forward = matching.keys, matching.forward
    left, right = keys.constant(x), keys.constant(y)
    if left is not None or right is not None:
        return left == right
    if undefined := name_of_undefined(x):
        return undefined == name_of_undefined(y)
    if keys.of.get(x, x) == keys.of.get(y, y):
        return True
    return x in forward and forward[x] == forward.get(y)


def _default_changes(left: onnx_ir.Value, right: onnx_ir.Value, place: str) -> Iterator[Change]:
    """Yield the differences in the default values of inputs."""
    before, after = left.const_value, right.const_value
    subject = f"default of input {left.name}"
    if before is None or after is None:
        if before is not after:
            a, b = ("" if tensor is None else "set" for tensor in (before, after))
            yield Change("constant-changed", place, subject, a, b)
    elif digest(before) != digest(after):
        yield _constant_change(place, subject, before, after)


def _output_type_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str) -> Iterator[Change]:
    if len(a.outputs) != len(b.outputs):
        yield Change("output-count-changed", place, "number of outputs", str(len(a.outputs)), str(len(b.outputs)))
    for left, right in zip(a.outputs, b.outputs, strict=False):
        if not left.is_graph_output() and types_differ(left, right, strict=False):
            x, y = value_item(left), value_item(right)
            yield Change("type-changed", place, f"type of {left.name}", x.type, y.type, removed=x, made=y)


def _name_text(value: onnx_ir.Value | None) -> str:
    return "none" if value is None else value.name or "(unnamed)"


def _source(value: onnx_ir.Value) -> str:
    """Return the operator that makes the value; `constant` or `input` if no node makes it."""
    node = value.producer()
    return "constant" if constant_tensor(value) is not None else node.op_type if node is not None else "input"
