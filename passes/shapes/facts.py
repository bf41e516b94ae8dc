"""Facts about dimensions without a number: integers that fit int32 in every run that gives a result.

  a tensor     float[N, 200, 1280] has 1,024,000 bytes for each N, and no tensor is larger than an address space
  a Reshape    of x[7*N, 8] to [int32(N), 7, 8] fails for an N that int32 does not hold, except the one that becomes -1;
               with a Reshape to [int32(N), -1, 8], which fails for that one, N fits

Only nodes of the main graph count on which its outputs depend: they run whenever the model does.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import DEFAULT_DOMAINS
from castsmith.ir.walks import graphs_in, nodes_of
from castsmith.numerics.types import element_bytes, element_type
from castsmith.passes.shapes.elements import Dims
from castsmith.passes.shapes.symbols import Element, Poly, product, quotient
from castsmith.passes.shapes.walk import Shapes

_ADDRESSES = 1 << 47
"""Bytes that a process can address: the largest tensor is smaller."""

Fact = tuple[Element, DataType]
"""An integer, and the type that holds it."""


def fitting(shapes: Shapes) -> Iterator[Fact]:
    """Return the integers that are cast to a narrower type and fit it."""
    if not shapes.wrapped:
        return
    live = _live(shapes.model.graph)
    yield from _held_by_memory(shapes, live)
    equal, above = set[Poly](), set[Poly]()
    for node in live:
        if node.op_type == "Reshape" and node.domain in DEFAULT_DOMAINS and len(node.inputs) == 2:
            wanted, shape = shapes.content(node.inputs[1]), shapes.shape(node.inputs[0])
            if wanted is not None and wanted.ndim == 1 and shape is not None:
                _note_reshape(wanted.tolist(), shape, shapes, equal, above)
    yield from (shapes.wrapped[each] for each in equal & above)


def _held_by_memory(shapes: Shapes, live: set[onnx_ir.Node]) -> Iterator[Fact]:
    made = [value for node in live for value in (*node.inputs, *node.outputs) if value is not None]
    largest: dict[Element, float] = {}
    for value in dict.fromkeys(made):
        shape, dtype = shapes.shape(value), shapes.inference.type_of(value)
        symbols = [dim for dim in shape or () if isinstance(dim, Poly)]
        if shape is None or dtype is None or dtype == DataType.STRING or len(symbols) != 1:
            continue
        rest = quotient(product(shape), symbols[0])
        if isinstance(rest, int):
            largest[symbols[0]] = max(largest.get(symbols[0], 0), rest * element_bytes(dtype))
    for element, dtype in shapes.wrapped.values():
        if largest.get(element, 0) * int(element_type(dtype).max) >= _ADDRESSES:
            yield element, dtype


def _note_reshape(targets: list[Element], shape: Dims, shapes: Shapes, equal: set[Poly], above: set[Poly]) -> None:
    """Note the cast dimension that one Reshape proves to be its operand or -1, and those that are not -1."""
    casts = [(place, each) for place, each in enumerate(targets) if isinstance(each, Poly) and each in shapes.wrapped]
    if -1 in targets:
        above.update(each for _, each in casts)
    if len(casts) != 1:
        return
    ((index, cast),) = casts
    original, _ = shapes.wrapped[cast]
    rest = [each for place, each in enumerate(targets) if place != index]
    if not all(isinstance(each, int) and each > 0 for each in rest) or product(shape) != original * product(rest):
        return
    # A 0 would mean the dimension of the input in its place, which is a multiple.
    times = quotient(shape[index], original) if index < len(shape) else 2
    if isinstance(times, int) and times > 1:
        equal.add(cast)


def _live(graph: onnx_ir.Graph) -> set[onnx_ir.Node]:
    """Return the nodes of the graph on which its outputs depend."""
    live, waiting = set[onnx_ir.Node](), [value.producer() for value in graph.outputs]
    while waiting:
        node = waiting.pop()
        if node is None or node in live:
            continue
        live.add(node)
        graphs = [each for attribute in node.attributes.data.values() for each in graphs_in(attribute)]
        held = [each for inner in graphs for each in nodes_of(inner)]
        waiting += [value.producer() for each in (node, *held) for value in each.inputs if value is not None]
    return {node for node in live if node.graph is graph}
