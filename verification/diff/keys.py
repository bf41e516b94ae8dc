"""Keys of nodes and values: equal in two graphs if the same is computed, whatever the names.

The key of a value describes how it is computed from the inputs of its graph. Each is built once from the keys of its
operands (hash-consing), in linear time.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache

import onnx.defs
import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.verification.diff.tensors import digest

# Properties of graphs that the comparison needs.

Scope = onnx_ir.Graph | onnx_ir.Function


def computing_nodes(scope: Scope) -> list[onnx_ir.Node]:
    """Return the nodes of the scope, except those that only hold a constant: an initializer is equivalent."""
    return [node for node in scope if not _holds_constant(node)]


def _holds_constant(node: onnx_ir.Node) -> bool:
    return node.op_type == "Constant" and any(constant_tensor(value) is not None for value in node.outputs)


def operator_key(node: onnx_ir.Node) -> tuple[str, str, str]:
    domain, op_type, overload = node.op_identifier()
    return "" if domain in DEFAULT_DOMAINS else domain, op_type, overload


def operands(node: onnx_ir.Node) -> list[onnx_ir.Value | None]:
    """Return the inputs without absent ones at the end."""
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


# Attributes of a node without those at the default of its operator, which may as well be absent.


def attributes_without_defaults(node: onnx_ir.Node, imports: Mapping[str, int] | None) -> dict[str, onnx_ir.Attr]:
    """Return the attributes that differ from their defaults, by name; all of them if there is no schema."""
    opset = None if imports is None else opset_of(imports, node.domain)
    if opset is None:
        return dict(node.attributes)
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    defaults = _defaults(domain, node.op_type, opset)
    return {
        name: attr for name, attr in node.attributes.items() if name not in defaults or not _same(attr, defaults[name])
    }


@lru_cache(maxsize=4096)
def _defaults(domain: str, op_type: str, opset: int) -> dict[str, onnx_ir.Attr]:
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return {}
    defaults = {name: formal.default_value for name, formal in schema.attributes.items() if formal.default_value.type}
    return {name: onnx_ir.from_proto(value) for name, value in defaults.items()}


def _same(attribute: onnx_ir.Attr, default: onnx_ir.Attr) -> bool:
    """True if equal; defaults are numbers and texts, and repr distinguishes zeros of different sign."""
    return not attribute.is_ref() and repr(attribute.value) == repr(default.value)


ABSENT = -1
"""The key of an operand that is left out."""


@dataclass
class Keys:
    """One number for each distinct key. `of` maps the values matched so far in both models to their keys.

    Attributes:
        imports: The opsets in force in each scope of both models.
        everything: Compare metadata and unused constants too.
    """

    table: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    of: dict[onnx_ir.Value, int] = field(default_factory=dict[onnx_ir.Value, int])
    constants: dict[onnx_ir.Value, int | None] = field(default_factory=dict[onnx_ir.Value, int | None])
    imports: dict[Scope, Mapping[str, int]] = field(default_factory=dict[Scope, Mapping[str, int]])
    everything: bool = False

    def intern(self, *key: Hashable) -> int:
        return self.table.setdefault(key, len(self.table))

    def attributes(self, node: onnx_ir.Node) -> dict[str, onnx_ir.Attr]:
        """Return the attributes of the node that differ from their defaults."""
        return attributes_without_defaults(node, None if node.graph is None else self.imports.get(node.graph))

    def constant(self, value: onnx_ir.Value) -> int | None:
        """Return the key of a constant by its content; None for other values."""
        if value not in self.constants:
            tensor = constant_tensor(value)
            self.constants[value] = None if tensor is None else self.intern("constant", digest(tensor))
        return self.constants[value]


def forward_keys(
    nodes: Iterable[onnx_ir.Node], keys: Keys, numbers: MutableMapping[onnx_ir.Value, int]
) -> dict[onnx_ir.Node, int]:
    """Return the key of each node by operator, attributes and input keys; the outputs are added to `numbers`."""
    keys_found: dict[onnx_ir.Node, int] = {}
    for node in nodes:
        inputs = tuple(_input_key(value, keys, numbers) for value in operands(node))
        keys_found[node] = keys.intern("node", operator_key(node), inputs, attribute_keys(node, keys, numbers))
        for index, value in enumerate(node.outputs):
            numbers.setdefault(value, keys.intern("output", keys_found[node], index))
    return keys_found


def attribute_keys(node: onnx_ir.Node, keys: Keys, numbers: MutableMapping[onnx_ir.Value, int]) -> tuple[Hashable, ...]:
    """Return the attributes by name. Outer values in subgraphs get their keys from `numbers`."""
    attributes = keys.attributes(node)
    return tuple((name, attribute_key(attributes[name], keys, numbers)) for name in sorted(attributes))


def attribute_key(attribute: onnx_ir.Attr, keys: Keys, numbers: MutableMapping[onnx_ir.Value, int]) -> Hashable:
    """Return a key that is equal for attributes of the same type and bit-identical value."""
    kind = attribute.type
    if attribute.is_ref():
        return kind, "ref", attribute.ref_attr_name
    if kind == onnx_ir.AttributeType.GRAPH:
        return kind, _graph_key(attribute.as_graph(), keys, numbers)
    if kind == onnx_ir.AttributeType.GRAPHS:
        return kind, tuple(_graph_key(graph, keys, numbers) for graph in attribute.as_graphs())
    if kind == onnx_ir.AttributeType.TENSOR:
        return kind, digest(attribute.as_tensor())
    if kind == onnx_ir.AttributeType.TENSORS:
        return kind, tuple(digest(tensor) for tensor in attribute.as_tensors())
    return kind, repr(attribute.value)


def _graph_key(graph: onnx_ir.Graph, keys: Keys, numbers: MutableMapping[onnx_ir.Value, int]) -> int:
    inner = ChainMap({}, numbers)
    inner.update((value, keys.intern("formal", index)) for index, value in enumerate(graph.inputs))
    nodes = forward_keys(computing_nodes(graph), keys, inner)
    outputs = tuple(_input_key(value, keys, inner) for value in graph.outputs)
    return keys.intern("graph", len(graph.inputs), outputs, tuple(sorted(nodes.values())))


def name_of_undefined(value: onnx_ir.Value) -> tuple[str | None, ...]:
    """Return the name of a value that a malformed model does not define, which tells it from others; else nothing."""
    is_defined = value.producer() is not None or value.is_graph_input() or value.is_initializer()
    return () if is_defined else ("undefined", value.name)


def _input_key(value: onnx_ir.Value | None, keys: Keys, numbers: MutableMapping[onnx_ir.Value, int]) -> int:
    if value is None:
        return ABSENT
    constant = keys.constant(value)
    if constant is None and value in numbers:
        return numbers[value]
    if constant is None:
        return keys.intern(*(name_of_undefined(value) or ("unknown", value)))
    return constant
