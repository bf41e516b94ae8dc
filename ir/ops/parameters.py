"""Inputs that are parameters of an operator and no operands of its arithmetic: no rank makes a scalar of one.

PyTorch lets a rank-0 operand take the type of the tensors beside it. A zero point, a scale or the number with which Pad
fills would wrap or round by that; and what is put into a sequence is an element of it, whatever its rank.
"""

from __future__ import annotations

from enum import Enum
from functools import cache

import onnx.defs


class Input(Enum):
    """What an input is to its operator."""

    OPERAND = "a number to compute with"
    STORED = "elements that are kept as they are: a filling, an element of a sequence"
    QUANTIZATION = "a scale or a zero point, whose type says how to compute"


_SEQUENCES = frozenset({"SequenceConstruct", "SequenceInsert"})
_STORED = ("constant_value",)
_QUANTIZATION = ("scale", "zero_point")
"""How the schemas of all opsets call them; a test lists what that finds."""


@cache
def input_kind(domain: str, op_type: str, opset: int, index: int) -> Input:
    """What input `index` is to a standard operator."""
    if op_type in _SEQUENCES:
        return Input.STORED
    inputs = onnx.defs.get_schema(op_type, opset, "" if domain == "ai.onnx" else domain).inputs
    name = inputs[index].name.lower() if index < len(inputs) else ""
    if name.endswith(_QUANTIZATION):
        return Input.QUANTIZATION
    return Input.STORED if name.endswith(_STORED) else Input.OPERAND
