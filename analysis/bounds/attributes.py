"""Attributes of a node, checked: if one is of another kind, nothing is known of what the node computes."""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import AttributeType

from castsmith.analysis.bounds.interval import UnknownRangeError


def attribute_of(node: onnx_ir.Node, name: str, kind: AttributeType) -> Any:
    """Return the value of the attribute; None if absent. Raises UnknownRangeError if it is of another kind."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return None
    if attribute.type != kind or attribute.is_ref():
        raise UnknownRangeError
    return attribute.value


def ints_of(node: onnx_ir.Node, name: str) -> list[int] | None:
    found = attribute_of(node, name, AttributeType.INTS)
    return None if found is None else [int(each) for each in found]


def int_of(node: onnx_ir.Node, name: str, default: int) -> int:
    found = attribute_of(node, name, AttributeType.INT)
    return default if found is None else int(found)
