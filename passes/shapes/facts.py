"""Facts about dimensions without a number, true in every run that gives a result: bounds, and integers that fit int32.

  an index     Gather of table[512, 8] at the places from 0 to N fails for an N above 512
  a constant   x[N, 8] + c[128, 8] fails for an N above 128, and x[2, N] times w[64, 8] for any N but 64
  a tensor     float[N, 200, 1280] has 1,024,000 bytes for each N, and no tensor is larger than an address space
  a Reshape    of x[7*N, 8] to [int32(N), 7, 8] fails for an N that int32 does not hold, except the one that becomes -1;
               with a Reshape to [int32(N), -1, 8], which fails for that one, N fits

Only nodes of the main graph count on which its outputs depend: they run whenever the model does.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.ops.traits import WHOLE
from castsmith.ir.walks import graphs_in, nodes_of
from castsmith.numerics.symbols import Element, Poly, Symbol, product, quotient
from castsmith.numerics.types import element_bytes, element_type
from castsmith.passes.shapes.dims import NUMPY_OPSET
from castsmith.passes.shapes.elements import Dims
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
    yield from (shapes.wrapped[symbol] for symbol in equal & above)


Limit = tuple[Symbol, int]
"""A symbol, and its upper bound."""


def limits(shapes: Shapes) -> Iterator[Limit]:
    """Return the bounds that indices and constants give, if an integer is cast to a narrower type."""
    for node in _live(shapes.model.graph) if shapes.wrapped else ():
        if node.domain not in DEFAULT_DOMAINS or any(attribute.is_ref() for attribute in node.attributes.values()):
            continue
        if node.op_type == "Gather":
            yield from _of_index(node, shapes)
        elif node.op_type == "MatMul" or (node.op_type in _BROADCASTS and shapes.operation(node).opset >= NUMPY_OPSET):
            yield from _of_operands(node, shapes)


_BROADCASTS = operators(lambda row: row.elementwise)


def _of_index(node: onnx_ir.Node, shapes: Shapes) -> Iterator[Limit]:
    shape, axis = shapes.shape(node.inputs[0]), node.attributes.get_int("axis", 0) or 0
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    reshaped = _carried(node.inputs[1])
    if (
        not isinstance(size, int)
        or reshaped is None
        or reshaped.op_type != "Range"
        or reshaped.domain not in DEFAULT_DOMAINS
    ):
        return
    parts = [shapes.content(value) for value in reshaped.inputs]
    start, end, step = (None if part is None or part.size != 1 else part.ravel()[0] for part in parts)
    if isinstance(start, int) and start >= 0 and step == 1:
        yield from _at_most(end, max(size, start))


def _carried(value: onnx_ir.Value | None) -> onnx_ir.Node | None:
    """Return the node that makes the elements of the value, before moves that leave none out."""
    node = None if value is None else value.producer()
    while node is not None and node.domain in DEFAULT_DOMAINS:
        row = traits_of("", node.op_type)
        if row.moves not in WHOLE or not row.holds(node) or node.inputs[0] is None:
            return node
        node = node.inputs[0].producer()
    return node


def _of_operands(node: onnx_ir.Node, shapes: Shapes) -> Iterator[Limit]:
    """Return the bounds of dimensions that meet a number above 1, to which they must be equal, or be 1."""
    operands = [shapes.shape(value) for value in node.inputs]
    declared = [shape for shape in operands if shape]
    if len(declared) < 2 or len(declared) < len(operands):
        return
    if node.op_type == "MatMul":
        left, right = declared[0][-1], declared[1][max(len(declared[1]) - 2, 0)]
        pairs = [(left, right), (right, left)]
    else:
        pairs = [
            (one[-place], other[-place])
            for one in declared
            for other in declared
            for place in range(1, min(len(one), len(other)) + 1)
        ]
    for dim, size in pairs:
        if isinstance(size, int) and size > 1:
            yield from _at_most(dim, size)


def _at_most(element: Element | None, high: int) -> Iterator[Limit]:
    """Return the bound of the one symbol of `a * symbol + b` that is at most `high`."""
    if not isinstance(element, Poly):
        return
    terms = dict(element.terms)
    rest = terms.pop((), 0)
    if len(terms) == 1:
        ((monomial, factor),) = terms.items()
        if len(monomial) == 1 and factor > 0:
            yield monomial[0], (high - rest) // factor


def _held_by_memory(shapes: Shapes, live: set[onnx_ir.Node]) -> Iterator[Fact]:
    values = [value for node in live for value in (*node.inputs, *node.outputs) if value is not None]
    largest: dict[Element, float] = {}
    for value in dict.fromkeys(values):
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
    casts = [
        (place, target) for place, target in enumerate(targets) if isinstance(target, Poly) and target in shapes.wrapped
    ]
    if -1 in targets:
        above.update(symbol for _, symbol in casts)
    if len(casts) != 1:
        return
    ((index, cast),) = casts
    original, _ = shapes.wrapped[cast]
    rest = [target for place, target in enumerate(targets) if place != index]
    if not all(isinstance(target, int) and target > 0 for target in rest) or product(shape) != original * product(rest):
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
        graphs = [graph for attribute in node.attributes.data.values() for graph in graphs_in(attribute)]
        held = [node for inner in graphs for node in nodes_of(inner)]
        waiting += [value.producer() for inner in (node, *held) for value in inner.inputs if value is not None]
    return {node for node in live if node.graph is graph}
