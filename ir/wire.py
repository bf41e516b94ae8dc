"""Stepping over the weights of a model file: the protobuf wire format, as far as that needs it.

A skeleton is the same model in which each large initializer of the main graph names a range of the file in place of
holding the bytes. Reading it costs what the graph costs, and the 2 GiB that protobuf can parse no longer bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import onnx
from google.protobuf.message import DecodeError

Buffer = memoryview

_LENGTH_DELIMITED = 2
_FIXED_SIZES = {1: 8, 5: 4}

_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
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
    """The model in `data` with its initializers of more than `larger_than` bytes as external data in `location`.

    Raises DecodeError for what is no protobuf message.
    """
    return b"".join(_replaced(data, 0, len(data), _GRAPH, 0, lambda field: _graph(data, field, location, larger_than)))


def length_delimited(number: int, length: int) -> bytes:
    """What stands ahead of a field's content: its tag and its length."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(length)


def varint(value: int) -> bytes:
    """The variable-length form of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _graph(data: Buffer, graph: _Field, location: str, larger_than: int) -> bytes:
    def tensor(field: _Field) -> bytes:
        return _tensor(data, field, location, larger_than)

    return b"".join(_replaced(data, graph.content, graph.end, _INITIALIZER, larger_than, tensor))


def _tensor(data: Buffer, tensor: _Field, location: str, larger_than: int) -> bytes:
    fields = list(_fields(data, tensor.content, tensor.end))
    large = [field for field in fields if field.number == _RAW_DATA and field.end - field.content > larger_than]
    if len(large) != 1 or any(field.number == _DATA_LOCATION for field in fields):
        return bytes(data[tensor.content : tensor.end])
    (raw,) = large
    place = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", raw.content), ("length", raw.end - raw.content)):
        place.external_data.add(key=key, value=str(value))
    kept = (bytes(data[field.start : field.end]) for field in fields if field is not raw)
    return b"".join((*kept, place.SerializeToString()))


def _replaced(
    data: Buffer, start: int, end: int, number: int, larger_than: int, make: Callable[[_Field], bytes]
) -> Iterator[bytes]:
    """The message between `start` and `end`, in pieces, with the large fields `number` made anew."""
    copied = start
    for field in _fields(data, start, end):
        if field.number == number and field.wire_type == _LENGTH_DELIMITED and field.end - field.content > larger_than:
            content = make(field)
            yield bytes(data[copied : field.start])
            yield length_delimited(number, len(content))
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
            raise DecodeError("the message is cut short or malformed")
        yield _Field(tag >> 3, wire_type, position, content, content + size)
        position = content + size


def _read_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """The number at `position` and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise DecodeError("the message is cut short or malformed")
