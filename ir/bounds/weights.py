"""Matrices of weights: read when products with them are bounded, also if a model keeps them in another form.

Such forms are casts of a constant, dequantized, transposed and reshaped ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir

from castsmith.ir.bounds.sums import BlockSums, Layout, Product, compute
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import cast_target
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.quantize.linear import dequantize_linear

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
        read: Computes sums in one pass over the elements.
    """

    layout: Layout
    stored: Callable[[], Array]
    read: Callable[[Sequence[BlockSums[Any]]], None]

    @property
    def transposed(self) -> Weights:
        layout = self.layout
        return replace(self, layout=Layout(layout.n, layout.k, turned=not layout.turned))

    def elements(self) -> Array:
        """Return the matrix itself."""
        return self.stored().T if self.layout.turned else self.stored()

    def compute(self, *products: Product[Any]) -> None:
        """Find the bounds of products with the matrix."""
        compute(products, self.read)


def weights_of(matrix: Array) -> Weights:
    """Return a matrix in memory as weights."""
    turned = not matrix.flags.c_contiguous
    stored, layout = matrix.T if turned else matrix, Layout(*matrix.shape, turned=turned)

    def read(asked: Sequence[BlockSums[Any]]) -> None:
        for start in range(0, len(stored), layout.height):
            for sums in asked:
                sums.add(sums.of(start, stored[start : start + layout.height]))

    return Weights(layout, lambda: stored, read)


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
        return np.asarray(tensor.numpy()) if is_followed(tensor) else None
    node = None if value is None else value.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS or depth == _DEEPEST or node.op_type not in _COMPUTED:
        return None
    operands = [computed_array(each, opset, has_default, depth + 1) for each in node.inputs if each is not None]
    if any(each is None for each in operands):
        return None
    try:
        return _COMPUTED[node.op_type](node, [each for each in operands if each is not None], opset)
    except (CastsmithError, ValueError):
        return None


def _cast(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array:
    return cast(operands[0], cast_target(node), opset=opset)


def _dequantize(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array:
    axis, block_size = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    return dequantize_linear(*operands, axis=axis, block_size=block_size, opset=opset)


def _transpose(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array:
    del opset
    attribute = node.attributes.get("perm")
    return operands[0].transpose(None if attribute is None else [int(each) for each in attribute.as_ints()])


def _same_elements(node: onnx_ir.Node, operands: list[Array], opset: int) -> Array | None:
    del opset
    shape = node.outputs[0].shape
    if node.op_type == "Identity":
        return operands[0]
    if node.op_type == "Reshape" and len(operands) > 1 and 0 not in operands[1]:
        return operands[0].reshape([int(each) for each in operands[1]])
    if shape is None or any(not isinstance(dim, int) for dim in shape):
        return None
    return operands[0].reshape([int(dim) for dim in shape.numpy()])


_COMPUTED = {
    "Cast": _cast,
    "DequantizeLinear": _dequantize,
    "Transpose": _transpose,
    "Identity": _same_elements,
    "Reshape": _same_elements,
    "Unsqueeze": _same_elements,
    "Squeeze": _same_elements,
}
