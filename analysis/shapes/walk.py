"""The shapes and contents of the values of a model, each computed once, on demand.

Assumed are: the shapes of the model's inputs and initializers, that dimensions of one name are equal,
and that tensors have fewer than 2**63 elements, as in runtimes. Declared shapes of other values are used if
nothing can be inferred, unless one of them contradicts an inferred shape: then a tool has changed the inputs since, and
all of them are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir

from castsmith.analysis.inference.walk import Inference
from castsmith.analysis.shapes.contents import contents_of
from castsmith.analysis.shapes.dims import Names, dims_of
from castsmith.analysis.shapes.elements import Content, Derived, Dims, Operation, of_tensor
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import FLOW
from castsmith.ir.walks import Scope, graph_of, graphs_in, holders, imports_by_scope, sources_first
from castsmith.numerics.symbols import Element, Poly, Unknown, symbol


@dataclass
class Shapes:
    """Shapes of a model, and the elements that are computed from them.

    Attributes:
        largest_dim: Upper bound of unknown dimensions; 0 if unknown.
        declared: Use the declared shapes of node outputs.
        preferred: Use their numbers for all of a shape that is inferred only in part, as runtimes do.
    """

    model: onnx_ir.Model
    inference: Inference
    largest_dim: int = 0
    declared: bool = True
    preferred: bool = False
    contradicted: bool = False
    """True if a declared shape differs from that of the nodes."""
    _shapes: dict[onnx_ir.Value, Dims | None] = field(default_factory=dict[onnx_ir.Value, "Dims | None"])
    _contents: dict[onnx_ir.Value, Content | None] = field(default_factory=dict[onnx_ir.Value, "Content | None"])
    _named: dict[tuple[object, str], Poly] = field(default_factory=dict[tuple[object, str], Poly])
    _names: Names = field(default_factory=Names)
    _derived: Derived = field(default_factory=Derived)

    @cached_property
    def held(self) -> Mapping[onnx_ir.Graph, onnx_ir.Node]:
        """The node that holds each subgraph."""
        return holders(self.model)

    @cached_property
    def imports(self) -> Mapping[Scope, Mapping[str, int]]:
        """The opset imports of each graph of the model and each subgraph."""
        return imports_by_scope(self.model, self.held)

    def shape(self, value: onnx_ir.Value | None) -> Dims | None:
        """Return the shape of the value, every dimension an int or a Poly; None if the rank is unknown."""
        if value is None:
            return None
        self._settle(value)
        return self._shapes[value]

    def content(self, value: onnx_ir.Value | None) -> Content | None:
        """Return the elements of the value, as far as they are known; None if unknown."""
        if value is None:
            return None
        self._settle(value)
        return self._contents[value]

    def operation(self, node: onnx_ir.Node) -> Operation:
        """Return the node with the facts about its inputs."""
        imports = self._imports_of(node)
        to = self.inference.type_of(node.outputs[0]) if node.outputs else None
        return Operation(
            node,
            opset_of(imports, "") or 1,
            [self.inference.type_of(value) for value in node.inputs],
            to,
            [self.shape(value) for value in node.inputs],
            [self.content(value) for value in node.inputs],
            self._derived,
        )

    def _imports_of(self, node: onnx_ir.Node) -> Mapping[str, int]:
        return self.imports[graph_of(node)]

    def _settle(self, value: onnx_ir.Value) -> None:
        """Compute the facts about the value, after those about the values on which it depends."""
        for inner, missing in sources_first(value, self._shapes, self._sources):
            for source in missing:
                self._shapes[source] = self._contents[source] = None
            self._find(inner)

    def _sources(self, value: onnx_ir.Value) -> list[onnx_ir.Value]:
        node = value.producer()
        if node is None:
            return []
        graphs = (graph for attribute in node.attributes.values() for graph in graphs_in(attribute))
        ends = [output for graph in graphs for output in graph.outputs]
        return [operand for operand in (*node.inputs, *ends) if operand is not None]

    def _find(self, value: onnx_ir.Value) -> None:
        node, tensor = value.producer(), constant_tensor(value)
        if tensor is not None:
            self._shapes[value] = tuple(int(dim) for dim in tensor.shape.numpy())
            self._contents[value] = of_tensor(tensor)
        elif node is None or node.graph is None:
            self._contents[value], self._shapes[value] = None, self._given(value)
        else:
            self._find_outputs(node)

    def _given(self, value: onnx_ir.Value) -> Dims | None:
        """Return the declared shape of a model input; inputs of a body are unknown except Loop's own scalars."""
        graph = value.graph
        if graph is self.model.graph:
            return self._declared(value, self.model.graph)
        holder = self.held.get(graph) if isinstance(graph, onnx_ir.Graph) else None
        counted = holder is not None and holder.op_type == "Loop" and graph is not None and value in graph.inputs[:2]
        return () if counted else None

    def _find_outputs(self, node: onnx_ir.Node) -> None:
        if node.op_type in FLOW and node.domain in DEFAULT_DOMAINS:
            shapes, contents = self._flowing(node)
        else:
            operation = self.operation(node)
            shapes = dims_of(operation, self._imports_of(node), self._names)
            contents = contents_of(operation) if node.domain in DEFAULT_DOMAINS else None
        for index, output in enumerate(node.outputs):
            content = contents[index] if contents is not None and index < len(contents) else None
            dims = shapes[index] if index < len(shapes) else None
            self._contents[output] = content
            self._shapes[output] = self._settled(output, content.shape if content is not None else dims, node)

    def _flowing(self, node: onnx_ir.Node) -> tuple[list[Dims | None], list[Content | None]]:
        """Return the shapes and elements of an If: those of the branch always taken, or the common shape."""
        count = len(node.outputs)
        if node.op_type != "If":
            return [None] * count, [None] * count
        branches = self._taken(node)
        ends = [[branch.outputs[index] for branch in branches] for index in range(count)]
        shapes = [[self._shapes.get(end) for end in branch] for branch in ends]
        firsts = [shape[0] if shape[0] == shape[-1] else None for shape in shapes]
        contents = [self._contents.get(end[0]) if len(branches) == 1 else None for end in ends]
        return firsts, contents

    def _taken(self, node: onnx_ir.Node) -> list[onnx_ir.Graph]:
        """Return the branches of an If that may be taken."""
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        condition = self._contents.get(node.inputs[0]) if node.inputs[0] is not None else None
        number = None if condition is None or condition.size != 1 else condition.ravel()[0]
        return branches if not isinstance(number, int) else branches[:1] if number else branches[1:]

    def _settled(self, value: onnx_ir.Value, dims: Dims | None, node: onnx_ir.Node) -> Dims | None:
        """Return the inferred shape, with declared dimensions where it has unknown ones."""
        declared = self._declared(value, graph_of(node))
        if dims is None:
            return declared if self.declared else None
        if declared is not None and len(declared) != len(dims):
            self.contradicted, declared = True, None
        result: list[Element] = []
        preferred = self.preferred and not all(isinstance(dim, int) for dim in dims)
        for index, dim in enumerate(dims):
            declared_dim = None if declared is None else declared[index]
            if preferred and isinstance(declared_dim, int):
                result.append(declared_dim)
                continue
            if isinstance(dim, Unknown):
                result.append(declared_dim if declared_dim is not None and self.declared else self._symbol())
                continue
            if isinstance(declared_dim, int) and declared_dim != dim:
                # A number in place of a symbol of the inputs' shapes: left over from another shape.
                self.contradicted = True
            result.append(dim)
        return tuple(result)

    def _declared(self, value: onnx_ir.Value, scope: object) -> Dims | None:
        """The declared shape; a dimension of 0 or -1 is unknown, as the exporters that write it mean it."""
        if value.shape is None:
            return None
        dims: list[Element] = []
        for dim in value.shape:
            if isinstance(dim, int) and dim > 0:
                dims.append(dim)
            elif not isinstance(dim, int) and dim.value:
                key = scope, str(dim.value)
                dims.append(self._named.setdefault(key, self._symbol(key[1])))
            else:
                dims.append(self._symbol())
        return tuple(dims)

    def _symbol(self, name: str = "") -> Poly:
        """Return a symbol of an unknown dimension."""
        return symbol(name, 0, self.largest_dim or None)

    def restarted(self, *, declared: bool) -> Shapes:
        """Return a new walk, which ignores the declared shapes of node outputs, or prefers them."""
        return Shapes(self.model, self.inference, self.largest_dim, declared=declared, preferred=declared)
