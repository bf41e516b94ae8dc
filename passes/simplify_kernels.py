"""Types that an operator takes by its schema but that a stock runtime has no kernel for.

Leaving a cast out gives an operator another type than its author chose. That is worth nothing if the model then fails
to load, so the types below are not chosen. A row: what ONNX Runtime 1.31.1 answers NOT_IMPLEMENTED to, or rejects, on
CPU, for a model of one node at opset 21. Operators that have no row are not given another type at all.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.schemas import input_types, opset_of
from castsmith.numerics.types import FLOAT8_TYPES, parse_type

_FLOAT8 = frozenset(FLOAT8_TYPES)


def _types(names: str) -> frozenset[DataType]:
    return frozenset(parse_type(name) for name in names.split())


_SHORT = _types("int16 uint16 bfloat16")
_UNSIGNED = _types("int16 uint16 uint32 uint64 bfloat16")

LACKING: Mapping[str, frozenset[DataType]] = {
    "Identity": frozenset(),
    "Reshape": frozenset(),
    "Transpose": frozenset(),
    "Shape": frozenset(),
    **dict.fromkeys(("Slice", "Concat", "Split", "Squeeze", "Unsqueeze", "Flatten"), _FLOAT8),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), _FLOAT8),
    **dict.fromkeys(("Expand", "Tile", "Size"), _types("bfloat16") | _FLOAT8),
    **dict.fromkeys(("ReverseSequence", "Compress", "Dropout"), _types("bfloat16") | _FLOAT8),
    "Trilu": _UNSIGNED | _types("int8 uint8") | _FLOAT8,
    **dict.fromkeys(("Resize", "Upsample"), _UNSIGNED | _types("double int64 bool") | _FLOAT8),
    "Pad": _SHORT | _FLOAT8,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _UNSIGNED | _types("bool int32 int64") | _FLOAT8),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _FLOAT8),
    "Where": _SHORT | _types("bool uint64") | _FLOAT8,
    **dict.fromkeys(("Max", "Min"), _SHORT),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), _UNSIGNED),
    "MaxPool": _UNSIGNED | _types("int32 int64"),
    **dict.fromkeys(("IsNaN", "IsInf", "Sign"), frozenset[DataType]()),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _types("bfloat16")),
    "NonZero": _UNSIGNED | _types("int8 double"),
}
"""Operators by name; at each opset the schema narrows the choice further."""

FLOAT8_SINCE: Mapping[str, int] = {"Reshape": 21, "Transpose": 21, "Shape": 21, "IsNaN": 20, "IsInf": 20}
"""The first opset with a kernel for float8, of operators whose schema takes it earlier."""


def takes_type(node: onnx_ir.Node, index: int, dtype: DataType, imports: Mapping[str, int]) -> bool:
    """Whether input `index` of the node may be of the type, by its schema and by the kernels that exist."""
    opset = opset_of(imports, node.domain)
    if opset is None or node.op_type not in LACKING or dtype in LACKING[node.op_type]:
        return False
    if dtype in _FLOAT8 and opset < FLOAT8_SINCE.get(node.op_type, opset):
        return False
    return dtype in input_types(node, index, imports)
