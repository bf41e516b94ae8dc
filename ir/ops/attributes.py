"""Attributes of a node, checked: one of another kind contradicts the definition of its operator."""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import AttributeType


class MisfitError(Exception):
    """A node that contradicts the definition of its operator: attributes of another kind, shapes that do not fit."""


def attribute_of(node: onnx_ir.Node, name: str, kind: AttributeType) -> Any:
    """Return the value of the attribute; None if absent.

    Raises:
        MisfitError: It is of another kind, or a parameter of the enclosing function.
    """
    attribute = node.attributes.get(name)
    if attribute is None:
        return None
    if attribute.type != kind or attribute.is_ref():
        raise MisfitError
    return attribute.value


def ints_of(node: onnx_ir.Node, name: str) -> list[int] | None:
    value = attribute_of(node, name, AttributeType.INTS)
    return None if value is None else [int(number) for number in value]


def int_of(node: onnx_ir.Node, name: str, default: int) -> int:
    value = attribute_of(node, name, AttributeType.INT)
    return default if value is None else int(value)


def text_of(node: onnx_ir.Node, name: str, default: str) -> str:
    value = attribute_of(node, name, AttributeType.STRING)
    return default if value is None else str(value)
