"""What the documents of operators say about types beyond their type constraints: the one table of it.

A node is never given a type that a row forbids. A node that has it already is left alone, as the checker accepts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.types import ELEMENT_TYPES, Kind


@dataclass(frozen=True)
class Restriction:
    """From opset `since` to `until`, where `applies`, input 0 and what shares its type variable are of `allowed`."""

    since: int
    until: int
    applies: Callable[[onnx_ir.Node], bool]
    allowed: frozenset[DataType]
    because: str


_INTEGERS = frozenset(row.dtype for row in ELEMENT_TYPES.values() if row.kind is Kind.INTEGER)
_ALL = frozenset(ELEMENT_TYPES)
_NEVER = 1 << 30


def _has(name: str) -> Callable[[onnx_ir.Node], bool]:
    return lambda node: name in node.attributes


def _with_zero_point(node: onnx_ir.Node) -> bool:
    return len(node.inputs) > 2 and node.inputs[2] is not None


RESTRICTIONS: dict[tuple[str, str], tuple[Restriction, ...]] = {
    ("", "Mod"): (
        Restriction(
            10,
            27,
            lambda node: not node.attributes.get_int("fmod", 0),
            _INTEGERS,
            "with fmod = 0 it is of integers, and fmod = 1 means something else",
        ),
    ),
    ("", "DequantizeLinear"): (
        Restriction(1, _NEVER, _with_zero_point, _ALL - {DataType.INT32}, "int32 has no zero point"),
    ),
    ("", "BitCast"): (
        Restriction(1, _NEVER, lambda _: True, frozenset(), "its operand and its result have the same width"),
    ),
    ("", "TfIdfVectorizer"): (
        Restriction(1, _NEVER, _has("pool_strings"), frozenset({DataType.STRING}), "pool_strings is of strings"),
        Restriction(1, _NEVER, _has("pool_int64s"), _INTEGERS, "pool_int64s is of integers"),
    ),
    ("ai.onnx.ml", "LabelEncoder"): (
        Restriction(2, _NEVER, _has("keys_strings"), frozenset({DataType.STRING}), "its keys are strings"),
        Restriction(2, _NEVER, _has("keys_int64s"), frozenset({DataType.INT64}), "its keys are int64"),
        Restriction(2, _NEVER, _has("keys_floats"), frozenset({DataType.FLOAT}), "its keys are float"),
    ),
}


def restriction(node: onnx_ir.Node, opset: int) -> Restriction | None:
    """What the document of the node's operator says about the type of its first input; None where nothing."""
    rows = RESTRICTIONS.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type), ())
    return next((row for row in rows if row.since <= opset <= row.until and row.applies(node)), None)
