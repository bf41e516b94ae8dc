"""The attributes of two matched nodes compared; the graphs among them are left to whoever compares graphs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir
from onnx_ir import AttributeType

from castsmith.cli.compare_changes import Change
from castsmith.cli.compare_keys import Keys, attribute_key
from castsmith.cli.compare_tensors import tensor_difference
from castsmith.ir.text import attribute_text

_NESTED = (AttributeType.GRAPH, AttributeType.GRAPHS)
_NOT_SET = "not set"


def attribute_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str, keys: Keys) -> Iterator[Change]:
    """Attributes that one node lacks, or that are not equal to the bit."""
    kept = keys.attributes(a), keys.attributes(b)
    for name in sorted(kept[0].keys() | kept[1].keys()):
        left, right = a.attributes.get(name), b.attributes.get(name)
        subject = f"attribute {name}"
        if left is None or right is None:
            yield Change("attribute-changed", place, subject, _text(left), _text(right))
        elif left.is_ref() or right.is_ref() or left.type != right.type:
            if attribute_key(left, keys, None) != attribute_key(right, keys, None):
                yield Change("attribute-changed", place, subject, _text(left), _text(right))
        elif left.type in _NESTED:
            counts = [len(graphs_of(attribute)) for attribute in (left, right)]
            if counts[0] != counts[1]:
                yield Change("attribute-changed", place, f"number of graphs in {name}", *map(str, counts))
        elif attribute_key(left, keys, None) != attribute_key(right, keys, None):
            yield _value_change(left, right, place, subject)


def graphs_of(attribute: onnx_ir.Attr) -> list[onnx_ir.Graph]:
    """The graphs that the attribute holds."""
    if attribute.is_ref() or attribute.type not in _NESTED:
        return []
    return [attribute.as_graph()] if attribute.type == AttributeType.GRAPH else list(attribute.as_graphs())


def _value_change(left: onnx_ir.Attr, right: onnx_ir.Attr, place: str, subject: str) -> Change:
    if left.type == AttributeType.TENSOR:
        found = tensor_difference(left.as_tensor(), right.as_tensor())
        return Change("attribute-changed", place, subject, found.before, found.after, found.detail)
    return Change("attribute-changed", place, subject, _text(left), _text(right))


def _text(attribute: onnx_ir.Attr | None) -> str:
    if attribute is None:
        return _NOT_SET
    if attribute.type in _NESTED and not attribute.is_ref():
        return "a graph"
    if attribute.type in (AttributeType.TENSOR, AttributeType.TENSORS) and not attribute.is_ref():
        return "a tensor"
    return attribute_text(attribute)
