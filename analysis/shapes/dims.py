"""Shapes of the outputs of nodes, with dimensions as symbols.

Moves of elements have their rules in `castsmith.ir.ops.movement`; for other operators onnx infers the shape, node by
node, with symbols as names.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.helper
import onnx_ir

from castsmith.analysis.inference.by_onnx import REFUSALS, outputs_by_onnx
from castsmith.analysis.shapes.contrib import contrib_dims
from castsmith.analysis.shapes.elements import Dims, Operation
from castsmith.ir.ops.attributes import MisfitError
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.movement import RULES, broadcast, movement_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.numerics.symbols import UNKNOWN, Element, Poly, Unknown

_FIRST = operators(lambda row: row.keeps_shape)

BROADCAST = (operators(lambda row: row.elementwise) | {"Where"}) - _FIRST
"""Operators whose operands are broadcast."""

NUMPY_OPSET = 7
"""The opset from which operands of all elementwise operators are broadcast as in numpy."""

_SMALL = 64
"""Elements up to which a constant is passed to onnx: shapes, axes, paddings."""


def _range(node: Operation) -> Dims:
    operands = [node.content(index) for index in range(3)]
    parts = [operand.ravel()[0] for operand in operands if operand is not None and operand.size == 1]
    if len(parts) == 3 and not node.floats and all(isinstance(part, int) for part in parts) and parts[2]:
        return (len(range(*parts)),)
    if len(parts) == 3 and parts[2] == 1:
        count = parts[1] - parts[0]
        if isinstance(count, int):
            return (max(count, 0),)
        return (count,) if isinstance(count, Poly) and count.low is not None and count.low >= 0 else (UNKNOWN,)
    return (UNKNOWN,)


class Names:
    """The names of dimensions for onnx, and their meaning in its answers."""

    def __init__(self) -> None:
        self._names: dict[Element, str] = {}
        self._dims: dict[str, Element] = {}

    def name(self, dim: Poly) -> str:
        """Return the name of a dimension that is not a number."""
        if dim not in self._names:
            self._names[dim] = f"d{len(self._names)}"
            self._dims[self._names[dim]] = dim
        return self._names[dim]

    def type_of(self, dtype: onnx_ir.DataType | None, shape: Dims | None) -> onnx.TypeProto:
        """Return the type in the form of onnx."""
        dims = None if shape is None else [self._written(dim) for dim in shape]
        return onnx.helper.make_tensor_type_proto(int(dtype or 0), dims)

    def _written(self, dim: Element) -> int | str | None:
        return self.name(dim) if isinstance(dim, Poly) else dim if isinstance(dim, int) else None

    def dims(self, proto: onnx.TypeProto) -> Dims | None:
        """Return the shape that onnx infers; None if it is unknown, or the type is not a tensor's."""
        if not proto.tensor_type.HasField("shape"):
            return None
        return tuple(self._dim(dim) for dim in proto.tensor_type.shape.dim)

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> Element:
        if dim.HasField("dim_value"):
            return dim.dim_value if dim.dim_value >= 0 else UNKNOWN
        return self._dims.get(dim.dim_param, UNKNOWN)


def dims_of(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None]:
    """Return the shape of each output, UNKNOWN for an unknown dimension, None for an unknown rank."""
    op_type, nothing = node.node.op_type, [None] * len(node.node.outputs)
    if any(attribute.is_ref() for attribute in node.node.attributes.values()):
        return [*nothing]
    if node.node.domain in DEFAULT_DOMAINS:
        first = node.shapes[0] if node.shapes else None
        if op_type in _FIRST:
            return [first, *nothing[1:]]
        if op_type in BROADCAST:
            return [first if node.opset < NUMPY_OPSET else _joined(node)]
        if op_type in RULES:
            try:
                movements = movement_of(node.operands(node.shapes))
            except MisfitError:
                return [*nothing]
            if movements is not None:
                return [movement.shape for movement in movements]
        if op_type == "Range":
            return [_range(node)]
    if node.node.domain == CONTRIB_DOMAIN:
        return list(contrib_dims(node))
    return _ask_onnx(node, imports, names) or [*nothing]


def _joined(node: Operation) -> Dims | None:
    declared = [shape for shape in node.shapes if shape is not None]
    return broadcast(declared) if len(declared) == len(node.shapes) else None


def _ask_onnx(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None] | None:
    try:
        return _inferred(node, imports, names)
    except REFUSALS:
        return None


def onnx_refuses_shapes(node: Operation, imports: Mapping[str, int], names: Names) -> bool:
    """True if the shape inference of onnx fails for the shapes of the inputs."""
    try:
        _inferred(node, imports, names)
    except REFUSALS as error:
        return "[ShapeInferenceError]" in str(error)
    return False


def _inferred(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None]:
    opset = imports.get(node.node.domain, node.opset if node.node.domain in DEFAULT_DOMAINS else 0)
    types = [names.type_of(dtype, shape) for dtype, shape in zip(node.types, node.shapes, strict=True)]
    tensors = {index: tensor for index in range(len(types)) if (tensor := _shown(node, index)) is not None}
    outputs = outputs_by_onnx(node.node, opset, types, tensors)
    return [None if inferred is None else names.dims(inferred) for inferred in outputs]


def _shown(node: Operation, index: int) -> onnx.TensorProto | None:
    """Return a small constant of integers, or numbers, in the form of onnx."""
    content, dtype = node.content(index), node.types[index]
    if content is None or dtype is None or content.size > _SMALL:
        return None
    elements = content.ravel().tolist()
    if any(isinstance(element, Poly | Unknown) for element in elements):
        return None
    numbers = [float(element) if dtype in _FLOATS else int(element) for element in elements]
    if dtype not in (*_FLOATS, onnx_ir.DataType.INT64, onnx_ir.DataType.INT32):
        return None
    return onnx.helper.make_tensor(f"i{index}", int(dtype), content.shape, numbers)


_FLOATS = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.DOUBLE)
