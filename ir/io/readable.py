"""Checks before onnx_ir reads a model: anything that it would silently lose, or fail on, is refused.

Two entries of one name of which one would win, attributes of unknown type, fields that the installed onnx does not
define, and tensors whose type, dimensions or data file are invalid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx
from google.protobuf.message import Message

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES
from castsmith.numerics.types import MOST_DIMENSIONS

_MOST = 2**31 - 1
"""The largest supported version of an operator set or of the IR."""

FIRST_WITH_DEVICES = 11
FIRST_WITH_FUNCTION_INFO = 10
"""The IR versions from which models name devices, and functions have a value_info; before, it may be in the graph's."""

_MOST_BYTES = 2**63 - 1
_WIDEST = 16

_TO_COPY = 1 << 26
"""Size in bytes up to which a model is copied to look for unknown fields."""

VALUE_FIELDS = {
    "f": onnx.AttributeProto.FLOAT,
    "i": onnx.AttributeProto.INT,
    "s": onnx.AttributeProto.STRING,
    "t": onnx.AttributeProto.TENSOR,
    "g": onnx.AttributeProto.GRAPH,
    "sparse_tensor": onnx.AttributeProto.SPARSE_TENSOR,
    "tp": onnx.AttributeProto.TYPE_PROTO,
    "floats": onnx.AttributeProto.FLOATS,
    "ints": onnx.AttributeProto.INTS,
    "strings": onnx.AttributeProto.STRINGS,
    "tensors": onnx.AttributeProto.TENSORS,
    "graphs": onnx.AttributeProto.GRAPHS,
    "sparse_tensors": onnx.AttributeProto.SPARSE_TENSORS,
    "type_protos": onnx.AttributeProto.TYPE_PROTOS,
}
"""The fields of an attribute that hold its value, with the type of each."""


@dataclass
class Survey:
    """Parts of a proto that need a second look, as one walk found them.

    Attributes:
        sparse: True if there are sparse initializers, or sparse tensors in attributes.
        repeats: True if two nodes of one graph give values of the same name.
        untyped: The attributes that hold a value but do not state its type.
        types: The types of values and in attributes.
    """

    sparse: bool = False
    repeats: bool = False
    untyped: list[onnx.AttributeProto] = field(default_factory=list[onnx.AttributeProto])
    types: list[onnx.TypeProto] = field(default_factory=list[onnx.TypeProto])

    def values(self, values: Iterable[onnx.ValueInfoProto]) -> None:
        """Note the types of the values."""
        self.types += [value.type for value in values if value.HasField("type")]


def require_readable(proto: onnx.ModelProto) -> Survey:
    """Return what else the proto needs before it is read, found in the same walk.

    Raises:
        ModelError: Something is unsupported; the message names the place but not the file.
    """
    survey = Survey()
    require_readable_header(proto)
    for function in proto.functions:
        names = (*function.attribute, *(each.name for each in function.attribute_proto))
        where = f"function {function.name!r}"
        _require_unique(names, "two attributes have the name", where)
        _require_attributes(function.attribute_proto, where, survey)
        _require_nodes(function.node, where, survey)
        survey.values(function.value_info)
    _require_graph(proto.graph, survey)
    require_known_fields(proto)
    return survey


def require_readable_header(proto: onnx.ModelProto) -> None:
    """Raise ModelError, as `require_readable`, for what the model states besides its graph and functions' bodies."""
    if not 0 < proto.ir_version <= _MOST:
        raise ModelError(f"unsupported IR version {proto.ir_version}.")
    if proto.configuration and proto.ir_version < FIRST_WITH_DEVICES:
        known = f"IR version {FIRST_WITH_DEVICES} is the first with them"
        raise ModelError(f"it holds device configurations, but is of IR version {proto.ir_version}; {known}.")
    for scope in (proto, *proto.functions):
        for entry in scope.opset_import:
            if not 0 <= entry.version <= _MOST:
                raise ModelError(f"invalid opset {entry.version} of the domain {entry.domain or 'ai.onnx'!r}.")
    _require_unique(((f.domain, f.name, f.overload) for f in proto.functions), "two functions have the name", "model")
    _require_metadata(proto, "the model")


def type_of_attribute(attribute: onnx.AttributeProto) -> onnx.AttributeProto.AttributeType | None:
    """Return the type of an attribute that states none, as in models of IR version 1: that of the value it holds."""
    found = [VALUE_FIELDS[field.name] for field, _ in attribute.ListFields() if field.name in VALUE_FIELDS]
    return found[0] if len(found) == 1 else None


def _require_graph(graph: onnx.GraphProto, survey: Survey) -> None:
    place = f"graph {graph.name!r}"
    named = (*(each.name for each in graph.initializer), *(each.values.name for each in graph.sparse_initializer))
    _require_unique(named, "two initializers have the name", place)
    _require_metadata(graph, place)
    for tensor in graph.initializer:
        _require_tensor(tensor, place)
    for sparse in graph.sparse_initializer:
        survey.sparse = True
        _require_sparse(sparse, place)
    _require_nodes(graph.node, place, survey)
    for values in (graph.input, graph.output, graph.value_info):
        survey.values(values)


def _require_nodes(nodes: Iterable[onnx.NodeProto], place: str, survey: Survey) -> None:
    given: set[str] = set()
    count = 0
    for node in nodes:
        attributes, outputs = node.attribute, node.output
        if attributes or node.metadata_props:
            where = f"{place}: {node.name or next(filter(None, outputs), '(unnamed)')} ({node.op_type})"
            if len(attributes) > 1:
                _require_unique((each.name for each in attributes), "two attributes have the name", where)
            _require_metadata(node, where)
            _require_attributes(attributes, where, survey)
        count += len(outputs)
        given.update(outputs)
    # Absent outputs share the empty name, which is a reason to look again, no more.
    survey.repeats |= len(given) < count


