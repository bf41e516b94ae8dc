"""Conversion between onnx_ir and protobuf, with what onnx_ir alone would not round-trip.

onnx_ir writes a value_info for every initializer. An initializer states its own type, so most files have none; the
values that had one are marked in their `meta`, and the others are left out again.

onnx_ir has no sparse tensors, so sparse constants are expanded into operators:

    Constant <sparse_value = ...> ()    and each sparse initializer
becomes
    zeros = Expand (0, shape)
    y = ScatterND (zeros, indices, values)

This is equivalent from opset 11 on, the first that has sparse constants, and stays as small in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import onnx
import onnx.helper as make
import onnx.printer
import onnx.serialization
import onnx_ir
from google.protobuf.message import Message
from onnx import TensorProto
from onnx_ir import AttributeType, serde

from castsmith.ir.errors import ModelError
from castsmith.ir.io.carried import as_onnx_ir_reads, carry_training, name_types, restore_training, restore_types
from castsmith.ir.io.readable import FIRST_WITH_DEVICES, FIRST_WITH_FUNCTION_INFO, VALUE_FIELDS, require_readable
from castsmith.ir.io.reading import read as reading_of
from castsmith.ir.io.wire import messages_of
from castsmith.ir.ops import DEFAULT_DOMAINS, traits_of
from castsmith.ir.walks import Place, all_values, graphs_in
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import ELEMENT_TYPES

_FIRST_OPSET = 11


def has_sparse(proto: onnx.ModelProto) -> bool:
    """True if the model has a sparse initializer, or a Constant with a sparse value."""
    return any(
        (isinstance(scope, onnx.GraphProto) and scope.sparse_initializer) or any(map(_sparse_value, scope.node))
        for scope in (*proto.functions, *_graphs_with_sparse(proto))
    )


def spelled_out(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model in which every sparse constant is made by operators.

    Raises:
        ModelError: The opset is older than 11.
    """
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    if max(imports.get("", 0), imports.get("ai.onnx", 0)) < _FIRST_OPSET:
        raise ModelError(f"{proto.graph.name}: sparse constants need opset {_FIRST_OPSET}.")
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for graph in _graphs_with_sparse(copy):
        made = [node for tensor in graph.sparse_initializer for node in _nodes(tensor, _name_in(graph, tensor))]
        _replace(graph.node, [*made, *graph.node])
        del graph.sparse_initializer[:]
    for nodes in _node_lists(copy):
        if any(_sparse_value(node) is not None for node in nodes):
            _replace(nodes, [new for node in nodes for new in _spell_out(node)])
    return copy


