"""Reading an ordinary model from its proto in one walk, which also finds out what is checked in other models later.

onnx_ir's own reader takes 1.5 times as long, and the checks before and after it as long again. An ordinary model has
nodes in order, names that are UTF-8 and mean one value, tensors of valid types, and no part that onnx_ir would lose or
fail on: `read` returns the same objects that onnx_ir makes of it. For every other model it returns None, so that the
checks in their usual order, and the errors with their usual texts, stand in one place each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir
from google.protobuf.message import Message
from onnx_ir import Attr, AttributeType, DataType, Node, Shape, SymbolicDim, TensorType, Value
from onnx_ir.serde import TensorProtoTensor

from castsmith.ir.errors import ModelError
from castsmith.ir.io.readable import (
    FIRST_WITH_FUNCTION_INFO,
    VALUE_FIELDS,
    WITHOUT_MESSAGES,
    fault_of,
    require_known_fields,
    require_readable_header,
)
from castsmith.ir.validation import DEEPEST_GRAPHS, Scope, kind_of, nonconformity, require_calls_end
from castsmith.ir.walks import Held, Place

_TYPES = {int(dtype): dtype for dtype in DataType}

_NUMERIC = {VALUE_FIELDS[name]: (AttributeType(VALUE_FIELDS[name]), name) for name in ("i", "f", "ints", "floats")}
"""The types of attributes that hold numbers, with the field of each."""

_STRING, _STRINGS = int(AttributeType.STRING), int(AttributeType.STRINGS)
_TENSOR, _GRAPH = int(AttributeType.TENSOR), int(AttributeType.GRAPH)
_EXTERNAL, _TEXT = onnx.TensorProto.EXTERNAL, onnx.TensorProto.STRING

Values = dict[str, Value | None]
"""The values of a graph by name; the empty name means no value."""


class _UnusualError(Exception):
    """The model has a part that other readers must look at."""


@dataclass(frozen=True)
class Reading:
    """A model, with what the walk came across.

    Attributes:
        graphs: The main graph and all subgraphs, with their protos; inner ones come first.
        tensors: Every tensor with its place, in the order of `walks.tensor_places`.
        samples: For each scope, nodes of every kind in it, as `validation.kind_of` tells kinds apart.
    """

    model: onnx_ir.Model
    graphs: list[tuple[onnx_ir.Graph, onnx.GraphProto]]
    tensors: list[tuple[Place, onnx_ir.TensorProtocol]]
    samples: list[tuple[Scope, list[Node]]]

    def is_sound(self) -> bool:
        """True if `validation.require_sound` accepts the model; the walk has checked what it could."""
        functions = self.model.functions
        try:
            if functions:
                require_calls_end(self.model, "")
        except ModelError:
            return False
        return not any(
            nonconformity(node, scope.opset_imports, functions) for scope, nodes in self.samples for node in nodes
        )


def read(proto: onnx.ModelProto) -> Reading | None:
    """Return the model of the proto; None if anything about it is out of the ordinary, or wrong."""
    try:
        return _read(proto)
    except (_UnusualError, ModelError, UnicodeDecodeError, RecursionError):
        return None


def _read(proto: onnx.ModelProto) -> Reading:
    require_readable_header(proto)
    require_known_fields(proto)
    _require(not proto.configuration)
    if proto.functions and proto.ir_version < FIRST_WITH_FUNCTION_INFO:
        _require(not any("::" in info.name for info in proto.graph.value_info))
    reader = _Reader()
    graph = reader.main_graph(proto.graph)
    graph.opset_imports.update({entry.domain: entry.version for entry in proto.opset_import})
    model = onnx_ir.Model(
        graph,
        ir_version=proto.ir_version,
        producer_name=_text(proto, "producer_name"),
        producer_version=_text(proto, "producer_version"),
        domain=_text(proto, "domain"),
        model_version=proto.model_version if proto.HasField("model_version") else None,
        doc_string=_text(proto, "doc_string"),
        functions=[reader.function(function) for function in proto.functions],
        metadata_props=_metadata(proto.metadata_props),
    )
    places: list[tuple[Place, onnx_ir.TensorProtocol]] = [
        (value, value.const_value)
        for values in reader.initializers
        for value in values
        if value.const_value is not None
    ]
    return Reading(model, reader.graphs, [*places, *reader.defaults, *reader.held], reader.samples)


class _Reader:
    """One walk through the main graph and the functions, with the subgraphs in them."""

    def __init__(self) -> None:
        self.graphs: list[tuple[onnx_ir.Graph, onnx.GraphProto]] = []
        self.initializers: list[list[Value]] = []
        self.defaults: list[tuple[Held, onnx_ir.TensorProtocol]] = []
        self.held: list[tuple[Held, onnx_ir.TensorProtocol]] = []
        self.samples: list[tuple[Scope, list[Node]]] = []
        self._kinds: set[Hashable] = set()
        self._sampled: list[Node] = []

    def main_graph(self, proto: onnx.GraphProto) -> onnx_ir.Graph:
        graph = self._graph(proto, ())
        self._end_of_scope(graph)
        return graph

    def function(self, proto: onnx.FunctionProto) -> onnx_ir.Function:
        names = [*proto.attribute, *(each.name for each in proto.attribute_proto)]
        _require(len(set(names)) == len(names) and len(set(proto.input)) == len(proto.input))
        inputs = [Value(name=name) for name in proto.input]
        values: Values = {_str(name): value for name, value in zip(proto.input, inputs, strict=True)}
        _require("" not in values)
        values[""] = None
        nodes = self._nodes(proto.node, values, (), {info.name: info for info in proto.value_info})
        graph = onnx_ir.Graph(
            inputs,
            [_defined(values, name) for name in proto.output],
            nodes=nodes,
            doc_string=_text(proto, "doc_string"),
            opset_imports={entry.domain: entry.version for entry in proto.opset_import},
            name=f"{proto.name}_{proto.domain}__{proto.overload}" if proto.overload else "",
            metadata_props=_metadata(proto.metadata_props),
        )
        attributes = {each.name: self._attribute(each, None) for each in proto.attribute_proto}
        attributes |= {name: Attr(name, AttributeType.UNDEFINED, None) for name in proto.attribute}
        function = onnx_ir.Function(
            proto.domain, proto.name, proto.overload, graph=graph, attributes=list(attributes.values())
        )
        _hold(self.defaults, function, attributes)
        self._end_of_scope(function)
        return function

    def _end_of_scope(self, scope: Scope) -> None:
        self.samples.append((scope, self._sampled))
        self._kinds, self._sampled = set(), []

    def _graph(self, proto: onnx.GraphProto, outer: tuple[Values, ...]) -> onnx_ir.Graph:
        """Return the graph; `outer` are the values of the graphs around it, the innermost first."""
        _require(len(outer) <= DEEPEST_GRAPHS and not (proto.quantization_annotation or proto.sparse_initializer))
        _str(proto.name)
        inputs = [Value(name=_str(info.name)) for info in proto.input]
        values: Values = {value.name or "": value for value in inputs}
        _require(len(values) == len(inputs) and "" not in values)
        for info, value in zip(proto.input, inputs, strict=True):
            _declare(value, info)
        infos = {info.name: info for info in proto.value_info}
        initializers = _initializers(proto.initializer, values, infos)
        self.initializers.append(initializers)
        values[""] = None
        nodes = self._nodes(proto.node, values, outer, infos)
        outputs = [_defined(values, info.name) for info in proto.output]
        for info, value in zip(proto.output, outputs, strict=True):
            _declare(value, info)
        graph = onnx_ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=initializers,
            doc_string=_text(proto, "doc_string"),
            name=_text(proto, "name"),
            metadata_props=_metadata(proto.metadata_props),
        )
        self.graphs.append((graph, proto))
        return graph

    def _nodes(
        self,
        protos: Iterable[onnx.NodeProto],
        values: Values,
        outer: tuple[Values, ...],
        infos: dict[str, onnx.ValueInfoProto],
    ) -> list[Node]:
        scopes, known, made = (values, *outer), values.__getitem__, list[Node]()
        kinds, sampled = self._kinds, self._sampled
        for proto in protos:
            try:
                inputs = list(map(known, proto.input))
            except KeyError:
                inputs = [_visible(scopes, name) for name in proto.input]
            given = proto.attribute
            attributes = {_str(each.name): self._attribute(each, scopes) for each in given} if given else None
            outputs: list[Value] = []
            for name in proto.output:
                value = Value(name=name)
                outputs.append(value)
                if name in values or type(name) is not str:
                    _require(name == "")
                    continue
                for around in outer:
                    if name in around:
                        raise _UnusualError
                if name in infos:
                    _declare(value, infos[name])
                values[name] = value
            operator = domain, op_type, overload = proto.domain, proto.op_type, proto.overload
            entries = proto.metadata_props
            node = Node(
                domain,
                op_type,
                inputs,
                (),
                overload=overload,
                outputs=outputs,
                name=proto.name,
                doc_string=proto.doc_string if proto.HasField("doc_string") else None,
                metadata_props=_metadata(entries) if entries else None,
            )
            if attributes is not None:
                _require(len(attributes) == len(given))
                node.attributes.data.update(attributes)  # to hand them to the constructor takes twice as long
                _hold(self.held, node, attributes)
            if type(node.name) is not str or proto.device_configurations:
                raise _UnusualError
            made.append(node)
            kind = kind_of(operator, inputs, outputs, attributes)
            if kind not in kinds:
                _str(domain)
                _require(_str(op_type) != "")
                sampled.append(node)
                if kind is not None:
                    kinds.add(kind)
        return made

    def _attribute(self, proto: onnx.AttributeProto, scopes: tuple[Values, ...] | None) -> Attr:
        """Return the attribute of a node within these scopes, or the default of a function."""
        number, name = proto.type, proto.name
        doc_string, fields = None, 3  # of an attribute with a name, a type and one message
        if proto.HasField("doc_string"):
            doc_string, fields = proto.doc_string, 4
        if proto.ref_attr_name:
            _require(number in WITHOUT_MESSAGES or (number == _TENSOR and len(proto.ListFields()) == fields))
            return onnx_ir.RefAttr(name, proto.ref_attr_name, AttributeType(number), doc_string=doc_string)
        if number in _NUMERIC:
            kind, field = _NUMERIC[number]
            return Attr(name, kind, getattr(proto, field), doc_string=doc_string)
        if number == _STRING:
            return Attr(name, AttributeType.STRING, proto.s.decode(), doc_string=doc_string)
        if number == _STRINGS:
            return Attr(name, AttributeType.STRINGS, [each.decode() for each in proto.strings], doc_string=doc_string)
        _require(len(proto.ListFields()) == fields)
        if number == _TENSOR and proto.HasField("t"):
            return Attr(name, AttributeType.TENSOR, _tensor(proto.t), doc_string=doc_string)
        if number == _GRAPH and proto.HasField("g") and scopes is not None:
            return Attr(name, AttributeType.GRAPH, self._graph(proto.g, scopes), doc_string=doc_string)
        raise _UnusualError


def _hold(
    found: list[tuple[Held, onnx_ir.TensorProtocol]], owner: Node | onnx_ir.Function, attributes: Mapping[str, Attr]
) -> None:
    """Add the tensors in the attributes of the owner."""
    kinds = [attribute.type for attribute in attributes.values() if attribute.ref_attr_name is None]
    if AttributeType.TENSOR in kinds:
        _require(AttributeType.GRAPH not in kinds)  # whose tensors are in the list already, before these
        found += [
            (Held(owner, name), attribute.value)
            for name, attribute in attributes.items()
            if attribute.type == AttributeType.TENSOR and attribute.ref_attr_name is None
        ]


def _initializers(
    protos: Sequence[onnx.TensorProto], values: Values, infos: dict[str, onnx.ValueInfoProto]
) -> list[Value]:
    """Return the values of the initializers, and add those that are not inputs to the values of the graph."""
    found: list[Value] = []
    for proto in protos:
        tensor, name = _tensor(proto), _str(proto.name)
        value = values.get(name)
        if value is None:
            _require(name != "")
            value = Value(
                name=name, type=TensorType(tensor.dtype), shape=Shape(proto.dims, frozen=True), const_value=tensor
            )
            if name in infos:
                _declare(value, infos[name])
            values[name] = value
        else:
            _require(value.const_value is None)
            value.const_value = tensor
        found.append(value)
    return found


def _tensor(proto: onnx.TensorProto) -> onnx_ir.TensorProtocol:
    _require(not fault_of(proto))
    if proto.data_location == _EXTERNAL or proto.data_type == _TEXT:
        return onnx_ir.from_proto(proto)
    return TensorProtoTensor(proto)


def _declare(value: Value, info: onnx.ValueInfoProto) -> None:
    """Give the value the type, the shape and the texts that the value_info states."""
    declared = info.type
    kind = declared.WhichOneof("value")
    if kind == "tensor_type":
        tensor = declared.tensor_type
        dtype = _TYPES.get(tensor.elem_type)
        if dtype is None or not tensor.HasField("elem_type"):
            raise _UnusualError
        value.type = TensorType(dtype, denotation=_text(declared, "denotation"))
        value.shape = _shape(tensor.shape) if tensor.HasField("shape") else None
    else:
        _require(kind is None and not declared.HasField("denotation"))
        value.type = value.shape = None
    if info.metadata_props:
        value.metadata_props.update({entry.key: entry.value for entry in info.metadata_props})
    value.doc_string = _text(info, "doc_string")


def _shape(proto: onnx.TensorShapeProto) -> Shape:
    dims: list[int | SymbolicDim] = []
    denotations: list[str | None] = []
    for dim in proto.dim:
        kind = dim.WhichOneof("value")
        dims.append(dim.dim_value if kind == "dim_value" else SymbolicDim(dim.dim_param if kind else None))
        denotations.append(_text(dim, "denotation"))
    return Shape(dims, denotations=denotations, frozen=True)


def _visible(scopes: tuple[Values, ...], name: str) -> Value | None:
    """Return the value that the name means in the innermost of the scopes."""
    for values in scopes:
        if name in values:
            return values[name]
    raise _UnusualError


def _defined(values: Values, name: str) -> Value:
    value = values.get(name)
    if value is None:
        raise _UnusualError
    return value


def _text(proto: Message, field: str) -> str | None:
    return getattr(proto, field) if proto.HasField(field) else None


def _metadata(entries: Sequence[onnx.StringStringEntryProto]) -> dict[str, str] | None:
    found = {entry.key: entry.value for entry in entries}
    _require(len(found) == len(entries))
    return found or None


def _str(text: object) -> str:
    """Return the text; protobuf gives bytes where it is not UTF-8."""
    if type(text) is not str:
        raise _UnusualError
    return text


def _require(condition: bool) -> None:
    if not condition:
        raise _UnusualError
