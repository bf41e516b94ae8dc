"""Numbers of elements of values, as far as shapes are known.

It also defines the joints of control flow: outputs of If, states of Loop and Scan, and their stacked outputs. Values
enter a joint (from the ends of branches and bodies, and as initial states) and are used (inside the body, and outside).
All of them have one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import onnx_ir

from castsmith.ir.ops import (
    DEFAULT_DOMAINS,
    FLOW,
    opset_of,
)
from castsmith.passes.shapes import Dims, Poly, Shapes, Symbol


@dataclass(frozen=True)
class Source:
    """The place of a joined value: output `index` of a subgraph, or input `index` of the node."""

    place: onnx_ir.Graph | onnx_ir.Node
    index: int

    @property
    def value(self) -> onnx_ir.Value | None:
        if isinstance(self.place, onnx_ir.Graph):
            return self.place.outputs[self.index]
        return self.place.inputs[self.index]

    def give(self, value: onnx_ir.Value) -> None:
        """Join another value."""
        if isinstance(self.place, onnx_ir.Graph):
            self.place.outputs[self.index] = value
        else:
            self.place.replace_input_with(self.index, value)


@dataclass(frozen=True)
class Joint:
    """One place where values are joined. `inside`: the input of the body for a state; `body`: its graph."""

    node: onnx_ir.Node
    sources: tuple[Source, ...]
    outside: onnx_ir.Value
    inside: onnx_ir.Value | None = None
    body: onnx_ir.Graph | None = None
    stacked: bool = False


def joints(node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[Joint]:
    """Return the joints of a node; empty for nodes other than If, Loop and Scan."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    if node.op_type == "If":
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        for index, output in enumerate(node.outputs):
            yield Joint(node, tuple(Source(branch, index) for branch in branches), output)
    elif node.op_type == "Loop":
        yield from _turns(node, range(2, len(node.inputs)), first_inside=2, first_end=1)
    elif node.op_type == "Scan" and (opset_of(imports, "") or 1) > 8:
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
        yield from _turns(node, range(states), first_inside=0, first_end=0)


def _turns(node: onnx_ir.Node, states: range, *, first_inside: int, first_end: int) -> Iterator[Joint]:
    body = node.attributes["body"].as_graph()
    for number, index in enumerate(states):
        sources = Source(node, index), Source(body, first_end + number)
        yield Joint(node, sources, node.outputs[number], body.inputs[first_inside + number], body)
    for number in range(len(states), len(node.outputs)):
        yield Joint(node, (Source(body, first_end + number),), node.outputs[number], body=body, stacked=True)


_MOST = 1 << 40
"""Largest number of elements of an array; larger sizes count as this one."""


@dataclass
class Sizes:
    """Element counts: exact products of dimensions, where a symbol has its given size or the default one.

    Shapes are found on demand. A moved value of unknown size is assumed to be as large as
    the largest one that it was moved from. Sizes affect the choice, never the results.
    """

    shapes: Shapes
    default: int
    named: Mapping[str, int]
    _noted: dict[onnx_ir.Value, int] = field(default_factory=dict[onnx_ir.Value, int])
    _before_casts: dict[onnx_ir.Value, onnx_ir.Value] = field(default_factory=dict[onnx_ir.Value, onnx_ir.Value])
    """For results of casts that were looked at, the value at the beginning of the chain, which has their shape."""

    _coming_in: dict[onnx_ir.Node, dict[onnx_ir.Value, Source]] = field(
        default_factory=dict[onnx_ir.Node, dict[onnx_ir.Value, Source]]
    )
    """For nodes of control flow the first source of each output."""

    def of(self, value: onnx_ir.Value) -> int:
        """Return the number of elements. The sizes of moved values are known after `note_move` of their node."""
        if value in self._noted:
            return self._noted[value]
        shape = self._shape(value)
        return self.default if shape is None else self._count(shape)

    def dims(self, value: onnx_ir.Value) -> tuple[int | None, ...] | None:
        """Return the sizes of the axes, None for one that is not a number; None if the shape is unknown."""
        shape = self._shape(value)
        return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)

    def note_move(self, operands: Sequence[onnx_ir.Value], outputs: Sequence[onnx_ir.Value]) -> None:
        """Guess the sizes of outputs whose shape is partly unknown; called in the order of the graph.

        A symbol without a name carries no information: `?` elements out of 2 must not count as more than those 2, or a
        cast would be moved back and forth across a Reshape.
        """
        for output in outputs:
            shape = self._shape(output)
            if shape is None or any(isinstance(dim, Poly) and dim.has_nameless for dim in shape):
                self._noted[output] = max(self.of(value) for value in operands)

    def _count(self, shape: Dims) -> int:
        return min(prod(dim if isinstance(dim, int) else dim.at(self._size) for dim in _known(shape)), _MOST)

    def _size(self, each: Symbol) -> int:
        return self.named.get(each.name, self.default)

    def _shape(self, value: onnx_ir.Value) -> Dims | None:
        passed = list[onnx_ir.Value]()
        while (source := self._before_casts.get(value) or _before_cast(value)) is not None:
            passed.append(value)
            value = source
        self._before_casts.update(dict.fromkeys(passed, value))
        shape = self.shapes.shape(value)
        return self._shape_that_comes_in(value) if shape is None else shape

    def _shape_that_comes_in(self, value: onnx_ir.Value) -> Dims | None:
        """Return the shape of the first value that an output of control flow can be: a guess."""
        node = value.producer()
        if node is None or node.op_type not in FLOW:
            return None
        if node not in self._coming_in:
            found = joints(node, self.shapes.model.opset_imports)
            self._coming_in[node] = {each.outside: each.sources[0] for each in found if not each.stacked}
        source = self._coming_in[node].get(value)
        return None if source is None or source.value is None else self._shape(source.value)


def _known(shape: Dims) -> Iterator[int | Poly]:
    return (dim for dim in shape if isinstance(dim, int | Poly))


def _before_cast(value: onnx_ir.Value) -> onnx_ir.Value | None:
    """Return the value that a Cast converts to this one, which has its shape; None if no Cast makes it."""
    node = value.producer()
    if node is None or node.op_type not in ("Cast", "CastLike") or node.domain not in DEFAULT_DOMAINS:
        return None
    return node.inputs[0]


def parse_sizes(text: str) -> dict[str, int]:
    """Parse the sizes in `batch=1,N=128`. Raises ValueError for text of another form."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): int(size) for name, _, size in pairs}
