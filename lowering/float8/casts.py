"""Casts to, from and between types stored as codes, and IsNaN and IsInf of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import MOVERS
from castsmith.lowering.builder import Builder
from castsmith.lowering.encodings.choose import Encoding, decode, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.encodings.table import round_by_table
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.types import Kind, element_type
from castsmith.targets.target import Target


def refuses_to_move(node: onnx_ir.Node, target: Target) -> str | None:
    """Return the reason why the node cannot act on codes instead of values; None if it can."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in MOVERS:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        return f"{name} computes with values stored as codes, and has no exact replacement"
    if node.attributes.get_string("reduction", "none") != "none":
        return f"{node.op_type} with a reduction computes with values stored as codes"
    if node.op_type in target.operators_without_uint8:
        return f"{target} has no {node.op_type} of uint8, in which the codes are stored"
    return None


_ROUNDERS = {Encoding.TABLE: round_by_table, Encoding.LADDER: round_in_place}


@dataclass(frozen=True)
class Encoded:
    """The source of codes: a float tensor, the type, and the policy."""

    x: onnx_ir.Value
    to: DataType
    policy: NarrowPolicy


@dataclass(frozen=True)
class Context:
    """Facts that every expansion needs.

    Attributes:
        types: The element types of values before some became codes.
        coded: The types that become codes.
        sequence: The encoding.
        opset: The opset whose tables apply: that of the model when the pass began.
        encoded: The codes that are made from floats, with those floats.
    """

    types: Mapping[onnx_ir.Value, DataType]
    coded: frozenset[DataType]
    sequence: Encoding
    opset: int
    encoded: dict[onnx_ir.Value, Encoded] = field(default_factory=dict[onnx_ir.Value, "Encoded"])

    def type_of(self, value: onnx_ir.Value) -> DataType:
        """Return the type of a value. Raises ModelError if it is unknown."""
        dtype = self.types.get(value, value.dtype)
        if dtype is None:
            raise ModelError(f"the element type of {value.name} is unknown")
        return dtype


def required_operand(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    """Return an input. Raises ModelError if it is left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        raise ModelError(f"input {index} is missing")
    return value


def expand_cast(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Expand Cast and CastLike: encode, decode, or both at once by a table of 256 codes."""
    x = required_operand(node, 0)
    source = context.type_of(x)
    like = context.type_of(required_operand(node, 1)) if node.op_type == "CastLike" else None
    meaning = read_cast(node, like)
    if meaning is None or meaning.to is None:
        raise ModelError("an attribute is a parameter of a function")
    policy = NarrowPolicy(meaning.saturate, context.opset, meaning.round_mode)
    if meaning.to == source:
        same = build.op("Identity", x)
        same.type = onnx_ir.TensorType(DataType.UINT8)
        return same
    stored = source if source in context.coded else None
    if meaning.to in context.coded:
        if source == DataType.FLOAT:
            context.encoded[node.outputs[0]] = Encoded(x, meaning.to, policy)
        return encode(build, x, meaning.to, policy, context.sequence, stored)
    return decoded(build, x, meaning.to, context)


def decoded(build: Builder, codes: onnx_ir.Value, to: DataType, context: Context) -> onnx_ir.Value:
    """Return the values of the codes; codes made from floats that become floats are rounded in place instead."""
    if not rounds_in_place(codes, to, context):
        return decode(build, codes, context.type_of(codes), to)
    encoded = context.encoded[codes]
    return _ROUNDERS[context.sequence](build, encoded.x, encoded.to, encoded.policy)


def rounds_in_place(codes: onnx_ir.Value | None, to: DataType | None, context: Context) -> bool:
    """True if these codes are made from floats, become floats, and rounding in place is cheaper for the encoding."""
    encoded = None if codes is None else context.encoded.get(codes)
    if encoded is None or to != DataType.FLOAT:
        return False
    row = element_type(encoded.to)
    gains = context.sequence is Encoding.TABLE or (context.sequence is Encoding.LADDER and row.has_nan)
    return gains and row.kind is Kind.FLOATING and row.signed


def expand_test(build: Builder, node: onnx_ir.Node, context: Context) -> onnx_ir.Value:
    """Expand IsNaN and IsInf: the same test on the decoded values."""
    x = required_operand(node, 0)
    values = decode(build, x, context.type_of(x), DataType.FLOAT)
    attributes: dict[str, Any] = {name: attribute.as_int() for name, attribute in node.attributes.items()}
    return build.op(node.op_type, values, **attributes)
