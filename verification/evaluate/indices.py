"""Valid indices of operators, and dependence of values on inputs: an invalid index is an error before the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Indices
from castsmith.ir.walks import graphs_in
from castsmith.verification.evaluate.engines import EngineError

Bound = tuple[int, int, int]
"""An input of a node, and its least and greatest valid number."""

Shape = tuple[int, ...] | None


class RangeError(EngineError):
    """An index that an operator does not support: `bound` of `node` gives the valid ones."""

    node: onnx_ir.Node | None = None
    bound: Bound = (0, 0, 0)


def index_bounds(node: onnx_ir.Node, shapes: Sequence[Shape]) -> Iterator[Bound]:
    """Return the inputs of the node that are indices, and their valid numbers for operands of the shapes."""
    if node.domain == "com.microsoft" and node.op_type == "EmbedLayerNormalization":
        yield from _rows(shapes, ((0, 2), (1, 4)))
    sizes = _indexed(node, shapes)
    if sizes:
        yield 1, -min(sizes), min(sizes) - 1


def invalid_indices(node: onnx_ir.Node, arrays: Sequence[NDArray[Any] | None]) -> tuple[Bound, str] | None:
    """Return the first input of the node with an invalid index, with the bound and a sentence, or None."""
    shapes = [None if array is None else array.shape for array in arrays]
    for bound in index_bounds(node, shapes):
        slot, low, high = bound
        array = arrays[slot]
        if array is None or not array.size or array.dtype.kind not in "iu":
            continue
        least, most = int(array.min()), int(array.max())
        sizes = _indexed(node, shapes)
        if len(sizes) > 1:
            if array.shape[-1] == len(sizes) and not ((array >= -np.array(sizes)) & (array < np.array(sizes))).all():
                text = f"{node.op_type} gets indices from {least} to {most}, which exceed axes of {list(sizes)}."
                return bound, text
        elif least < low or most > high:
            text = f"{node.op_type} gets indices from {least} to {most}, expected {low} to {high}."
            return bound, text
    return None


def _indexed(node: onnx_ir.Node, shapes: Sequence[Shape]) -> tuple[int, ...]:
    """Return the sizes of the axes that the elements of input 1 index."""
    kind = traits_of(node.domain, node.op_type).indices
    shape = shapes[0] if shapes else None
    if kind is None or shape is None or node.domain not in DEFAULT_DOMAINS:
        return ()
    if kind is Indices.ALONG_AXIS:
        axis = node.attributes.get_int("axis", 0) or 0
        return (shape[axis],) if -len(shape) <= axis < len(shape) else ()
    start = node.attributes.get_int("batch_dims", 0) or 0
    return shape[start : start + shapes[1][-1]] if shapes[1] else ()


def _rows(shapes: Sequence[Shape], pairs: Iterable[tuple[int, int]]) -> Iterator[Bound]:
    for slot, table in pairs:
        shape = shapes[table] if table < len(shapes) else None
        if shape:
            yield slot, 0, shape[0] - 1


def depends_on_inputs(value: onnx_ir.Value | None) -> bool:
    """True if the value depends on the elements of graph inputs, and not on shapes and constants alone."""
    stack, visited = [value], set[onnx_ir.Value]()
    while stack:
        value = stack.pop()
        if value is None or value in visited:
            continue
        visited.add(value)
        node = value.producer()
        if node is None:
            if value.const_value is None or value.is_graph_input():
                return True
        elif any(graphs_in(attribute) for attribute in node.attributes.values()):
            return True
        elif node.op_type not in ("Shape", "Size"):
            stack += node.inputs
    return False
