"""The values of models as expressions, each held once: two values with one number are computed in the same way.

An expression is what makes a value and of what: names of intermediate values, the order of nodes, where a constant is
kept, attributes at their defaults and model-local functions leave no trace in it. A graph within a node is the
expressions of its outputs, in which its own inputs are numbered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops import DEFAULT_DOMAINS, opset_of

Key = tuple[Hashable, ...]
Attributes = tuple[tuple[str, Hashable], ...]

_DRAWING = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")


@dataclass
class Book:
    """All expressions of the models compared, by number. constants: the tensors of those that are constant."""

    keys: list[Key] = field(default_factory=list[Key])
    constants: dict[int, onnx_ir.TensorProtocol] = field(default_factory=dict[int, onnx_ir.TensorProtocol])
    _numbers: dict[Key, int] = field(default_factory=dict[Key, int])

    def number(self, key: Key) -> int:
        """The number of the expression."""
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]

    def constant(self, tensor: onnx_ir.TensorProtocol) -> int:
        """The number of a constant: of its type, its shape and its bits."""
        bits = hashlib.sha256(_bytes(tensor)).hexdigest()
        number = self.number(("constant", int(tensor.dtype), tuple(tensor.shape.numpy()), bits))
        self.constants.setdefault(number, tensor)
        return number

    def operator(
        self, op: tuple[str, str, int], attributes: Attributes, inputs: tuple[int | None, ...], index: int, count: int
    ) -> int:
        """The number of output `index` of `count` of an operator: its domain, type and version, on these inputs."""
        return self.number(("operator", op, attributes, inputs, index, count))


@dataclass
class Expressions:
    """The expressions of one model. outputs: by name. of: the numbers of the first output of each node; of one in a
    function, in each call."""

    outputs: dict[str, int]
    of: dict[onnx_ir.Node, set[int]]


def expressions(model: onnx_ir.Model, book: Book) -> Expressions:
    """The expressions of a model, written into the book."""
    reader = _Reader(model, book)
    scope: dict[onnx_ir.Value, int] = {}
    for value in model.graph.inputs:
        default = () if value.const_value is None else (book.constant(value.const_value),)
        scope[value] = book.number(("input", value.name, *default))
    found = reader.body(model.graph, scope, model.graph.opset_imports, {}, 0)
    names = [value.name or "" for value in model.graph.outputs]
    return Expressions(dict(zip(names, found, strict=True)), reader.of)


class _Reader:
    def __init__(self, model: onnx_ir.Model, book: Book) -> None:
        self.model, self.book = model, book
        self.of: dict[onnx_ir.Node, set[int]] = {}

    def body(
        self,
        body: onnx_ir.Graph | onnx_ir.Function,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        given: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> list[int]:
        """The expressions of the outputs. given: what attributes that refer to a function's parameters stand for."""
        if isinstance(body, onnx_ir.Graph):
            for value in body.initializers.values():
                if value not in scope and value.const_value is not None:
                    scope[value] = self.book.constant(value.const_value)
        for node in body:
            for value, number in zip(node.outputs, self._node(node, scope, imports, given, depth), strict=True):
                scope[value] = number
            if node.outputs:
                self.of.setdefault(node, set()).add(scope[node.outputs[0]])
        return [scope[value] for value in body.outputs]

    def _node(
        self,
        node: onnx_ir.Node,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        given: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> list[int]:
        inputs = tuple(None if value is None else scope[value] for value in node.inputs)
        attributes = {
            name: given.get(attribute.ref_attr_name or "") if attribute.is_ref() else attribute
            for name, attribute in node.attributes.items()
        }
        present = {name: attribute for name, attribute in attributes.items() if attribute is not None}
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            defaults = {name: default for name, default in function.attributes.items() if default.value is not None}
            inner: dict[onnx_ir.Value, int] = {}
            for index, value in enumerate(function.inputs):
                number = inputs[index] if index < len(inputs) else None
                inner[value] = self.book.number(("nothing",)) if number is None else number
            return self.body(function, inner, function.opset_imports, {**defaults, **present}, depth)
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and len(present) == len(node.attributes):
            tensor = constant_tensor(node.outputs[0]) or _tensor_of(present)
            if tensor is not None:
                return [self.book.constant(tensor)]
        if node.op_type == "If" and node.domain in DEFAULT_DOMAINS and inputs[0] in self.book.constants:
            taken = "then_branch" if np.all(self.book.constants[inputs[0]].numpy()) else "else_branch"
            return self.body(present[taken].as_graph(), dict(scope), imports, given, depth)
        op = _version(node.domain, node.op_type, opset_of(imports, node.domain))
        written = tuple(
            sorted((name, self._attribute(each, scope, imports, given, depth)) for name, each in present.items())
        )
        written = _with_defaults(op, written)
        training = op[1] == "Dropout" and len(inputs) > 2 and inputs[2] is not None
        if (training or op[1] in _DRAWING) and "seed" not in present:
            written = (*written, ("drawn by", id(node)))
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        return [self.book.operator(op, written, inputs, index, len(node.outputs)) for index in range(len(node.outputs))]

    def _attribute(
        self,
        attribute: onnx_ir.Attr,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        given: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> Hashable:
        match attribute.type:
            case AttributeType.GRAPH:
                graph = attribute.as_graph()
                inner = dict(scope)
                for index, value in enumerate(graph.inputs):
                    inner[value] = self.book.number(("parameter", depth, index, str(value.dtype)))
                return "graph", len(graph.inputs), tuple(self.body(graph, inner, imports, given, depth + 1))
            case AttributeType.TENSOR:
                return "tensor", self.book.constant(attribute.as_tensor())
            case _:
                return _written(attribute)


def _tensor_of(attributes: Mapping[str, onnx_ir.Attr]) -> onnx_ir.TensorProtocol | None:
    """The tensor of a Constant whose attribute a call of the function around it gives."""
    node = onnx_ir.Node("", "Constant", [], list(attributes.values()))
    return constant_tensor(node.outputs[0])


@cache
def _version(domain: str, op_type: str, opset: int | None) -> tuple[str, str, int]:
    """What an operator is: its domain and type, and since when it has meant what it means."""
    domain = "" if domain in DEFAULT_DOMAINS else domain
    try:
        return domain, op_type, onnx.defs.get_schema(op_type, opset or 1, domain).since_version
    except onnx.defs.SchemaError:
        return domain, op_type, opset or 0


@cache
def _with_defaults(op: tuple[str, str, int], written: Attributes) -> Attributes:
    """The attributes with those that are left out at the defaults of the schema."""
    domain, op_type, version = op
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return written
    names, found = {name for name, _ in written}, list(written)
    for name, attribute in schema.attributes.items():
        if name not in names and attribute.default_value.name:
            found.append((name, _written(onnx_ir.from_proto(attribute.default_value))))
    return tuple(sorted(found))


def _written(attribute: onnx_ir.Attr) -> tuple[str, str]:
    """An attribute of numbers or text, as its kind and its text."""
    value: Any = attribute.value
    return attribute.type.name, repr([*value]) if attribute.type.name.endswith("S") else repr(value)


def _bytes(tensor: onnx_ir.TensorProtocol) -> bytes:
    if tensor.dtype is onnx_ir.DataType.STRING:
        return repr(tensor.numpy().tolist()).encode()
    return tensor.tobytes()
