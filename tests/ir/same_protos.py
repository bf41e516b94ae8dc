"""Equality of two protos except for parts to which ONNX gives no meaning.

No meaning have: whether a field at its default is written, the order of value_info, metadata, imports and annotations,
nodes out of order, empty names at the end of a node's outputs, types and annotations of values that are not there, and
all but the last of several imports of a domain (runtimes take the last).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.message import Message

_UNORDERED = ("metadata_props", "external_data", "quant_parameter_tensor_names", "quantization_annotation")


def normal_form(proto: onnx.ModelProto) -> bytes:
    """The model without what has no meaning, as bytes: messages that hold a NaN are unlike themselves in protobuf 4."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for scope in (copy, *copy.functions):
        imports = {entry.domain: entry.version for entry in scope.opset_import}
        del scope.opset_import[:]
        for domain in sorted(imports):
            scope.opset_import.add(domain=domain, version=imports[domain])
    _normalise(copy)
    return copy.SerializeToString(deterministic=True)


def _normalise(message: Message) -> None:
    for field, value in message.ListFields():
        if (
            field.name in ("name", "doc_string", "domain", "producer_name", "producer_version", "model_version")
            and not value
        ):
            message.ClearField(field.name)
        elif isinstance(value, Message):
            _normalise(value)
        elif field.message_type is not None:
            for each in value:
                _normalise(each)
    if isinstance(message, onnx.ValueInfoProto) and message.type == onnx.TypeProto():
        message.ClearField("type")
    if isinstance(message, onnx.NodeProto) and message.domain == "ai.onnx":
        message.ClearField("domain")
    if isinstance(message, onnx.GraphProto):
        _normalise_graph(message)
    if isinstance(message, onnx.FunctionProto):
        given = {*message.input, *(name for node in message.node for name in node.output)}
        kept = [info for info in message.value_info if info.name in given]
        del message.value_info[:]
        message.value_info.extend(kept)
        _sort(message, "value_info")
    if isinstance(message, onnx.NodeProto):
        while message.output and not message.output[-1]:
            message.output.pop()
    for name in _UNORDERED:
        if name in message.DESCRIPTOR.fields_by_name:
            _sort(message, name)


def _normalise_graph(graph: onnx.GraphProto) -> None:
    ports = {value.name for value in (*graph.input, *graph.output)}
    given = set(_given(graph))
    kept = {info.name: info for info in graph.value_info if info.name in given - ports}
    del graph.value_info[:]
    graph.value_info.extend(info for info in kept.values() if info != onnx.ValueInfoProto(name=info.name))
    annotated = [each for each in graph.quantization_annotation if each.tensor_name in given | ports]
    del graph.quantization_annotation[:]
    graph.quantization_annotation.extend(annotated)
    _sort(graph, "value_info")
    _sort(graph, "node")


def _given(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from node.output


def _sort(message: Message, name: str) -> None:
    field = getattr(message, name)
    ordered = sorted((each.SerializeToString(deterministic=True), index) for index, each in enumerate(field))
    values = [type(field[index]).FromString(data) for data, index in ordered]
    del field[:]
    field.extend(values)
