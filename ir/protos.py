"""Between onnx_ir and protobuf: what would not come back from a load and a save unless it is remembered.

onnx_ir writes a value_info for every initializer. An initializer says its own type, so files mostly have none; which
did is remembered in the `meta` of their values, and the others are left out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.serialization
import onnx_ir
from google.protobuf.message import Message

from castsmith.ir.carried import as_onnx_ir_reads, carry_training, name_types, restore_training, restore_types
from castsmith.ir.errors import ModelError
from castsmith.ir.messages import messages_of
from castsmith.ir.readable import require_readable
from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.sparse import has_sparse, spelled_out
from castsmith.ir.walks import all_values, graphs_in

_DECLARED = "castsmith.declared"
_OWN = "castsmith.loaded"


def file_format(path: Path) -> str:
    """The format that onnx gives a file by its suffix: protobuf, textproto, json or onnxtxt."""
    return onnx.serialization.registry.get_format_from_file_extension(path.suffix) or "protobuf"


def from_proto(proto: onnx.ModelProto) -> onnx_ir.Model:
    """The model of the proto, remembering which initializers have a value_info.

    Raises ModelError for what cannot be read without loss, and what onnx_ir raises.
    """
    require_readable(proto)
    if has_sparse(proto):
        proto = spelled_out(proto)
    with as_onnx_ir_reads(proto) as any_carried:
        model = onnx_ir.from_proto(proto)
    if any_carried:
        name_types(all_values(model))
    _import_the_last(model, proto)
    carry_training(model, proto)
    for graph, graph_proto in _graphs(model, proto):
        graph.meta[_OWN] = True
        for name in {value.name for value in graph_proto.value_info} & graph.initializers.keys():
            graph.initializers[name].meta[_DECLARED] = True
    return model


def to_proto(model: onnx_ir.Model) -> onnx.ModelProto:
    """The proto of the model, with a value_info only for those initializers that had one.

    Raises ModelError where a text in the model is not UTF-8, as protobuf reads such texts and does not write them.
    """
    try:
        proto = onnx_ir.to_proto(model)
    except onnx_ir.serde.SerdeError as error:
        raise ModelError(f"the model cannot be written ({root_cause(error)}).") from None
    for graph, graph_proto in _graphs(model, proto):
        values = graph.initializers
        # onnx_ir writes the name of the tensor, which a copy of the model may share under another name.
        held = [value for value in values.values() if value.const_value is not None]
        for value, tensor in zip(held, graph_proto.initializer, strict=True):
            tensor.name = value.name or ""
        if _OWN not in graph.meta or not values:
            continue
        kept = [
            info for info in graph_proto.value_info if info.name not in values or _DECLARED in values[info.name].meta
        ]
        del graph_proto.value_info[:]
        graph_proto.value_info.extend(kept)
    for tensor in tensors_of(proto):
        _write_metadata_once(tensor)
    restore_types(proto)
    restore_training(model, proto)
    return proto


def _import_the_last(model: onnx_ir.Model, proto: onnx.ModelProto) -> None:
    """Let the two names of the standard domain have one version: of several imports, runtimes take the last."""
    standard = [entry.version for entry in proto.opset_import if entry.domain in DEFAULT_DOMAINS]
    for domain in model.graph.opset_imports.keys() & set(DEFAULT_DOMAINS):
        model.graph.opset_imports[domain] = standard[-1]


def _write_metadata_once(tensor: onnx.TensorProto) -> None:
    """Undo that onnx_ir writes the metadata of a tensor twice."""
    if len(tensor.metadata_props) > 1:
        entries = {entry.key: entry.value for entry in tensor.metadata_props}
        del tensor.metadata_props[:]
        for key, value in entries.items():
            tensor.metadata_props.add(key=key, value=value)


def tensors_of(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor in the message, at any depth."""
    return messages_of(message, onnx.TensorProto)


def root_cause(error: BaseException) -> str:
    """The first line of what the innermost cause of the error says: onnx_ir wraps each in the place where it met it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _graphs(model: onnx_ir.Model, proto: onnx.ModelProto) -> Iterator[tuple[onnx_ir.Graph, onnx.GraphProto]]:
    """The main graph and all subgraphs, those in functions too, each with its proto."""
    yield model.graph, proto.graph
    yield from _subgraphs(model.graph, proto.graph)
    for function, function_proto in zip(model.functions.values(), proto.functions, strict=True):
        yield from _subgraphs(function, function_proto)


def _subgraphs(
    scope: onnx_ir.Graph | onnx_ir.Function, proto: onnx.GraphProto | onnx.FunctionProto
) -> Iterator[tuple[onnx_ir.Graph, onnx.GraphProto]]:
    for index, node in enumerate(scope):
        held = [attribute for attribute in node.attributes.data.values() if graphs_in(attribute)]
        protos = {attribute.name: attribute for attribute in proto.node[index].attribute} if held else {}
        for attribute in held:
            found = protos[attribute.name]
            both = [found.g] if attribute.type == onnx_ir.AttributeType.GRAPH else found.graphs
            for subgraph, subgraph_proto in zip(graphs_in(attribute), both, strict=True):
                yield subgraph, subgraph_proto
                yield from _subgraphs(subgraph, subgraph_proto)
