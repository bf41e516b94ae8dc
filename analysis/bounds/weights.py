"""Matrices of weights: read when products with them are bounded, also if a model keeps them in another form.

Such forms are casts of a constant, dequantized, transposed and reshaped ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Ball, Ends, UnknownRangeError
from castsmith.analysis.bounds.reading import read
from castsmith.analysis.bounds.remembered import Remembered
from castsmith.analysis.bounds.rounding import Array as Bounds, is_float, is_integer
from castsmith.analysis.bounds.sums import BlockSums, Found, Layout, Operand, Sums, ball_sums, box_sums
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.attributes import int_of
from castsmith.ir.ops.casts import cast_target
from castsmith.ir.ops.movement import RULES, Operands, moves_of
from castsmith.ir.ops.moves import move
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.quantize.linear import dequantize_linear
from castsmith.numerics.types import MOST_DIMENSIONS

Array = np.ndarray[Any, Any]

_DEEPEST = 6
_MOST = 1 << 26
"""Elements that are looked at; of a larger constant the least and greatest of each column are known."""


@dataclass(frozen=True)
class Weights:
    """A constant matrix.

    Attributes:
        layout: Its size, and the order of its elements.
        stored: Returns the elements as they are stored.
        read: Adds up sums over the elements.
        tensor: The large constant that holds them; None for others.
        remembered: What was found of large constants in another model.
    """

    layout: Layout
    stored: Callable[[], Array]
    read: Callable[[BlockSums[Any]], None]
    tensor: onnx_ir.TensorProtocol | None = None
    remembered: Remembered | None = None

    @property
    def transposed(self) -> Weights:
        layout = self.layout
        return replace(self, layout=Layout(layout.n, layout.k, turned=not layout.turned))

    def elements(self) -> Array:
        """Return the matrix itself."""
        return self.stored().T if self.layout.turned else self.stored()

    def box(self, low: Bounds, high: Bounds) -> Sums:
        """Return bounds of x @ W for x in [low, high] (rows, k or 1)."""
        sums = box_sums(low, high, self.layout)
        return sums if isinstance(sums, Sums) else self._found((low, high), sums)

    def ball(self, ball: Ball) -> tuple[Ends, Bounds]:
        """Return bounds of x @ W for rows x in the ball, and the size of the sums."""
        return self._found(ball, ball_sums(ball, self.layout))

    def _found(self, operand: Operand, attempts: Sequence[BlockSums[Found]]) -> Found:
        tensor, remembered = self.tensor, self.remembered
        found = None if tensor is None or remembered is None else remembered.product(tensor, self.layout, operand)
        if found is not None:
            return found
        for sums in attempts:
            self.read(sums)
            if (result := sums.result()) is not None:
                if tensor is not None and remembered is not None:
                    remembered.keep_product(tensor, self.layout, operand, result)
                return result
        raise UnknownRangeError


def weights_of(matrix: Array) -> Weights:
    """Return a matrix in memory as weights."""
    turned = not matrix.flags.c_contiguous
    stored, layout = matrix.T if turned else matrix, Layout(*matrix.shape, turned=turned)

    def read(sums: BlockSums[Any]) -> None:
        for start in range(0, len(stored), layout.height):
            sums.add(sums.of(start, stored[start : start + layout.height]))

    return Weights(layout, lambda: stored, read)


def weights_in(tensor: onnx_ir.TensorProtocol, remembered: Remembered | None) -> Weights:
    """Return a large constant, whose parts are whole rows, as weights."""

    def read_parts(sums: BlockSums[Any]) -> None:
        for part in read(tensor, sums.of, light=sums.is_light):
            sums.add(part)

    k, n = (int(dim) for dim in tensor.shape.numpy())
    return Weights(Layout(k, n), lambda: np.asarray(tensor.numpy()), read_parts, tensor, remembered)


def is_followed(tensor: onnx_ir.TensorProtocol) -> bool:
    """True for a constant whose elements count, not only their bounds."""
    return tensor.size <= _MOST


def computed_array(
    value: onnx_ir.Value | None, opset: int, has_default: Callable[[onnx_ir.Value], bool], depth: int = 0
) -> Array | None:
    """The elements of a constant, or of what a few nodes compute from constants; None for others and very large ones.

    Args:
        value: The value.
        opset: The version of the default domain.
        has_default: True for an input that is taken to keep its default value.
        depth: How many nodes were followed.
    """
    tensor = constant_tensor(value)
    if tensor is None and value is not None and has_default(value):
        tensor = value.const_value
    if tensor is not None:
        return np.asarray(tensor.numpy()) if is_followed(tensor) and tensor.dtype != DataType.STRING else None
    node = None if value is None else value.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS or depth == _DEEPEST or node.op_type not in _COMPUTED:
        return None
    operands = [computed_array(value, opset, has_default, depth + 1) for value in node.inputs if value is not None]
    present = [operand for operand in operands if operand is not None]
    return None if len(present) < len(operands) else _COMPUTED[node.op_type](node, present, opset)


def _cast(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array | None:
    """A cast that the standard fixes for every number."""
    to = cast_target(node)
    source = onnx_ir.tensor(operands[0]).dtype
    if to not in _CASTS_TO or not (is_float(source) or is_integer(source)):
        return None
    return cast(operands[0], to, opset=opset)


_CASTS_TO = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)


def _dequantize(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array | None:
    if "output_dtype" in node.attributes:
        return None
    axis, block_size = int_of(node, "axis", 1), int_of(node, "block_size", 0)
    try:
        return dequantize_linear(*operands, axis=axis, block_size=block_size, opset=opset)
    except CastsmithError:  # operands that the operator does not take
        return None


def _moved(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array | None:
    """A move of all elements, each once."""
    shapes = [operand.shape for operand in operands]
    moves = moves_of(Operands(node, shapes, lambda index: _integers(operands[index]), opset))
    return None if moves is None else move(moves[0], operands[:1])


def _integers(array: Array) -> list[int] | None:
    return (
        [int(element) for element in array.ravel()]
        if array.dtype.kind == "i" and array.size <= MOST_DIMENSIONS
        else None
    )


_COMPUTED = {
    "Cast": _cast,
    "DequantizeLinear": _dequantize,
    **dict.fromkeys(RULES.keys() & operators(lambda row: row.moves in (Moves.KEEP, Moves.PERMUTE)), _moved),
}
