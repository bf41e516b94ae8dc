"""Equal nodes before casts, which are merged so that the casts of their results are casts of one value.

    a = Abs (x)    b = Abs (x)
    u = Cast <to = float16> (a)    v = Cast <to = float16> (b)
becomes
    a = Abs (x)
    u = Cast <to = float16> (a)    v = Cast <to = float16> (a)

Exact: the operator, its attributes and the bits of its constants are the same, and the standard gives one result for
them. Kept: what draws random numbers, what holds graphs, operators without a schema, and quantization, of which a
runtime fuses each with the operator beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import onnx.defs
import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.constants import constant_tensor, use_count
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import CASTS, LINEAR, traits_of
from castsmith.ir.walks import Scope

_LARGEST = 1024
"""The bytes up to which constants are compared by their content; larger ones are equal only to themselves."""


def _before(casts: Iterable[onnx_ir.Node]) -> set[onnx_ir.Node]:
    """Return the nodes from whose results one of the casts, of those that are in the model, is computed."""
    duplicates = set[onnx_ir.Node]()
    left = [node.inputs[0] for node in casts if node.inputs and node.graph is not None]
    while left:
        value = left.pop()
        node = None if value is None else value.producer()
        if node is not None and node not in duplicates:
            duplicates.add(node)
            left += node.inputs
    return duplicates


@dataclass
class EqualNodes:
    """The nodes visited by a walk in the order of the graph.

    Attributes:
        held: The node that holds each subgraph.
        casts: All nodes of the operators Cast and CastLike, before the walk.
    """

    held: Mapping[onnx_ir.Graph, onnx_ir.Node]
    casts: Iterable[onnx_ir.Node]
    visited: dict[Hashable, dict[Scope, onnx_ir.Node]] = field(
        default_factory=dict[Hashable, "dict[Scope, onnx_ir.Node]"]
    )

    def twin(self, node: onnx_ir.Node, imports: Mapping[Scope, Mapping[str, int]]) -> onnx_ir.Node | None:
        """Return an earlier equal node of the scope, or of one around it; remember this one if there is none."""
        if node.graph is None or node.op_type in CASTS or node not in self.candidates:
            return None
        read = False
        for value in node.inputs:
            if value is not None and constant_tensor(value) is None:
                if use_count(value) < 2:  # as mostly
                    return None
                read = True
        if not read:
            return None
        key = _key(node, imports[node.graph])
        if key is None:
            return None
        nodes = self.visited.setdefault(key, {})
        twin = self._earlier(node.graph, nodes)
        if twin is None or not _hands_over(node, twin):
            nodes.setdefault(node.graph, node)
            return None
        return twin

    @cached_property
    def candidates(self) -> set[onnx_ir.Node]:
        """The unvisited nodes from whose results a cast is computed; none in a model with fewer than two casts.

        The walk changes nothing after the node that it visits, so it does not matter when this is found.
        """
        casts = [node for node in self.casts if node.domain in DEFAULT_DOMAINS]
        return _before(casts) if len(casts) > 1 else set()

    def _earlier(self, scope: Scope | None, nodes: Mapping[Scope, onnx_ir.Node]) -> onnx_ir.Node | None:
        """Return the equal node of the innermost scope that has one still in the model."""
        while nodes and scope is not None:
            if scope in nodes and nodes[scope].graph is not None:
                return nodes[scope]
            holder = self.held.get(scope) if isinstance(scope, onnx_ir.Graph) else None
            scope = None if holder is None else holder.graph
        return None


def _hands_over(node: onnx_ir.Node, twin: onnx_ir.Node) -> bool:
    """True if no output of the graph would need an Identity."""
    pairs = zip(node.outputs, twin.outputs, strict=True)
    return all(
        not old.is_graph_output() or (twin.graph is node.graph and not new.is_graph_output()) for old, new in pairs
    )


def _key(node: onnx_ir.Node, imports: Mapping[str, int]) -> Hashable:
    """Return what determines the results of the node; None if nothing known does."""
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    opset, row = opset_of(imports, node.domain), traits_of(domain, node.op_type)
    if opset is None or not _is_defined(node.op_type, opset, domain) or node.overload:
        return None
    draws = row.random or (node.op_type == "Dropout" and not row.holds(node))
    if draws or node.op_type in CASTS | LINEAR or any(not output.name for output in node.outputs):
        return None
    attributes = [(name, _attribute(attribute)) for name, attribute in sorted(node.attributes.items())]
    if any(content is None for _, content in attributes):
        return None
    return domain, node.op_type, tuple(map(_operand, node.inputs)), tuple(attributes), len(node.outputs)


@lru_cache(maxsize=1024)
def _is_defined(op_type: str, opset: int, domain: str) -> bool:
    return onnx.defs.has(op_type, opset, domain)


def _operand(value: onnx_ir.Value | None) -> Hashable:
    tensor = constant_tensor(value)
    return value if tensor is None or tensor.nbytes > _LARGEST else _content(tensor)


def _content(tensor: onnx_ir.TensorProtocol) -> Hashable:
    text = tensor.dtype is onnx_ir.DataType.STRING
    bits = tuple(tensor.numpy().ravel().tolist()) if text else tensor.tobytes()
    return tensor.dtype, tuple(tensor.shape.numpy()), bits


def _attribute(attribute: onnx_ir.Attr) -> Hashable:
    """Return the bits of an attribute of numbers, text or a small tensor; None for another kind."""
    value: Any = attribute.value
    if attribute.is_ref():
        return attribute.type, "parameter", attribute.ref_attr_name
    if attribute.type is AttributeType.TENSOR:
        return _content(value) if value.nbytes <= _LARGEST else None
    if attribute.type in (AttributeType.FLOAT, AttributeType.FLOATS):
        numbers = [value] if attribute.type is AttributeType.FLOAT else [*value]
        return attribute.type, struct.pack(f"{len(numbers)}d", *numbers)
    if attribute.type in (AttributeType.INT, AttributeType.STRING):
        return attribute.type, value
    if attribute.type in (AttributeType.INTS, AttributeType.STRINGS):
        return attribute.type, tuple(value)
    return None
