"""Writing a model file whose weights are copied into it as ranges and in pieces, never whole in memory.

The protobuf message is the usual one; only who writes the bytes of the weights differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

import onnx
import onnx_ir

from castsmith.ir.pieces import write_tensor
from castsmith.ir.wire import length_delimited

_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


def write_model(out: IO[bytes], proto: onnx.ModelProto, weights: Mapping[str, onnx_ir.TensorProtocol]) -> None:
    """Write `proto`, in which the initializers of the main graph named in `weights` still lack their data.

    Takes the proto apart. The caller sees to it that all is below 2 GiB.
    """
    heads = [(tensor.SerializeToString(), weights.get(tensor.name)) for tensor in proto.graph.initializer]
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    initializers = [(_frame(head, weight), weight) for head, weight in heads]
    length = len(graph) + sum(len(frame) + (0 if weight is None else weight.nbytes) for frame, weight in initializers)
    first = _taken_before_graph(proto)
    out.write(first.SerializeToString() + length_delimited(_GRAPH, length) + graph)
    for frame, weight in initializers:
        out.write(frame)
        if weight is not None:
            write_tensor(weight, out)
    out.write(proto.SerializeToString())


def _taken_before_graph(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Take the fields that stand before the graph out of `proto`.

    The fields of a message may come in any order, but OpenVINO looks at the first three of a file, and does not
    recognise one in which two opset imports are among them.
    """
    first = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.number < _GRAPH:
            setattr(first, field.name, value)
            proto.ClearField(field.name)
    return first


def _frame(head: bytes, weight: onnx_ir.TensorProtocol | None) -> bytes:
    """An initializer as it stands in a graph, up to where the bytes of its weight begin."""
    content, size = head, 0
    if weight is not None:
        size = weight.nbytes
        content += length_delimited(_RAW_DATA, size)
    return length_delimited(_INITIALIZER, len(content) + size) + content
