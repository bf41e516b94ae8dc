"""The values of models as expressions, each held once: two values with one number are computed in the same way.

An expression is the operator that makes a value and its operands: names of intermediate values, the order of nodes,
the storage of constants, attributes at their defaults and model-local functions are not part of it. A graph within a
node is the expressions of its outputs, in which its own inputs are numbered.
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
from onnx_ir import AttributeType, DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import traits_of
from castsmith.ir.walks import MOST_INLINED, all_nodes, nodes_once_inlined

Key = tuple[Any, ...]
Attributes = tuple[tuple[str, Any], ...]

_TRAINING = {"Dropout": 2, "BitmaskDropout": 2, "BiasDropout": 4, "BitmaskBiasDropout": 4}
"""Operators that draw random numbers if the operand at this place says so, ONNX Runtime's own among them."""


@dataclass
class Book:
    """All expressions of the models compared, by number. constants: the tensors of those that are constant."""

    keys: list[Key] = field(default_factory=list[Key])
    types: dict[int, onnx_ir.DataType] = field(default_factory=dict[int, onnx_ir.DataType])
    """The element types of the expressions, if known."""
    sizes: dict[int, list[int | None]] = field(default_factory=dict[int, list[int | None]])
    """The declared sizes of graph inputs; None for those that are not fixed."""
    constants: dict[int, onnx_ir.TensorProtocol] = field(default_factory=dict[int, onnx_ir.TensorProtocol])
    _numbers: dict[Key, int] = field(default_factory=dict[Key, int])

    def number(self, key: Key) -> int:
        """Return the number of the expression."""
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]

    def unique(self) -> int:
        """Return a number that equals no other."""
        return self.number(("unique", len(self.keys)))

    def parts(self, number: int) -> list[int]:
        """Return the numbers of the parts of the expression; also the results of graphs within it."""
        key = self.keys[number]
        if key[0] == "function":
            return [key[1]]
        if key[0] != "operator":
            return []
        operands: tuple[int | None, ...] = key[3]
        attributes: tuple[tuple[str, Any], ...] = key[2]
        graphs: list[tuple[int, ...]] = [value[2] for _, value in attributes if value[:1] == ("graph",)]
        return [number for numbers in (operands, *graphs) for number in numbers if number is not None]

    def input(self, name: str, dtype: onnx_ir.DataType | None, default: tuple[int, ...]) -> int:
        """Return the number of a graph input, with its default constant."""
        return self.number(("input", name, None if dtype is None else int(dtype), *default))

    def constant(self, tensor: onnx_ir.TensorProtocol) -> int:
        """Return the number of a constant: of its type, its shape and its bits."""
        bits = hashlib.sha256(_bytes(tensor)).hexdigest()
        number = self.number(("constant", int(tensor.dtype), tuple(tensor.shape.numpy()), bits))
        self.constants.setdefault(number, tensor)
        return number

    def parameter(self, depth: int, index: int, dtype: DataType | None, declared: DataType | None) -> int:
        """Return the number of an input of a graph within a node; its type counts if known from the initial value."""
        if dtype is None:
            return self.number(("parameter", depth, index, str(declared)))
        number = self.number(("parameter", depth, index, str(dtype), "known"))
        self.types[number] = dtype
        return number

    def operator(
        self, op: tuple[str, str, int], attributes: Attributes, inputs: tuple[int | None, ...], index: int, count: int
    ) -> int:
        """Return the number of output `index` of `count` of an operator on these inputs."""
        return self.number(("operator", op, attributes, inputs, index, count))


@dataclass
class Expressions:
    """The expressions of one model.

    Attributes:
        outputs: The outputs by name.
        values: The numbers of each value; a value in a function has one for each call.
    """

    outputs: dict[str, int]
    values: dict[onnx_ir.Value, set[int]]

    def of(self, node: onnx_ir.Node) -> set[int]:
        """Return the numbers of the first output of a node."""
        return self.values.get(node.outputs[0], set()) if node.outputs else set()

    @property
    def all(self) -> set[int]:
        """The numbers of all values."""
        return {number for numbers in self.values.values() for number in numbers}