def _require_attributes(attributes: Iterable[onnx.AttributeProto], where: str, survey: Survey) -> None:
    for attribute in attributes:
        kind = attribute.type
        if kind in WITHOUT_MESSAGES:
            continue
        if not kind and not attribute.ref_attr_name:
            if type_of_attribute(attribute) is None:
                raise ModelError(f"{where}: the attribute {attribute.name!r} states no type.")
            survey.untyped.append(attribute)
        if kind == onnx.AttributeProto.TENSOR and not (attribute.HasField("t") or attribute.ref_attr_name):
            raise ModelError(f"{where}: the attribute {attribute.name!r} is of type TENSOR, but holds none.")
        for tensor in (*((attribute.t,) if attribute.HasField("t") else ()), *attribute.tensors):
            _require_tensor(tensor, where)
        sparse = (attribute.sparse_tensor,) if attribute.HasField("sparse_tensor") else ()
        for each in (*sparse, *attribute.sparse_tensors):
            survey.sparse = True
            _require_sparse(each, where)
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            _require_graph(graph, survey)
        survey.types += [*((attribute.tp,) if attribute.HasField("tp") else ()), *attribute.type_protos]


WITHOUT_MESSAGES = frozenset(VALUE_FIELDS[name] for name in ("f", "i", "s", "floats", "ints", "strings"))
"""The types of attributes that hold no message; one that is in such an attribute anyway is not read."""


def _require_tensor(tensor: onnx.TensorProto, place: str) -> None:
    fault = fault_of(tensor)
    if fault:
        raise ModelError(f"{place}: tensor {tensor.name!r}{fault}.")


def fault_of(tensor: onnx.TensorProto) -> str:
    """Return what is wrong with the tensor, to be put behind its name; empty if nothing is."""
    if tensor.data_type not in NUMBERS_OF_TYPES or not tensor.data_type:
        return f" has the unknown element type {tensor.data_type}"
    fault = _fault_of_dims(tensor.dims) or _fault_of_metadata(tensor)
    if fault or not tensor.data_location:
        return fault
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return f" has the unknown data location {tensor.data_location}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if not entries.get("location"):
        return " is external data, but names no file"
    for key in ("offset", "length"):
        text = entries.get(key, "0")
        if not (text.isascii() and text.isdecimal() and int(text) <= _MOST_BYTES):
            return f" has the invalid {key} {text!r}; expected a number of bytes"
    return ""


def _require_sparse(tensor: onnx.SparseTensorProto, place: str) -> None:
    _require_tensor(tensor.values, f"{place}: values of the sparse")
    _require_tensor(tensor.indices, f"{place}: indices of the sparse")
    where = f"{place}: sparse tensor {tensor.values.name!r}"
    _require_dims(tensor.dims, where)
    count = math.prod(tensor.values.dims)
    if tensor.indices.data_type != onnx.TensorProto.INT64:
        raise ModelError(f"{where} has indices that are not int64.")
    if len(tensor.values.dims) != 1 or list(tensor.indices.dims) not in ([count], [count, len(tensor.dims)]):
        raise ModelError(f"{where} has indices whose shape does not fit its values.")


def _require_dims(dims: Sequence[int], where: str) -> None:
    fault = _fault_of_dims(dims)
    if fault:
        raise ModelError(f"{where}{fault}.")


def _fault_of_dims(dims: Sequence[int]) -> str:
    sizes = list(dims)
    if any(size < 0 for size in sizes):
        return " has a negative dimension"
    if len(sizes) > MOST_DIMENSIONS:
        return f" has {len(sizes)} dimensions; at most {MOST_DIMENSIONS} are supported"
    if math.prod(size for size in sizes if size) * _WIDEST > _MOST_BYTES:
        return f" has dimensions that are too large: {sizes}"
    return ""


def _require_metadata(message: Message, where: str) -> None:
    fault = _fault_of_metadata(message)
    if fault:
        raise ModelError(f"{where}{fault}.")


def _fault_of_metadata(message: Message) -> str:
    entries: Sequence[onnx.StringStringEntryProto] = getattr(message, "metadata_props", ())
    twice = _twice(entry.key for entry in entries) if len(entries) > 1 else None
    return "" if twice is None else f": two entries of metadata have the key {twice!r}, {_ONE_WOULD_WIN}"


def _require_unique(names: Iterable[object], what: str, where: str) -> None:
    twice = _twice(names)
    if twice is not None:
        raise ModelError(f"{where}: {what} {twice!r}, {_ONE_WOULD_WIN}.")


_ONE_WOULD_WIN = "and only one of them could be kept"


def _twice(names: Iterable[object]) -> object:
    """Return the first of the names that occurs twice; None if all differ."""
    counts = Counter(names)
    return next((name for name, count in counts.items() if count > 1), None) if len(counts) < counts.total() else None


def require_known_fields(proto: onnx.ModelProto) -> None:
    """Raise ModelError for fields that the installed onnx does not define, unless the model is too large to copy."""
    size = proto.ByteSize()
    if size > _TO_COPY:
        return
    known = onnx.ModelProto()
    known.CopyFrom(proto)
    known.DiscardUnknownFields()  # pyright: ignore[reportAttributeAccessIssue]
    lost = size - known.ByteSize()
    if lost:
        raise ModelError(
            f"it holds {lost} bytes of fields that onnx {onnx.__version__} does not support: install a newer onnx."
        )
