"""Writing a model file whose weights are copied into it as ranges and in pieces, never completely in memory.

The protobuf message is the usual one; only the bytes of the weights are written separately.

A skeleton is the same model in which each large tensor names a range of the file instead of holding the bytes: an
initializer, of a subgraph too, or the tensor of an attribute, as of Constant. Reading it costs what the graph costs,
and the 2 GiB limit of protobuf does not apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import IO, NamedTuple, TypeVar

import onnx
import onnx_ir
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from castsmith.ir.io.streaming import write_tensor

# Search for messages of one kind in a protobuf message, skipping fields that cannot hold any.

Kind = TypeVar("Kind", bound=Message)

_NONE: frozenset[str] = frozenset()


def messages_of(message: Message, kind: type[Kind]) -> Iterator[Kind]:
    """Yield every message of the kind in `message`, itself included, except those within another of the kind."""
    pending = [message]
    while pending:
        current = pending.pop()
        if isinstance(current, kind):
            yield current
            continue
        for field in _towards(current.DESCRIPTOR, kind.DESCRIPTOR, _NONE):
            value = getattr(current, field.name)
            if not isinstance(value, Message):
                pending.extend(value)
            elif current.HasField(field.name):
                pending.append(value)


@cache
def _towards(within: Descriptor, kind: Descriptor, above: frozenset[str]) -> tuple[FieldDescriptor, ...]:
    """Return the fields of a message that may contain one of the kind."""
    above |= {within.full_name}
    return tuple(field for field in within.fields if _may_hold(field.message_type, kind, above))


def _may_hold(descriptor: Descriptor | None, kind: Descriptor, above: frozenset[str]) -> bool:
    if descriptor is None or descriptor is kind:
        return descriptor is kind
    return descriptor.full_name not in above and bool(_towards(descriptor, kind, above))


# The protobuf wire format, as far as skipping the weights of a model file needs it.

Buffer = memoryview

_LENGTH_DELIMITED = 2
_FIXED_SIZES = {1: 8, 5: 4}

_MODEL, _GRAPH, _FUNCTION, _NODE = "model", "graph", "function", "node"
_ATTRIBUTE, _TENSOR = "attribute", "tensor"

_WITHIN = {
    _MODEL: {onnx.ModelProto.GRAPH_FIELD_NUMBER: _GRAPH, onnx.ModelProto.FUNCTIONS_FIELD_NUMBER: _FUNCTION},
    _FUNCTION: {onnx.FunctionProto.NODE_FIELD_NUMBER: _NODE},
    _GRAPH: {onnx.GraphProto.INITIALIZER_FIELD_NUMBER: _TENSOR, onnx.GraphProto.NODE_FIELD_NUMBER: _NODE},
    _NODE: {onnx.NodeProto.ATTRIBUTE_FIELD_NUMBER: _ATTRIBUTE},
    _ATTRIBUTE: {
        onnx.AttributeProto.T_FIELD_NUMBER: _TENSOR,
        onnx.AttributeProto.G_FIELD_NUMBER: _GRAPH,
        onnx.AttributeProto.GRAPHS_FIELD_NUMBER: _GRAPH,
    },
}
"""The fields of each kind of message that can contain a large tensor, and the kind of message in them."""

_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_DATA_LOCATION = onnx.TensorProto.DATA_LOCATION_FIELD_NUMBER


class _Field(NamedTuple):
    """One field: its number and wire type, where its tag begins, where its content begins and ends."""

    number: int
    wire_type: int
    start: int
    content: int
    end: int


def skeleton(data: Buffer, location: str, larger_than: int) -> bytes:
    """Return the model in `data` with initializers of more than `larger_than` bytes as external data in `location`.

    Raises:
        DecodeError: `data` is not a protobuf message.
    """
    return b"".join(_message(data, _MODEL, 0, len(data), location, larger_than))


def length_delimited(number: int, length: int) -> bytes:
    """Return the bytes before a field's content: its tag and its length."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(length)


