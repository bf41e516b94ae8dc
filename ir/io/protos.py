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

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from math import prod
from pathlib import Path

import onnx
import onnx.helper as make
import onnx.printer
import onnx.serialization
import onnx_ir
from google.protobuf.message import Message
from onnx import TensorProto
from onnx_ir import AttributeType

from castsmith.ir.errors import ModelError
from castsmith.ir.io.carried import as_onnx_ir_reads, carry_training, name_types, restore_training, restore_types
from castsmith.ir.io.readable import require_readable
from castsmith.ir.io.wire import messages_of
from castsmith.ir.ops.table import traits_of
from castsmith.ir.records import Flaw, Site
from castsmith.ir.walks import all_tensors, all_values, graphs_in
from castsmith.numerics.errors import CastsmithError

_FIRST_OPSET = 11


def has_sparse(proto: onnx.ModelProto) -> bool:
    """True if the model has a sparse initializer, or a Constant with a sparse value."""
    return any(
        (isinstance(scope, onnx.GraphProto) and scope.sparse_initializer) or any(map(_sparse_value, scope.node))
        for scope in (*proto.functions, *graphs_of_proto(proto))
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
    for graph in graphs_of_proto(copy):
        spelled = [node for tensor in graph.sparse_initializer for node in _nodes(tensor, _name_in(graph, tensor))]
        _replace(graph.node, [*spelled, *graph.node])
        del graph.sparse_initializer[:]
    for nodes in _node_lists(copy):
        if any(_sparse_value(node) is not None for node in nodes):
            spelled = [
                _nodes(value, node.output[0]) if (value := _sparse_value(node)) is not None else [node]
                for node in nodes
            ]
            _replace(nodes, [node for parts in spelled for node in parts])
    return copy


def _nodes(tensor: onnx.SparseTensorProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes that make the dense tensor `name`. One index per element counts in the flattened tensor."""
    zero = TensorProto(data_type=tensor.values.data_type)
    if zero.data_type == TensorProto.STRING:
        zero.string_data.append(b"")
    else:
        zero.raw_data = bytes(
            16 if zero.data_type == TensorProto.COMPLEX128 else make.tensor_dtype_to_np_dtype(zero.data_type).itemsize
        )
    count, flat = tensor.values.dims[0] if tensor.values.dims else 0, len(tensor.indices.dims) == 1
    indices = TensorProto()
    indices.CopyFrom(tensor.indices)
    indices.dims[:] = [count, 1 if flat else len(tensor.dims)]
    shape = [prod(tensor.dims)] if flat else list(tensor.dims)
    parts = {"zero": zero, "shape": _integers(shape), "indices": indices, "values": tensor.values}
    if flat:
        parts["dims"] = _integers(list(tensor.dims))
    nodes = [
        make.make_node("Constant", [], [f"{name}/{part}"], value=tensor_part) for part, tensor_part in parts.items()
    ]
    scattered = f"{name}/flat" if flat else name
    nodes.append(make.make_node("Expand", [f"{name}/zero", f"{name}/shape"], [f"{name}/zeros"]))
    inputs = [f"{name}/zeros", f"{name}/indices", f"{name}/values"]
    nodes.append(make.make_node("ScatterND", inputs, [scattered]))
    if flat:
        nodes.append(make.make_node("Reshape", [scattered, f"{name}/dims"], [name]))
    return nodes


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
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in new]
    del nodes[:]
    nodes.extend(copies)


def _node_lists(proto: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    for graph in graphs_of_proto(proto):
        yield graph.node
    for function in proto.functions:
        yield function.node


def graphs_of_proto(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the main graph and all subgraphs, those of functions included."""
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


def is_model_name(path: Path) -> bool:
    """True if a file of the name is a model."""
    return onnx.serialization.registry.get_format_from_file_extension(path.suffix) is not None


def from_proto(proto: onnx.ModelProto, flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Return the model of the proto; initializers that have a value_info are marked.

    flaws: Takes each thing that is unsupported, besides the first, which is raised.

    Raises:
        ModelError: The proto cannot be read without loss.
    """
    survey, original, repeated = require_readable(proto, flaws), proto, list[str]()
    written = survey.written
    if survey.sparse and has_sparse(proto):
        proto = spelled_out(proto)
    if survey.repeats or proto is not original:
        proto, repeated = without_repeats(proto)
    survey = survey if proto is original else require_readable(proto)
    if survey.repeats:
        if flaws is not None:
            flaws.append(Flaw(Site(proto.graph.name), survey.repeats.rstrip(".")))
        raise ModelError(survey.repeats)
    with as_onnx_ir_reads(survey) as any_carried:
        model = onnx_ir.from_proto(proto)
    if any_carried:
        name_types(all_values(model))
    if repeated:
        model.meta[REPEATED] = repeated
    if written:
        model.meta[WRITTEN] = written
    _keep_input_types(model, proto)
    _complete(model, proto, _parts(model, proto))
    return model


def _keep_input_types(model: onnx_ir.Model, proto: onnx.ModelProto) -> None:
    """Give each input that is an output too its own type, not the one that is declared of the output."""
    outputs = {value.name for value in proto.graph.output}
    for declared, value in zip(proto.graph.input, model.graph.inputs, strict=True):
        if declared.name in outputs:
            own = onnx_ir.serde.deserialize_value_info_proto(declared, None)
            value.type, value.shape = own.type, own.shape


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
WRITTEN = "castsmith.written"
"""The key for what the file writes as some runtimes do not read it, and as no model that castsmith saves does."""


def without_repeats(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return the model without repeated nodes, equal in every part except their names, and the texts of those.

    Converters write a cast again for each node that reads it, under the name of the first. Of Constants of one name,
    and of initializers of one name, type and shape, the last stays: ONNX Runtime uses it for all readers (of those of
    a subgraph it refuses two of one name).
    """
    initializers = _earlier(proto.graph.initializer)
    if not initializers and not any(_repeats(nodes) for nodes in _node_lists(proto)):
        return proto, []
    copy, texts = onnx.ModelProto(), list[str]()
    copy.CopyFrom(proto)
    for nodes in _node_lists(copy):
        repeated = _repeats(nodes)
        texts += [_node_text(nodes[place]) for place in repeated]
        if repeated:
            _replace(nodes, [node for place, node in enumerate(nodes) if place not in repeated])
    texts += [f"initializer {copy.graph.initializer.pop(place).name}" for place in reversed(initializers)]
    return copy, texts


def _earlier(tensors: Sequence[onnx.TensorProto]) -> list[int]:
    """Return the places of initializers of which a later one has the name, the type and the shape."""
    last = {(tensor.name, tensor.data_type, *tensor.dims): place for place, tensor in enumerate(tensors)}
    return sorted({*range(len(tensors))} - {*last.values()})


def _node_text(node: onnx.NodeProto) -> str:
    """Return the node in ONNX text, by way of a graph: onnx 1.21 prints no node alone."""
    text = onnx.printer.to_text(onnx.GraphProto(node=[node]))
    return text[text.index("{\n") + 2 : text.rindex("}")]


def _repeats(nodes: Sequence[onnx.NodeProto]) -> set[int]:
    """Places of nodes that give under the same names what an earlier node gives."""
    makers: dict[str, int] = {}
    repeated: set[int] = set()
    for place, node in enumerate(nodes):
        first = makers.get(node.output[0]) if node.output else None
        if first is not None and node.output[0]:
            content = _content(node)
            if content is not None and content == _content(nodes[first]):
                repeated.add(place)
            elif node.op_type == nodes[first].op_type == "Constant" and not node.domain:
                repeated.add(first)
                makers[node.output[0]] = place
        for name in node.output:
            makers.setdefault(name, place)
    return repeated


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
                attribute_proto = next(
                    candidate for candidate in proto.node[index].attribute if candidate.name == attribute.name
                )
                graph_protos = [attribute_proto.g] if attribute.type == AttributeType.GRAPH else attribute_proto.graphs
                for subgraph, subgraph_proto in zip(graphs, graph_protos, strict=True):
                    yield subgraph, subgraph_proto
                    yield from _held(subgraph, subgraph_proto)


# Back to protobuf.

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
    try:
        proto = onnx_ir.to_proto(model)
    except _CAUSES as error:
        raise ModelError(f"the model cannot be written ({root_cause(error)}).") from None
    for graph, graph_proto in _parts(model, proto):
        _drop_undeclared(graph, graph_proto)
    if any(tensor.metadata_props for tensor in all_tensors(model)):
        for tensor in tensors_of(proto):
            _keep_last_entries(tensor)
    for function in proto.functions:
        function.domain = function.domain or ""  # onnx requires the field, also where it is empty
    restore_types(proto)
    restore_training(model, proto)
    return proto


def _drop_undeclared(graph: onnx_ir.Graph, proto: onnx.GraphProto) -> None:
    """Remove the value_info of initializers that had none in the file."""
    if _OWN not in graph.meta:
        return
    undeclared = {name for name, value in graph.initializers.items() if _DECLARED not in value.meta}
    declared = [value for value in proto.value_info if value.name not in undeclared]
    if len(declared) < len(proto.value_info):
        whole = onnx.GraphProto(value_info=declared)
        del proto.value_info[:]
        proto.value_info.extend(whole.value_info)


def _keep_last_entries(tensor: TensorProto) -> None:
    """Keep one of the two entries of metadata that onnx_ir writes for each that a loaded tensor has."""
    entries = {entry.key: entry.value for entry in tensor.metadata_props}
    del tensor.metadata_props[:]
    for key, value in entries.items():
        tensor.metadata_props.add(key=key, value=value)
