"""Values of a wide type that are provably values of the narrower one for every input of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import MOVERS, operators
from castsmith.ir.ops.traits import Answer, Moves, Rounding
from castsmith.ir.walks import sources_first
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.exactness import is_exact
from castsmith.numerics.types import type_name

# Operators that give the same in int32 as in int64, or in float as in double, if all operands and results fit. int32
# arithmetic is that of int64 modulo 2**32, so it is the same if every exact result is an int32. For doubles that are
# floats, operators that pick, compare or negate give floats again; a sum or product may need more digits.

NARROWER = {DataType.INT64: DataType.INT32, DataType.DOUBLE: DataType.FLOAT}
"""The narrower type of each wide type."""

_OTHER_MOVES = (Moves.FLOW, Moves.MAKE, Moves.PACK, Moves.UNPACK, Moves.SHAPE, Moves.CONTENT)
MOVING = MOVERS - operators(lambda row: row.moves in _OTHER_MOVES)
"""Operators that move elements of tensors."""

_COMPARING = operators(lambda row: row.answer in (Answer.COMPARISON, Answer.QUESTION))
_PICKING = operators(lambda row: row.rounding is Rounding.NONE and row.answer is None)
_MODULAR = operators(lambda row: row.modular)

SAME: dict[DataType, frozenset[str]] = {
    DataType.INT64: MOVING | _PICKING | _COMPARING | _MODULAR,
    DataType.DOUBLE: MOVING | _PICKING | _COMPARING,
}
"""The operators, by wide type, other than Cast."""

KEEPS_FLOATS = MOVING | _PICKING
"""Operators on doubles whose results are floats if all their operands are."""

_FLOAT_LACKS = "1 + 2**-30"


@dataclass
class Facts:
    """Facts about values, found on demand."""

    inference: Inference
    ranges: Ranges
    floats: dict[onnx_ir.Value, bool] = field(default_factory=dict[onnx_ir.Value, bool])
    constants: dict[onnx_ir.Value, bool] = field(default_factory=dict[onnx_ir.Value, bool])

    def fits(self, value: onnx_ir.Value) -> bool:
        """True if the narrower type holds every element that the value, of a wide type, can have."""
        dtype = self.inference.type_of(value)
        if dtype is None or dtype not in NARROWER:
            return False
        range_ = self.ranges.get(value)
        if range_ is not None and range_.fits(NARROWER[dtype]):
            return True
        return self._is_float(value) if dtype == DataType.DOUBLE else self._constant_fits(value, dtype)

    def witness(self, value: onnx_ir.Value) -> str:
        """Return a number that the value could be, as far as is known, and that the narrower type lacks."""
        dtype, tensor = self.inference.type_of(value), constant_tensor(value)
        if dtype is not None and tensor is not None and tensor.dtype == dtype:
            return str(next(iter(tensor.numpy()[_changed(tensor.numpy(), dtype)]), ""))
        if dtype == DataType.DOUBLE:
            return _FLOAT_LACKS
        range_ = self.ranges.get(value)
        if range_ is not None and range_.high < 2**31:
            return str(max(range_.low, -(2**31) - 1) if range_.low < -(2**31) else range_.low)
        return str(2**31)

    def _is_float(self, value: onnx_ir.Value) -> bool:
        """Follow the value back to a float."""
        for operand, _ in sources_first(value, self.floats, lambda value: self._sources(value) or ()):
            sources = self._sources(operand)
            is_float = sources is not None and all(self.floats.get(source, False) for source in sources)
            self.floats[operand] = is_float or self._starts_as_float(operand)
        return self.floats[value]

    def _sources(self, value: onnx_ir.Value) -> list[onnx_ir.Value] | None:
        """Return the doubles of which the value's elements are; None if there may be others."""
        node = value.producer()
        if node is None or node.domain not in DEFAULT_DOMAINS or node.op_type not in KEEPS_FLOATS:
            return None
        return [
            operand
            for operand in node.inputs
            if operand is not None and self.inference.type_of(operand) == DataType.DOUBLE
        ]

    def _starts_as_float(self, value: onnx_ir.Value) -> bool:
        node = value.producer()
        meaning = None if node is None else read_cast(node)
        source = None if node is None or not node.inputs else self.inference.type_of(node.inputs[0])
        if meaning is not None and source is not None:
            return is_exact(source, DataType.FLOAT) or self._range_of_source(node)
        return self._constant_fits(value, DataType.DOUBLE)

    def _range_of_source(self, node: onnx_ir.Node | None) -> bool:
        x = None if node is None else node.inputs[0]
        range_ = None if x is None else self.ranges.get(x)
        return range_ is not None and range_.fits(DataType.FLOAT)

    def _constant_fits(self, value: onnx_ir.Value, dtype: DataType) -> bool:
        if value not in self.constants:
            tensor = constant_tensor(value)
            is_constant = tensor is not None and tensor.dtype == dtype
            self.constants[value] = tensor is not None and is_constant and not _changed(tensor.numpy(), dtype).any()
        return self.constants[value]


def _changed(array: NDArray[Any], dtype: DataType) -> NDArray[np.bool_]:
    """Return a mask of the elements that a cast to the narrower type and back changes."""
    with np.errstate(over="ignore"):
        again = cast(cast(array, NARROWER[dtype]), dtype)
    return again.view(np.uint64) != array.view(np.uint64)


def refusal_text(value: onnx_ir.Value, dtype: DataType) -> str:
    """Return the reason why the value is not narrowed."""
    return f"{value.name}, {type_name(dtype)}, may hold values that are not in {type_name(NARROWER[dtype])}"
