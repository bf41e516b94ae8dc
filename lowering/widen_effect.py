"""What computing an operator of float16 or bfloat16 in float, rounded once, does to its values."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops import MOVES
from castsmith.ir.records import Effect

_EXACTLY_ROUNDED = frozenset(
    {
        *("Abs", "Add", "ArgMax", "ArgMin", "Ceil", "Clip", "Div", "Equal", "Floor", "GlobalMaxPool", "Greater"),
        *("GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "MaxPool", "Min", "Mul", "Neg", "PRelu"),
        *("Reciprocal", "ReduceMax", "ReduceMin", "Relu", "Round", "Sign", "Sqrt", "Sub", "TopK"),
        *("Cast", "CastLike"),
    }
)
"""Operators whose result is one number rounded once, or one of the operands. float has at least twice the precision of
these types and two bits more, and their quotients and products are no nearer to the middle between two subnormal
numbers than float can tell, so that rounding to float first makes no difference."""


def effect_in_float(node: onnx_ir.Node) -> Effect:
    """BIT_EXACT where one rounding is all that the operator's definition leaves to do."""
    adds_up = node.attributes.get_string("reduction", "none") not in ("none", "max", "min")
    exact = node.op_type in _EXACTLY_ROUNDED or (node.op_type in MOVES and not adds_up)
    return Effect.BIT_EXACT if exact else Effect.IN_WIDER_TYPE
