"""Which indices an operator takes, and what a value depends on: an index out of range is an error before it is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx_ir

from castsmith.ir.evaluate.engines import EngineError
from castsmith.ir.ops import DEFAULT_DOMAINS
from castsmith.ir.walks import graphs_in

Bound = tuple[int, int, int]
"""A slot of a node, and the least and the greatest number that it takes there."""

Shape = tuple[int, ...] | None


class RangeError(EngineError):
    """An index that an operator cannot take: `bound` of `node` says which it can."""

    node: onnx_ir.Node | None = None
    bound: Bound = (0, 0, 0)


def index_bounds(node: onnx_ir.Node, shapes: Sequence[Shape]) -> Iterator[Bound]:
    """The inputs of the node that are indices, and what their elements may be for operands of the shapes."""
    if node.domain == "com.microsoft" and node.op_type == "EmbedLayerNormalization":
        yield from _rows(shapes, ((0, 2), (1, 4)))
    if node.domain not in DEFAULT_DOMAINS or not shapes or shapes[0] is None:
        return
    shape, axis = shapes[0], node.attributes.get_int("axis", 0) or 0
    if node.op_type in ("Gather", "GatherElements", "ScatterElements", "Scatter") and -len(shape) <= axis < len(shape):
        yield 1, -shape[axis], shape[axis] - 1
    if node.op_type in ("GatherND", "ScatterND") and shapes[1] and shape:
        start = node.attributes.get_int("batch_dims", 0) or 0
        size = min(shape[start : start + shapes[1][-1]] or (1,))
        yield 1, -size, size - 1


def _rows(shapes: Sequence[Shape], pairs: Iterable[tuple[int, int]]) -> Iterator[Bound]:
    for slot, table in pairs:
        shape = shapes[table] if table < len(shapes) else None
        if shape:
            yield slot, 0, shape[0] - 1


def depends_on_inputs(value: onnx_ir.Value | None, *, shapes: bool = False) -> bool:
    """Whether the value depends on the elements of graph inputs; `shapes`: or on sizes of theirs that are not fixed."""
    stack, met = [value], set[onnx_ir.Value]()
    while stack:
        value = stack.pop()
        if value is None or value in met:
            continue
        met.add(value)
        node = value.producer()
        if node is None:
            if value.const_value is None or value.is_graph_input():
                return True
        elif node.op_type in ("Shape", "Size") and shapes:
            shape = None if node.inputs[0] is None else node.inputs[0].shape
            if shape is None or not shape.is_static():
                return True
        elif any(graphs_in(attribute) for attribute in node.attributes.values()):
            return True
        elif node.op_type not in ("Shape", "Size", "Constant"):
            stack += node.inputs
    return False