def _spell_out(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    value = _sparse_value(node)
    return [node] if value is None else _nodes(value, node.output[0])


def _nodes(tensor: onnx.SparseTensorProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes that make the dense tensor `name`. One index per element counts in the flattened tensor."""
    zero = TensorProto(data_type=tensor.values.data_type)
    if zero.data_type == TensorProto.STRING:
        zero.string_data.append(b"")
    else:
        zero.raw_data = bytes(16 if zero.data_type == TensorProto.COMPLEX128 else _width(zero.data_type))
    count, flat = tensor.values.dims[0] if tensor.values.dims else 0, len(tensor.indices.dims) == 1
    indices = TensorProto()
    indices.CopyFrom(tensor.indices)
    indices.dims[:] = [count, 1 if flat else len(tensor.dims)]
    shape = [prod(tensor.dims)] if flat else list(tensor.dims)
    parts = {"zero": zero, "shape": _integers(shape), "indices": indices, "values": tensor.values}
    if flat:
        parts["dims"] = _integers(list(tensor.dims))
    made = [make.make_node("Constant", [], [f"{name}/{part}"], value=each) for part, each in parts.items()]
    scattered = f"{name}/flat" if flat else name
    made.append(make.make_node("Expand", [f"{name}/zero", f"{name}/shape"], [f"{name}/zeros"]))
    inputs = [f"{name}/zeros", f"{name}/indices", f"{name}/values"]
    made.append(make.make_node("ScatterND", inputs, [scattered]))
    if flat:
        made.append(make.make_node("Reshape", [scattered, f"{name}/dims"], [name]))
    return made


def _width(data_type: int) -> int:
    return make.tensor_dtype_to_np_dtype(data_type).itemsize


def _integers(numbers: list[int]) -> TensorProto:
    return make.make_tensor("", TensorProto.INT64, [len(numbers)], numbers)


def _name_in(graph: onnx.GraphProto, tensor: onnx.SparseTensorProto) -> str:
    name = tensor.values.name
    if any(value.name == name for value in graph.input):
        raise ModelError(f"{graph.name}: the sparse initializer {name!r} is the default of an input, not a constant.")
    return name


def _sparse_value(node: onnx.NodeProto) -> onnx.SparseTensorProto | None:
    if node.op_type != "Constant" or not node.attribute:
        return None
    attribute = node.attribute[0]
    return attribute.sparse_tensor if attribute.type == onnx.AttributeProto.SPARSE_TENSOR else None


def _replace(nodes: MutableSequence[onnx.NodeProto], new: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in new]
    del nodes[:]
    nodes.extend(kept)


def _node_lists(proto: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    for graph in _graphs_with_sparse(proto):
        yield graph.node
    for function in proto.functions:
        yield function.node


def _graphs_with_sparse(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield proto.graph
    pending = [proto.graph.node, *(function.node for function in proto.functions)]
    while pending:
        for node in pending.pop():
            for attribute in node.attribute:
                for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                    pending.append(graph.node)
                    yield graph


_DECLARED = "castsmith.declared"
_OWN = "castsmith.loaded"


def file_format(path: Path) -> str:
    """Return the format that onnx gives a file by its suffix: protobuf, textproto, json or onnxtxt."""
    return onnx.serialization.registry.get_format_from_file_extension(path.suffix) or "protobuf"


@dataclass(frozen=True)
class Loaded:
    """A model that was read.

    Attributes:
        tensors: If the reader found the model sound, every tensor with its place, in the order of
            `walks.tensor_places`; None if `validation.require_sound` has to look at the model.
    """

    model: onnx_ir.Model
    tensors: list[tuple[Place, onnx_ir.TensorProtocol]] | None


def read(proto: onnx.ModelProto) -> Loaded:
    """Return the model of the proto; initializers that have a value_info are marked.

    Raises:
        ModelError: The proto cannot be read without loss.
    """
    reading = reading_of(proto)
    if reading is not None:
        _import_the_last(reading.model, proto)
        if reading.is_sound():
            _complete(reading.model, proto, reading.graphs)
            return Loaded(reading.model, reading.tensors)
    survey, given, repeated = require_readable(proto), proto, list[str]()
    if survey.sparse and has_sparse(proto):
        proto = spelled_out(proto)
    if survey.repeats or proto is not given:
        proto, repeated = without_repeats(proto)
    with as_onnx_ir_reads(survey if proto is given else require_readable(proto)) as any_carried:
        model = onnx_ir.from_proto(proto)
    if any_carried:
        name_types(all_values(model))
    if repeated:
        model.meta[REPEATED] = repeated
    _import_the_last(model, proto)
    _complete(model, proto, _parts(model, proto))
    return Loaded(model, None)


def from_proto(proto: onnx.ModelProto) -> onnx_ir.Model:
    """Return the model alone of what `read` returns."""
    return read(proto).model


def _complete(
    model: onnx_ir.Model, proto: onnx.ModelProto, graphs: Iterable[tuple[onnx_ir.Graph, onnx.GraphProto]]
) -> None:
    """Keep with the model what the proto states and onnx_ir has no place for."""
    carry_training(model, proto)
    for graph, graph_proto in graphs:
        graph.meta[_OWN] = True
        declared = graph_proto.value_info
        for name in {value.name for value in declared} & graph.initializers.keys() if declared else ():
            graph.initializers[name].meta[_DECLARED] = True


REPEATED = "castsmith.repeated"
"""The key in the `meta` of a model for the texts of nodes that the file repeats."""


def without_repeats(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return the model without repeated nodes, equal in every part except their names, and the texts of those.

    Converters write a cast again for each node that reads it, under the name of the first.
    """
    if not any(_repeats(nodes) for nodes in _node_lists(proto)):
        return proto, []
    copy, texts = onnx.ModelProto(), list[str]()
    copy.CopyFrom(proto)
    for nodes in _node_lists(copy):
        again = _repeats(nodes)
        texts += [_node_text(nodes[place]) for place in again]
        if again:
            _replace(nodes, [node for place, node in enumerate(nodes) if place not in again])
    return copy, texts


def _node_text(node: onnx.NodeProto) -> str:
    """Return the node in ONNX text, by way of a graph: onnx 1.21 prints no node alone."""
    text = onnx.printer.to_text(onnx.GraphProto(node=[node]))
    return text[text.index("{\n") + 2 : text.rindex("}")]


def _repeats(nodes: Sequence[onnx.NodeProto]) -> set[int]:
    """Places of nodes that give under the same names what an earlier node gives."""
    makers: dict[str, int] = {}
    found: set[int] = set()
    for place, node in enumerate(nodes):
        first = makers.get(node.output[0]) if node.output else None
        if first is not None and node.output[0]:
            content = _content(node)
            if content is not None and content == _content(nodes[first]):
                found.add(place)
        for name in node.output:
            makers.setdefault(name, place)
    return found


def _content(node: onnx.NodeProto) -> bytes | None:
    """The parts of a node that decide what it gives; None for a random one."""
    if traits_of(node.domain, node.op_type).random:
        return None
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    bare.ClearField("metadata_props")
    return bare.SerializeToString(deterministic=True)


def _import_the_last(model: onnx_ir.Model, proto: onnx.ModelProto) -> None:
    """Give the two names of the standard domain one version: of several imports, runtimes use the last."""
    standard = [entry.version for entry in proto.opset_import if entry.domain in DEFAULT_DOMAINS]
    for domain in model.graph.opset_imports.keys() & set(DEFAULT_DOMAINS):
        model.graph.opset_imports[domain] = standard[-1]


def tensors_of(message: Message) -> Iterator[onnx.TensorProto]:
    """Yield every tensor in the message, at any depth."""
    return messages_of(message, onnx.TensorProto)


def root_cause(error: BaseException) -> str:
    """Return the first line of the error's innermost cause: onnx_ir wraps each error in the place where it occurred."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _parts(model: onnx_ir.Model, proto: onnx.ModelProto) -> Iterator[tuple[onnx_ir.Graph, onnx.GraphProto]]:
    """Yield the main graph and all subgraphs, including those in functions, with their protos."""
    yield model.graph, proto.graph
    yield from _held(model.graph, proto.graph)
    for function, function_proto in zip(model.functions.values(), proto.functions, strict=True):
        yield from _held(function, function_proto)


def _held(
    scope: onnx_ir.Graph | onnx_ir.Function, proto: onnx.GraphProto | onnx.FunctionProto
) -> Iterator[tuple[onnx_ir.Graph, onnx.GraphProto]]:
    for index, node in enumerate(scope):
        for attribute in node.attributes.data.values():
            graphs = graphs_in(attribute)
            if graphs:
                found = next(each for each in proto.node[index].attribute if each.name == attribute.name)
                both = [found.g] if attribute.type == AttributeType.GRAPH else found.graphs
                for subgraph, subgraph_proto in zip(graphs, both, strict=True):
                    yield subgraph, subgraph_proto
                    yield from _held(subgraph, subgraph_proto)


# Back to protobuf: the same message as onnx_ir makes, in less than half the time.

_SCALARS, _LISTS = (
    {AttributeType(VALUE_FIELDS[name]): name for name in names} for names in (("i", "f"), ("ints", "floats"))
)
_ANNOTATION = "quant_parameter_tensor_names"
"""The key in the `meta` of a value under which onnx_ir keeps its quantization annotation."""

_CHECKED = frozenset(int(row.dtype) for row in ELEMENT_TYPES.values() if row.bits == 6)
"""The numbers of the types whose data onnx_ir checks when it writes them."""

_CAUSES = (
    ArithmeticError, AttributeError, CastsmithError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Errors of protobuf for a part that it does not take, and of a tensor whose data cannot be computed or read."""


def to_proto(model: onnx_ir.Model) -> onnx.ModelProto:
    """Return the proto of the model, with a value_info only for those initializers that had one.

    Raises:
        ModelError: A text in the model is not UTF-8: protobuf reads such texts but does not write them.
    """
    proto = onnx.ModelProto()
    try:
        _put_model(proto, model)
    except _CAUSES as error:
        raise ModelError(f"the model cannot be written ({root_cause(error)}).") from None
    restore_types(proto)
    restore_training(model, proto)
    return proto


def _put_model(proto: onnx.ModelProto, model: onnx_ir.Model) -> None:
    proto.ir_version = model.ir_version
    _put_texts(proto, model, ("producer_name", "producer_version", "domain", "model_version", "doc_string"))
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    devices = model.ir_version >= FIRST_WITH_DEVICES
    if devices:
        proto.configuration.extend(map(serde.serialize_model_configuration, model.device_configurations))
    _put_graph(proto.graph, model.graph, devices=devices)
    for function in model.functions.values():
        _put_function(proto, function, model.ir_version)


def _put_function(model: onnx.ModelProto, function: onnx_ir.Function, ir_version: int) -> None:
    """Add the function; before IR version 10 what is known of its values is in the value_info of the main graph."""
    proto = model.functions.add()
    _put_texts(proto, function, ("domain", "name", "overload", "doc_string"))
    for domain, version in function.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.input.extend([value.name for value in function.inputs])  # pyright: ignore[reportArgumentType]
    proto.output.extend([value.name for value in function.outputs])  # pyright: ignore[reportArgumentType]
    for attribute in function.attributes.values():
        if attribute.value is None:
            proto.attribute.append(attribute.name)
        else:
            _put_attribute(proto.attribute_proto.add(), attribute)
    values = [value for value in function.inputs if value.name]
    for node in function:
        _put_node(proto.node.add(), node, devices=ir_version >= FIRST_WITH_DEVICES)
        values += node.outputs
    for value in values:
        if value.name and _is_described(value):
            if ir_version >= FIRST_WITH_FUNCTION_INFO:
                _put_value(proto.value_info.add(), value)
            else:
                info = model.graph.value_info.add()
                _put_value(info, value)
                info.name = f"{function.domain}::{function.name}/{value.name}"


def _put_graph(proto: onnx.GraphProto, graph: onnx_ir.Graph, *, devices: bool = True) -> None:
    """Write the graph. devices: also on which devices its own nodes run."""
    _put_texts(proto, graph, ("name", "doc_string"))
    initializers, own, annotated = graph.initializers, _OWN in graph.meta, list[onnx_ir.Value]()
    for value in graph.inputs:
        _put_value(proto.input.add(), value)
        if value.name not in initializers:
            annotated.append(value)
    inputs = {value.name for value in graph.inputs}
    for value in initializers.values():
        annotated.append(value)
        if value.name not in inputs and _is_described(value) and (not own or _DECLARED in _meta_of(value)):
            _put_value(proto.value_info.add(), value)
        if value.const_value is not None:
            # Under the name of the value: a copy of the model may share the tensor under another name.
            tensor = proto.initializer.add()
            _put_tensor(tensor, value.const_value)
            tensor.name = value.name or ""
    add, described = proto.node.add, proto.value_info.add
    for node in graph:
        _put_node(add(), node, devices=devices)
        for value in node.outputs:
            if value._metadata and not value.is_graph_output():  # pyright: ignore[reportPrivateUsage]
                annotated.append(value)
            if _is_described(value) and not value.is_graph_output():
                other = initializers.get(value.name or "") if own else None
                if other is None or _DECLARED in _meta_of(other):
                    _put_value(described(), value)
    for value in graph.outputs:
        _put_value(proto.output.add(), value)
    for value in (*annotated, *graph.outputs):
        found = _meta_of(value).get(_ANNOTATION)
        if found:
            annotation = proto.quantization_annotation.add(tensor_name=value.name or "")
            for key in sorted(found):
                annotation.quant_parameter_tensor_names.add(key=key, value=found[key])


_NO_META: Mapping[str, Any] = {}


def _meta_of(value: onnx_ir.Value) -> Mapping[str, Any]:
    """Return the `meta` of the value, which makes a store for each value that has none: more than writing it takes."""
    return value._metadata or _NO_META  # pyright: ignore[reportPrivateUsage]


def _put_node(proto: onnx.NodeProto, node: onnx_ir.Node, *, devices: bool) -> None:
    proto.op_type = node.op_type
    domain, name, overload, doc_string = node.domain, node.name, node.overload, node.doc_string
    if name:
        proto.name = name
    if domain:
        proto.domain = domain
    if overload:
        proto.overload = overload
    if doc_string:
        proto.doc_string = doc_string
    if node._metadata_props:  # pyright: ignore[reportPrivateUsage]  # `metadata_props` would make a dict for each node
        _put_metadata(proto, node.metadata_props)
    proto.input.extend(["" if value is None else value.name for value in node.inputs])  # pyright: ignore[reportArgumentType]
    outputs = [value.name for value in node.outputs]
    while outputs and not outputs[-1]:
        outputs.pop()
    proto.output.extend(outputs)  # pyright: ignore[reportArgumentType]
    data = node.attributes.data
    if data:
        add = proto.attribute.add
        for attribute in data.values():
            _put_attribute(add(), attribute)
    if devices and node.device_configurations:
        configurations = map(serde.serialize_node_device_configuration, node.device_configurations)
        proto.device_configurations.extend(configurations)


def _put_attribute(proto: onnx.AttributeProto, attribute: onnx_ir.Attr) -> None:
    kind, value = attribute.type, attribute.value
    if attribute.ref_attr_name is not None:
        serde.serialize_reference_attribute_into(proto, attribute)
        return
    if kind in _SCALARS:
        setattr(proto, _SCALARS[kind], value)
    elif kind in _LISTS:
        getattr(proto, _LISTS[kind]).extend(value)
    elif kind == AttributeType.TENSOR:
        _put_tensor(proto.t, value)
    elif kind == AttributeType.TENSORS:
        for tensor in value:
            _put_tensor(proto.tensors.add(), tensor)
    elif kind == AttributeType.GRAPH:
        _put_graph(proto.g, value)
    elif kind == AttributeType.GRAPHS:
        for graph in value:
            _put_graph(proto.graphs.add(), graph)
    else:
        serde.serialize_attribute_into(proto, attribute)
        return
    proto.name = attribute.name
    proto.type = kind.value  # pyright: ignore[reportAttributeAccessIssue]  # the number of the enumeration
    if attribute.doc_string:
        proto.doc_string = attribute.doc_string


def _put_tensor(proto: TensorProto, tensor: onnx_ir.TensorProtocol) -> None:
    if type(tensor) is serde.TensorProtoTensor and not tensor.metadata_props:
        raw = tensor.raw
        if raw.data_type not in _CHECKED:
            proto.CopyFrom(raw)
            return
    serde.serialize_tensor_into(proto, tensor)
    if len(proto.metadata_props) > 1:  # onnx_ir writes them twice
        entries = {entry.key: entry.value for entry in proto.metadata_props}
        del proto.metadata_props[:]
        for key, value in entries.items():
            proto.metadata_props.add(key=key, value=value)


def _is_described(value: onnx_ir.Value) -> bool:
    """True if there is more to say about the value than its name."""
    more = value.type is not None or value.shape is not None or value._metadata_props or value.doc_string  # pyright: ignore[reportPrivateUsage]
    return bool(more and value.name)


def _put_value(proto: onnx.ValueInfoProto, value: onnx_ir.Value) -> None:
    proto.name = value.name  # pyright: ignore[reportAttributeAccessIssue]  # protobuf raises TypeError for no name
    kind, shape = value.type, value.shape
    if isinstance(kind, onnx_ir.TensorType):
        if kind.denotation:
            proto.type.denotation = kind.denotation
        tensor = proto.type.tensor_type
        tensor.elem_type = kind.dtype.value
        if shape is not None:
            _put_shape(tensor.shape, shape)
    else:
        if kind is not None:
            serde.serialize_type_into(proto.type, kind)
        if shape is not None:
            serde.serialize_shape_into(proto.type, shape)
    if value.metadata_props:
        _put_metadata(proto, value.metadata_props)
    if value.doc_string:
        proto.doc_string = value.doc_string


def _put_shape(proto: onnx.TensorShapeProto, shape: onnx_ir.Shape) -> None:
    proto.SetInParent()  # the shape of a scalar has no dimensions
    for index, size in enumerate(shape):
        dim, denotation = proto.dim.add(), shape.get_denotation(index)
        if denotation:
            dim.denotation = denotation
        if isinstance(size, int):
            dim.dim_value = size
        elif size.value is not None:
            dim.dim_param = str(size.value)


def _put_texts(proto: Any, part: onnx_ir.Model | onnx_ir.Function | onnx_ir.Graph, names: Iterable[str]) -> None:
    """Write those of these fields that say something, and the metadata."""
    for name in names:
        value = getattr(part, name)
        if value:
            setattr(proto, name, value)
    _put_metadata(proto, part.metadata_props)


def _put_metadata(proto: Any, entries: Mapping[str, str]) -> None:
    for key in sorted(entries):
        proto.metadata_props.add(key=key, value=entries[key])
