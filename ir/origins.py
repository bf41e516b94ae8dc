"""Errors of promotion with their place: the node, its operands, and where the type of each comes from."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.records import Site
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import type_name


def origin(value: onnx_ir.Value) -> str:
    """What gives the value: an input, an initializer, or the node that makes it."""
    node = value.producer()
    if node is not None:
        if node.op_type == "Constant":
            return "a Constant"
        return f"made by {node.name} ({node.op_type})" if node.name else f"made by {node.op_type}"
    if value.is_initializer():
        return "an initializer" + (" and input" if value.is_graph_input() else "")
    return "an input"


def operands_text(operands: Iterable[tuple[onnx_ir.Value | None, DataType]]) -> str:
    """`x (float, an input) and w (int64, made by mul (Mul))`."""
    return " and ".join(
        f"{value.name} ({type_name(dtype)}, {origin(value)})" if value is not None else type_name(dtype)
        for value, dtype in operands
    )


def located(
    site: Site, what: str, operands: Iterable[tuple[onnx_ir.Value | None, DataType]], error: PromotionError
) -> PromotionError:
    """The error with its place, its operands and their origins in front."""
    rule = f" [rule {error.rule}]" if error.rule else ""
    text = f"{site}: {what} {operands_text(operands)}: {str(error).rstrip('.')}{rule}."
    return PromotionError(text, lhs=error.lhs, rhs=error.rhs, rule=error.rule, option=error.option)