def expressions(model: onnx_ir.Model, book: Book, entering: Mapping[str, int] | None = None) -> Expressions:
    """Return the expressions of a model, written into the book; `entering`: the values of inputs that are not inputs.

    In a model whose functions call others so often that there would be too many, all values are distinct.
    """
    if nodes_once_inlined(model, model.functions) > MOST_INLINED:
        return Expressions(
            {value.name or "": book.unique() for value in model.graph.outputs},
            {value: {book.unique()} for node in all_nodes(model) for value in node.outputs},
        )
    reader = _Reader(model, book)
    scope: dict[onnx_ir.Value, int] = {}
    for value in model.graph.inputs:
        default = () if value.const_value is None else (book.constant(value.const_value),)
        number = (entering or {}).get(value.name or "")
        scope[value] = book.input(value.name or "", value.dtype, default) if number is None else number
        if value.shape is not None:
            book.sizes[scope[value]] = [dim if isinstance(dim, int) and dim >= 0 else None for dim in value.shape]
    results = reader.body(model.graph, scope, model.graph.opset_imports, {}, 0)
    names = [value.name or "" for value in model.graph.outputs]
    return Expressions(dict(zip(names, results, strict=True)), reader.values)


class _Reader:
    def __init__(self, model: onnx_ir.Model, book: Book) -> None:
        self.model, self.book = model, book
        self.values: dict[onnx_ir.Value, set[int]] = {}

    def body(
        self,
        body: onnx_ir.Graph | onnx_ir.Function,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        attributes: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> list[int]:
        """Return the expressions of the outputs. attributes: the values of attributes that are function parameters."""
        if isinstance(body, onnx_ir.Graph):
            for value in body.initializers.values():
                if value not in scope and value.const_value is not None:
                    scope[value] = self.book.constant(value.const_value)
        for value in body.inputs:
            self.values.setdefault(value, set()).add(scope[value])
        for node in body:
            for value, number in zip(node.outputs, self._node(node, scope, imports, attributes, depth), strict=True):
                scope[value] = number
                self.values.setdefault(value, set()).add(number)
        return [scope[value] for value in body.outputs]

    def _node(
        self,
        node: onnx_ir.Node,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        attributes_given: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> list[int]:
        inputs = tuple(None if value is None else scope[value] for value in node.inputs)
        attributes = {
            name: attributes_given.get(attribute.ref_attr_name or "") if attribute.is_ref() else attribute
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
            return self.body(function, inner, function.opset_imports, {**defaults, **present}, depth)[
                : len(node.outputs)
            ]
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and len(present) == len(node.attributes):
            tensor = constant_tensor(node.outputs[0]) or _tensor_of(present)
            if tensor is not None:
                return [self.book.constant(tensor)]
        if node.op_type == "If" and node.domain in DEFAULT_DOMAINS and inputs[0] in self.book.constants:
            branch = "then_branch" if np.all(self.book.constants[inputs[0]].numpy()) else "else_branch"
            return self.body(present[branch].as_graph(), dict(scope), imports, attributes_given, depth)
        op = version_of(node.domain, node.op_type, opset_of(imports, node.domain))
        keys = tuple(
            sorted(
                (
                    name,
                    self._graph(node, inputs, attribute.as_graph(), scope, imports, attributes_given, depth)
                    if attribute.type is AttributeType.GRAPH
                    else self._attribute(attribute),
                )
                for name, attribute in present.items()
            )
        )
        keys = _without_defaults(op, opset_of(imports, node.domain), keys)
        mode = _TRAINING.get(op[1], len(inputs))
        training = mode < len(inputs) and inputs[mode] is not None
        if (training or traits_of(node.domain, op[1]).random) and "seed" not in present:
            keys = (*keys, ("drawn", ("number", self.book.unique())))
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        return [self.book.operator(op, keys, inputs, index, len(node.outputs)) for index in range(len(node.outputs))]

    def _graph(
        self,
        node: onnx_ir.Node,
        inputs: tuple[int | None, ...],
        graph: onnx_ir.Graph,
        scope: dict[onnx_ir.Value, int],
        imports: Mapping[str, int],
        attributes: Mapping[str, onnx_ir.Attr],
        depth: int,
    ) -> Hashable:
        """Return a graph within a node: its outputs, by the types of its inputs and of each iteration's results."""
        dtypes = [None if number is None else self.book.types.get(number) for number in inputs]
        types: list[DataType | None] = []
        back: dict[int, int] = {}
        if node.op_type == "Loop":
            types, back = [DataType.INT64, DataType.BOOL, *dtypes[2:]], {at: at - 1 for at in range(2, len(inputs))}
        elif node.op_type == "Scan" and "directions" not in node.attributes and (opset_of(imports, "") or 1) > 8:
            types, back = dtypes, {at: at for at in range(len(inputs) - node.attributes["num_scan_inputs"].as_int())}
        types += [None] * (len(graph.inputs) - len(types))
        while True:
            inner = dict(scope)
            for index, (value, dtype) in enumerate(zip(graph.inputs, types, strict=False)):
                inner[value] = self.book.parameter(depth, index, dtype, value.dtype)
            outputs = self.body(graph, inner, imports, attributes, depth + 1)
            wrong = [at for at, out in back.items() if types[at] not in (None, self.book.types.get(outputs[out]))]
            if not wrong:
                return "graph", len(graph.inputs), tuple(outputs)
            types = [None if at in wrong else dtype for at, dtype in enumerate(types)]

    def _attribute(self, attribute: onnx_ir.Attr) -> Hashable:
        if attribute.type is AttributeType.TENSOR:
            return "tensor", self.book.constant(attribute.as_tensor())
        return _attribute_key(attribute)


def _tensor_of(attributes: Mapping[str, onnx_ir.Attr]) -> onnx_ir.TensorProtocol | None:
    """Return the tensor of a Constant whose attribute is given by a call of the enclosing function."""
    node = onnx_ir.Node("", "Constant", [], list(attributes.values()))
    return constant_tensor(node.outputs[0])


@cache
def version_of(domain: str, op_type: str, opset: int | None) -> tuple[str, str, int]:
    """Return the identity of an operator: domain, type, and the opset since which its parameters are unchanged."""
    domain = "" if domain in DEFAULT_DOMAINS else domain
    if not opset or not onnx.defs.has(op_type, opset, domain):
        return domain, op_type, opset or 0
    schema = onnx.defs.get_schema(op_type, opset, domain)
    version, revised = schema.since_version, traits_of(domain, op_type).revised
    while not revised and version > 1 and onnx.defs.has(op_type, version - 1, domain):
        earlier = onnx.defs.get_schema(op_type, version - 1, domain)
        if _parameters(earlier) != _parameters(schema):
            break
        version = earlier.since_version
    return domain, op_type, version


def _parameters(schema: onnx.defs.OpSchema) -> Hashable:
    """Return the inputs, outputs and attributes of an operator; its allowed types do not change its meaning."""
    sides = [[(p.type_str, str(p.option)) for p in side] for side in (schema.inputs, schema.outputs)]
    later = traits_of(schema.domain, schema.name).later
    attributes = sorted(
        (name, a.required, a.default_value.SerializeToString())
        for name, a in schema.attributes.items()
        if name not in later
    )
    return repr((sides, attributes))


@cache
def _without_defaults(op: tuple[str, str, int], opset: int | None, attributes: Attributes) -> Attributes:
    """Return the attributes except those at the defaults of the schema."""
    domain, op_type, _ = op
    if not onnx.defs.has(op_type, opset or 1, domain):
        return attributes
    schema, settings = onnx.defs.get_schema(op_type, opset or 1, domain), list[tuple[str, Hashable]]()
    for name, value in attributes:
        formal = schema.attributes.get(name)
        default = formal.default_value if formal is not None else None
        if default is None or not default.name or _attribute_key(onnx_ir.from_proto(default)) != value:
            settings.append((name, value))
    return tuple(settings)


@dataclass(frozen=True, eq=False)
class _Itself:
    """An attribute that equals itself alone."""

    attribute: onnx_ir.Attr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.attribute is self.attribute

    def __hash__(self) -> int:
        return hash(self.attribute.name)


def _attribute_key(attribute: onnx_ir.Attr) -> tuple[str, Hashable]:
    """Return an attribute of numbers or text, as its kind and its text; one of another kind is distinct from all."""
    value: Any = attribute.value
    if not attribute.type.name.startswith(("FLOAT", "INT", "STRING")):
        return attribute.type.name, _Itself(attribute)
    return attribute.type.name, repr([*value]) if attribute.type.name.endswith("S") else repr(value)


def _bytes(tensor: onnx_ir.TensorProtocol) -> bytes:
    if tensor.dtype is onnx_ir.DataType.STRING:
        return repr(tensor.numpy().tolist()).encode()
    return tensor.tobytes()
