"""Conversions that a node performs: one for each of its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.promote_types import is_convert_promote_types, promotion_rules_of
from castsmith.ir.ops.qonnx import is_trunc, read_trunc, trunc_operands
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_formals, opset_of
from castsmith.ir.ops.table import CONVERSIONS, LINEAR
from castsmith.ir.walks import Scope
from castsmith.numerics.promotion.common import common_type
from castsmith.passes.fold.conversions import BitCastTo, CastTo, Reading, TruncOf, read_quantize
from castsmith.passes.fold.values import Constants

CONVERTING = CONVERSIONS | {"Trunc"}


@dataclass(frozen=True)
class Reader:
    """Reads nodes of one model. `undecided`: functions, and graphs in them, whose types differ from call to call."""

    constants: Constants
    inference: Inference
    imports: Mapping[Scope, Mapping[str, int]]
    undecided: frozenset[Scope]

    def read(self, node: onnx_ir.Node) -> tuple[Reading, ...] | None:
        """Return the conversion of each output; None if the node is not a conversion, or its target type is unknown.

        Raises:
            ModelError: A Trunc fits no version of QONNX.
        """
        if node.graph is None or None in node.inputs[:1]:
            return None
        imports = self.imports[node.graph]
        opset = opset_of(imports, "") or 1
        if node.op_type == "Cast" and node.domain in DEFAULT_DOMAINS:  # as mostly
            return self._cast(node, opset)
        if is_trunc(node):
            return _trunc(node, imports)
        if is_convert_promote_types(node):
            return self._promotion(node, opset)
        if node.domain not in DEFAULT_DOMAINS:
            return None
        if node.op_type in LINEAR:
            return read_quantize(node, opset)
        return self._cast(node, opset)

    def _cast(self, node: onnx_ir.Node, opset: int) -> tuple[Reading, ...] | None:
        if node.op_type == "BitCast":
            return _bit_cast(node, opset) if op_formals("", "BitCast", opset) is not None else None
        meaning = read_cast(node, self._type_of(node, node.inputs[1]) if node.op_type == "CastLike" else None)
        value = node.inputs[0]
        if meaning is None or meaning.to is None or value is None:
            return None
        return ((CastTo(meaning.to, opset, meaning.saturate, meaning.round_mode), (value,)),)

    def _type_of(self, node: onnx_ir.Node, value: onnx_ir.Value | None) -> DataType | None:
        constant = self.constants.of(value)
        if constant is not None:
            return constant.dtype
        return None if node.graph in self.undecided else self.inference.type_of(value)

    def _promotion(self, node: onnx_ir.Node, opset: int) -> tuple[Reading, ...] | None:
        knowns = [constant for value in node.inputs if (constant := self.constants.of(value)) is not None]
        if len(knowns) != 2:
            return None
        common = common_type([(constant.dtype, len(constant.shape)) for constant in knowns], promotion_rules_of(node))
        if common is None:
            return None
        return tuple((CastTo(common, opset), (value,)) for value in node.inputs if value is not None)


def may_convert(node: onnx_ir.Node) -> bool:
    """True if the node's operator is one that `Reader.read` supports: a cheap test."""
    return node.op_type in CONVERTING or is_convert_promote_types(node)


def _bit_cast(node: onnx_ir.Node, opset: int) -> tuple[Reading, ...] | None:
    value = node.inputs[0]
    if value is None or node.attributes["to"].is_ref():
        return None
    return ((BitCastTo(DataType(node.attributes["to"].as_int()), opset), (value,)),)


def _trunc(node: onnx_ir.Node, imports: Mapping[str, int]) -> tuple[Reading, ...]:
    meaning = read_trunc(node, imports)
    operands = trunc_operands(node, meaning.version)
    to = node.outputs[0].dtype or DataType.FLOAT
    mode, signed, narrow = meaning.rounding_mode, meaning.signed, meaning.narrow
    return ((TruncOf(tuple(operands), meaning.version, mode, signed, narrow, to), tuple(operands.values())),)