def varint(value: int) -> bytes:
    """Return the variable-length form of a nonnegative number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tensor(data: Buffer, tensor: _Field, location: str, larger_than: int) -> bytes:
    fields = list(_fields(data, tensor.content, tensor.end))
    large = [field for field in fields if field.number == _RAW_DATA and field.end - field.content > larger_than]
    places = [field for field in fields if field.number == _DATA_LOCATION]
    if len(large) != 1 or any(_read_varint(data, place.content, place.end)[0] for place in places):
        return bytes(data[tensor.content : tensor.end])
    (raw,) = large
    place = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", raw.content), ("length", raw.end - raw.content)):
        place.external_data.add(key=key, value=str(value))
    others = (bytes(data[field.start : field.end]) for field in fields if field is not raw and field not in places)
    return b"".join((*others, place.SerializeToString()))


def _message(data: Buffer, kind: str, start: int, end: int, location: str, larger_than: int) -> Iterator[bytes]:
    """Return the message between `start` and `end` in pieces, with its large tensors replaced."""
    copied, within = start, _WITHIN[kind]
    for field in _fields(data, start, end):
        inner = within.get(field.number)
        if inner is None or field.wire_type != _LENGTH_DELIMITED or field.end - field.content <= larger_than:
            continue
        if inner == _TENSOR:
            content = _tensor(data, field, location, larger_than)
        else:
            content = b"".join(_message(data, inner, field.content, field.end, location, larger_than))
        yield bytes(data[copied : field.start])
        yield length_delimited(field.number, len(content))
        yield content
        copied = field.end
    yield bytes(data[copied:end])


def _fields(data: Buffer, start: int, end: int) -> Iterator[_Field]:
    position = start
    while position < end:
        tag, content = _read_varint(data, position, end)
        wire_type, size = tag & 7, 0
        if wire_type == _LENGTH_DELIMITED:
            size, content = _read_varint(data, content, end)
        elif wire_type == 0:
            size = _read_varint(data, content, end)[1] - content
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        if wire_type not in (0, 1, 2, 5) or content + size > end:
            raise DecodeError("the message is truncated or malformed")
        yield _Field(tag >> 3, wire_type, position, content, content + size)
        position = content + size


def _read_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the number at `position` and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise DecodeError("the message is truncated or malformed")


_MODEL_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_INLINE_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


def write_model(out: IO[bytes], proto: onnx.ModelProto, weights: Mapping[str, onnx_ir.TensorProtocol]) -> int:
    """Write `proto`, in which the initializers of the main graph named in `weights` still lack their data.

    The proto is taken apart. Returns the number of bytes written. The caller ensures that the total is below 2 GiB.
    """
    heads = [(tensor.SerializeToString(), weights.get(tensor.name)) for tensor in proto.graph.initializer]
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    initializers = [(_frame(head, weight), weight) for head, weight in heads]
    length = len(graph) + sum(len(frame) + (0 if weight is None else weight.nbytes) for frame, weight in initializers)
    first = _taken_before_graph(proto)
    head = first.SerializeToString() + length_delimited(_MODEL_GRAPH, length)
    out.write(head + graph)
    for frame, weight in initializers:
        out.write(frame)
        if weight is not None:
            write_tensor(weight, out)
    rest = proto.SerializeToString()
    out.write(rest)
    return len(head) + length + len(rest)


def _taken_before_graph(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Remove the fields that are written before the graph from `proto`, and return them.

    The fields of a message may be in any order, but OpenVINO looks at the first three of a file, and does not
    recognise one in which two opset imports are among them.
    """
    first = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.number < _MODEL_GRAPH:
            setattr(first, field.name, value)
            proto.ClearField(field.name)
    return first


def _frame(head: bytes, weight: onnx_ir.TensorProtocol | None) -> bytes:
    """Return an initializer as it is stored in a graph, up to where the bytes of its weight begin."""
    content, size = head, 0
    if weight is not None:
        size = weight.nbytes
        content += length_delimited(_INLINE_DATA, size)
    return length_delimited(_INITIALIZER, len(content) + size) + content
