"""How many elements values have, as far as shapes tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx
import onnx.helper
import onnx.shape_inference
import onnx_ir

from castsmith.ir.ops import (
    DEFAULT_DOMAINS,
    FLOW,
    opset_of,
)

# The places where values meet at control flow: outputs of If, states of Loop and Scan, and what these stack up.
#
# At a joint values come in (from the ends of branches and bodies, and as what a state starts from) and are used (inside
# the body, and outside). All of them have one type.


@dataclass(frozen=True)
class Source:
    """Where a value comes in: output `index` of a subgraph, or input `index` of the node."""

    place: onnx_ir.Graph | onnx_ir.Node
    index: int

    @property
    def value(self) -> onnx_ir.Value | None:
        if isinstance(self.place, onnx_ir.Graph):
            return self.place.outputs[self.index]
        return self.place.inputs[self.index]

    def give(self, value: onnx_ir.Value) -> None:
        """Let another value come in."""
        if isinstance(self.place, onnx_ir.Graph):
            self.place.outputs[self.index] = value
        else:
            self.place.replace_input_with(self.index, value)


@dataclass(frozen=True)
class Joint:
    """One place where values meet. `inside`: the input of the body that a state is; `body`: the graph it belongs to."""

    node: onnx_ir.Node
    sources: tuple[Source, ...]
    outside: onnx_ir.Value
    inside: onnx_ir.Value | None = None
    body: onnx_ir.Graph | None = None
    stacked: bool = False


def joints(node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[Joint]:
    """The joints of a node; none for nodes other than If, Loop and Scan."""
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


_SMALL = 1024
_MOST = 1 << 62
"""What no array has more elements than; sizes beyond it are not told apart."""


class Sizes:
    """Element counts: a symbolic dimension has its given size or the default one.

    Shapes that the model does not declare are inferred when the first is asked for. Where that fails, a value that
    moves is taken to be as large as the largest one that it was moved from. Sizes steer what is chosen, never what is
    right.
    """

    def __init__(self, model: onnx_ir.Model, default: int, named: Mapping[str, int]) -> None:
        self._model = model
        self._default = default
        self._named = named
        self._noted: dict[onnx_ir.Value, int] = {}
        self._inferred: dict[onnx_ir.Value, onnx_ir.Shape] | None = None

    def of(self, value: onnx_ir.Value) -> int:
        """The number of elements. The sizes of what moves are known once `note_move` has seen its node."""
        if value in self._noted:
            return self._noted[value]
        shape = self._shape(value)
        if shape is None:
            return self._default
        sizes = (dim if isinstance(dim, int) else self._named.get(dim.value or "", self._default) for dim in shape)
        return min(prod(sizes), _MOST)

    def dims(self, value: onnx_ir.Value) -> tuple[int | None, ...] | None:
        """The sizes of the axes, None for one that is not a number; None where the shape is unknown."""
        shape = self._shape(value)
        return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)

    def note_move(self, operands: Sequence[onnx_ir.Value], outputs: Sequence[onnx_ir.Value]) -> None:
        """Guess the sizes of outputs whose shape is not known in full; called in the order of the graph.

        A dimension without a name says nothing: `?` elements out of 2 must not count as more than those 2, or a cast
        would be moved back and forth across a Reshape.
        """
        for output in outputs:
            shape = self._shape(output)
            if shape is None or any(not isinstance(dim, int) and dim.value is None for dim in shape):
                self._noted[output] = max(self.of(value) for value in operands)

    def _shape(self, value: onnx_ir.Value) -> onnx_ir.Shape | None:
        while value.shape is None and (source := _before_cast(value)) is not None:
            value = source
        if value.shape is not None:
            return value.shape
        if self._inferred is None:
            self._inferred = _infer(self._model)
        return self._inferred.get(value) or self._shape_that_comes_in(value)

    def _shape_that_comes_in(self, value: onnx_ir.Value) -> onnx_ir.Shape | None:
        """Of a cast, the shape of what it casts; of an output of control flow, that of the first value that it can be:
        as good a guess as any."""
        node = value.producer()
        if node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
            return self._shape(node.inputs[0])
        if node is None or node.op_type not in FLOW:
            return None
        found = (each for each in joints(node, self._model.opset_imports) if each.outside is value and not each.stacked)
        source = next((joint.sources[0].value for joint in found), None)
        return None if source is None else self._shape(source)


def _before_cast(value: onnx_ir.Value) -> onnx_ir.Value | None:
    """The value that a Cast converts to this one, which has its shape; None where no Cast makes it."""
    node = value.producer()
    if node is None or node.op_type not in ("Cast", "CastLike") or node.domain not in DEFAULT_DOMAINS:
        return None
    return node.inputs[0]


def parse_sizes(text: str) -> dict[str, int]:
    """The sizes in `batch=1,N=128`. Raises ValueError for text of another form."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): int(size) for name, _, size in pairs}


def _infer(model: onnx_ir.Model) -> dict[onnx_ir.Value, onnx_ir.Shape]:
    """The shapes that onnx infers, without a copy of the weights; nothing where it cannot."""
    graph = onnx.GraphProto(name=model.graph.name or "g")
    for value in (*model.graph.inputs, *model.graph.outputs):
        ports = graph.input if value.is_graph_input() else graph.output
        ports.append(onnx_ir.serde.serialize_value(value))
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes <= _SMALL:
            graph.initializer.append(onnx_ir.serde.serialize_tensor(tensor))
        elif tensor is not None and not value.is_graph_input():
            dims = [int(dim) for dim in tensor.shape.numpy()]
            graph.input.append(onnx.helper.make_tensor_value_info(value.name or "", int(tensor.dtype), dims))
    graph.node.extend(onnx_ir.serde.serialize_node(node) for node in model.graph)
    functions = [onnx_ir.to_proto(function) for function in model.functions.values()]
    imports = [onnx.OperatorSetIdProto(domain=name, version=opset) for name, opset in model.opset_imports.items()]
    bare = onnx.ModelProto(ir_version=model.ir_version, graph=graph, functions=functions, opset_import=imports)
    try:
        proto = onnx.shape_inference.infer_shapes(bare)
    except (onnx.shape_inference.InferenceError, ValueError):
        return {}
    return dict(_shapes_in(model.graph, proto.graph))


def _shapes_in(graph: onnx_ir.Graph, proto: onnx.GraphProto) -> Iterator[tuple[onnx_ir.Value, onnx_ir.Shape]]:
    """The shapes of a graph and of those inside it: another graph may have the same names."""
    named = {info.name: info.type.tensor_type for info in proto.value_info if info.type.HasField("tensor_type")}
    for node, written in zip(graph, proto.node, strict=True):
        for value in node.outputs:
            found = named.get(value.name or "")
            if found is not None and found.HasField("shape"):
                dims = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in found.shape.dim)
                yield value, onnx_ir.Shape(list(dims))
        for attribute in written.attribute:
            if attribute.HasField("g"):
                yield from _shapes_in(node.attributes[attribute.name].as_graph(), attribute.g)
