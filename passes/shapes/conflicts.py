"""Nodes whose operands have shapes that do not fit.

A runtime finds such a conflict when it loads the model if it knows both shapes, and else when it runs it, or never: a
declared shape may be the wrong one. So the arithmetic on shapes of such a model is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir

from castsmith.analysis.shapes.dims import BROADCAST, NUMPY_OPSET, Names, onnx_refuses_shapes
from castsmith.analysis.shapes.elements import Dims, Operation
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.walks import graph_of


def conflicts_of(shapes: Shapes, nodes: Iterable[onnx_ir.Node]) -> dict[onnx_ir.Node, str]:
    """Return the nodes whose operands do not fit, each with the shapes as text.

    Shapes that are declared wrongly count too: runtimes use those that they cannot infer.
    """
    if shapes.declared:
        texts = _conflicts(shapes, nodes)
        if not shapes.contradicted:
            return texts
    return _conflicts(shapes.restarted(declared=True), nodes)


def _conflicts(shapes: Shapes, nodes: Iterable[onnx_ir.Node]) -> dict[onnx_ir.Node, str]:
    names, texts = Names(), dict[onnx_ir.Node, str]()
    for node in nodes:
        if any(shapes.content(output) is not None for output in node.outputs):
            continue  # a Range of numbers may take them as arrays of one element, as runtimes do
        operation = shapes.operation(node)
        if _conflict(operation, shapes.imports[graph_of(node)], names):
            texts[node] = " and ".join(
                f"{value.name} {_text(shape)}"
                for value, shape in zip(node.inputs, operation.shapes, strict=True)
                if value is not None and shape is not None
            )
    return texts


def _conflict(node: Operation, imports: Mapping[str, int], names: Names) -> bool:
    shapes = [shape for shape in node.shapes if shape is not None]
    if not shapes or any(attribute.is_ref() for attribute in node.node.attributes.values()):
        return False
    standard = node.node.domain in DEFAULT_DOMAINS
    if standard and node.node.op_type in BROADCAST:
        return node.opset >= NUMPY_OPSET and _differ(_aligned(shapes))
    if standard and node.node.op_type == "Concat":
        return len({len(shape) for shape in shapes}) > 1 or _differ(_beside(shapes, node.integer("axis", 1)))
    return onnx_refuses_shapes(node, imports, names)


def _aligned(shapes: list[Dims]) -> Iterable[set[int]]:
    """Return the numbers that must be equal for shapes to broadcast, by dimension."""
    for place in range(1, max(map(len, shapes)) + 1):
        dims = (shape[-place] for shape in shapes if place <= len(shape))
        yield {dim for dim in dims if isinstance(dim, int) and dim != 1}


def _beside(shapes: list[Dims], axis: int) -> Iterable[set[int]]:
    """Return the numbers that must be equal for shapes to be joined along the axis, by dimension."""
    for index, dims in enumerate(zip(*shapes, strict=True)):
        if index != axis % len(shapes[0]):
            yield {dim for dim in dims if isinstance(dim, int)}


def _differ(numbers: Iterable[set[int]]) -> bool:
    return any(len(number) > 1 for number in numbers)


def _text(shape: Dims) -> str:
    return f"[{', '.join(map(str, shape))}]"
