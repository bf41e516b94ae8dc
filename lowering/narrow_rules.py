"""Which operators give the same in int32 as in int64, or in float as in double, once all that enters and leaves fits.

int32 arithmetic is that of int64 modulo 2**32, so where every exact result is an int32 it is the same. Of doubles that
are floats, operators that pick, compare or negate give floats again; a sum or product may need more digits.
"""

from __future__ import annotations

from onnx_ir import DataType

from castsmith.ir.ops import MOVES

NARROWER = {DataType.INT64: DataType.INT32, DataType.DOUBLE: DataType.FLOAT}
"""What each wide type may become."""

_NO_MOVES = frozenset({
    "If", "Loop", "Scan", "Constant", "ConstantOfShape", "Optional", "OptionalGetElement", "OptionalHasElement",
    "Shape", "Size", *(name for name in MOVES if "Sequence" in name),
})  # fmt: skip
MOVING = MOVES - _NO_MOVES
PICKING = frozenset({"Abs", "Clip", "Max", "MaxPool", "Min", "Neg", "ReduceMax", "ReduceMin", "Relu", "Sign", "TopK"})
COMPARING = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"})
_WHOLE = frozenset({"Ceil", "Floor", "Round"})
_COUNTING = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "Range"})

SAME: dict[DataType, frozenset[str]] = {
    DataType.INT64: (MOVING | PICKING | COMPARING | _COUNTING) - {"IsNaN", "IsInf", "Sign", "TopK", "MaxPool"},
    DataType.DOUBLE: MOVING | PICKING | COMPARING | _WHOLE,
}
"""The operators, by wide type, other than Cast."""

KEEPS_FLOATS = MOVING | PICKING | _WHOLE
"""Operators on doubles whose results are floats where all their operands are."""
