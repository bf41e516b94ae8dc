"""The check of a protobuf model before onnx_ir reads it: what onnx_ir would lose or fail on is refused.

One walk through all messages looks for texts that are not UTF-8, and at what the kind of each message requires: tensors
hold as much data as their types and shapes say, attributes hold one value of their type, names are unique, types and
versions are known. Whether nodes fit their schemas is checked afterwards, by `castsmith.ir.validation`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx.helper
import onnx_ir
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES
from castsmith.ir.records import Flaw, Site
from castsmith.numerics.types import ELEMENT_TYPES, MOST_DIMENSIONS, fits_array

_MOST = 2**31 - 1
"""The largest supported version of an operator set or of the IR."""

_FIRST_WITH_DEVICES = 11
"""The IR version from which models name devices."""

_MOST_BYTES = 2**63 - 1

_TO_COPY = 1 << 26
"""Size in bytes up to which a model is copied to look for unknown fields."""

VALUE_FIELDS = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "sparse_tensor": AttributeProto.SPARSE_TENSOR,
    "tp": AttributeProto.TYPE_PROTO,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
    "sparse_tensors": AttributeProto.SPARSE_TENSORS,
    "type_protos": AttributeProto.TYPE_PROTOS,
}
"""The fields of an attribute that hold its value, with the type of each."""

_NEEDED = {AttributeProto.TENSOR, AttributeProto.GRAPH, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO}
"""The types of attributes whose value is a message, which has no default."""

_DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_TEXT, _MESSAGE = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE

Path = tuple[Message, ...]
"""The messages around one, the model first."""


@dataclass
class Survey:
    """Parts of a proto that need a second look, as the walk found them.

    Attributes:
        flaws: Takes what is unsupported, if the model is to be read all the same.
        sparse: True if there are sparse initializers, or sparse tensors in attributes.
        repeats: The sentence on two nodes of one graph that give values of the same name; empty if there are none.
        untyped: The attributes that hold a value but do not state its type.
        referring: The attributes in no function that hold a value, and refer to a parameter as well.
        types: The types of values and in attributes.
        written: What is written as some runtimes do not read it, by the name that their files give to that.
    """

    flaws: list[Flaw] | None = None
    sparse: bool = False
    repeats: str = ""
    untyped: list[AttributeProto] = field(default_factory=list[AttributeProto])
    referring: list[AttributeProto] = field(default_factory=list[AttributeProto])
    types: list[onnx.TypeProto] = field(default_factory=list[onnx.TypeProto])
    written: dict[str, str] = field(default_factory=dict[str, str])


def require_readable(proto: onnx.ModelProto, flaws: list[Flaw] | None = None) -> Survey:
    """Return what else the proto needs before it is read, found in the same walk.

    flaws: Takes each thing that is unsupported; the first is then raised at the end.

    Raises:
        ModelError: Something is unsupported; the message names the place but not the file.
    """
    survey, earlier = Survey(flaws=flaws), len(flaws or ())
    _walk(proto, (), survey)
    if flaws and len(flaws) > earlier:
        raise ModelError(f"{flaws[earlier].text}.")
    _require_known_fields(proto)
    return survey


def type_of_attribute(attribute: AttributeProto) -> AttributeProto.AttributeType | None:
    """Return the type of an attribute that states none, as in models of IR version 1: that of the value it holds."""
    held = _held(attribute)
    return VALUE_FIELDS[held[0]] if len(held) == 1 else None


def _walk(message: Message, around: Path, survey: Survey) -> None:
    name = message.DESCRIPTOR.name
    check = _CHECKS.get(name)
    fault = check(message, around, survey) if check is not None else None
    if fault:
        text = f"{_place(message, around)}{fault}"
        if survey.flaws is None or (isinstance(message, TensorProto) and message.data_location == TensorProto.EXTERNAL):
            raise ModelError(f"{text}.")
        survey.flaws.append(Flaw(_site(message, around), text))
    inside = (*around, message)
    for descriptor, value in message.ListFields():
        if descriptor.type == _TEXT:
            texts = (value,) if isinstance(value, str | bytes) else value
            if bytes in map(type, texts):
                wrong = next(text for text in texts if isinstance(text, bytes))
                raise ModelError(f"{_place(message, around)}: the {descriptor.name} {wrong!r} is not UTF-8.")
        elif descriptor.type == _MESSAGE:
            for inner in (value,) if isinstance(value, Message) else value:
                _walk(inner, inside, survey)


def _place(message: Message, around: Path) -> str:
    """Return where the message is, in words: `graph 'g': n (Add): tensor 'w'`."""
    parts = list[str]()
    for part in (*around, message):
        if isinstance(part, onnx.ModelProto):
            parts = ["the model"]
        elif isinstance(part, onnx.GraphProto | onnx.FunctionProto):
            parts = [f"{'graph' if isinstance(part, onnx.GraphProto) else 'function'} {part.name!r}"]
        elif isinstance(part, onnx.NodeProto):
            parts = [*parts[:1], f"{part.name or next(filter(None, part.output), '(unnamed)')} ({part.op_type})"]
        elif isinstance(part, onnx.SparseTensorProto):
            parts.append(f"sparse tensor {part.values.name!r}")
        elif isinstance(part, TensorProto):
            parts.append(f"tensor {part.name!r}")
        elif isinstance(part, onnx.ValueInfoProto):
            parts.append(f"value {part.name!r}")
    return ": ".join(parts)


def _site(message: Message, around: Path) -> Site:
    """Return the node, or else the graph or function, that the message is or is in."""
    scope, node = "", None
    for part in (*around, message):
        if isinstance(part, onnx.GraphProto | onnx.FunctionProto):
            scope, node = part.name, None
        elif isinstance(part, onnx.NodeProto):
            node = part
    if node is None:
        return Site(scope)
    return Site(scope, node.name, node.op_type, next(filter(None, node.output), ""))


# What each kind of message requires. A check returns what is wrong, to be put behind the place, or nothing.


def _model(model: onnx.ModelProto, _around: Path, _survey: Survey) -> str | None:
    if not 0 < model.ir_version <= _MOST:
        return f": unsupported IR version {model.ir_version}"
    if model.configuration and model.ir_version < _FIRST_WITH_DEVICES:
        return (
            f" holds device configurations, but is of IR version {model.ir_version}; IR version {_FIRST_WITH_DEVICES}"
            " is the first with them"
        )
    names = ((f.domain, f.name, f.overload) for f in model.functions)
    return _imports(model.opset_import) or _twice(names, "functions have the name") or _metadata(model)


def _imports(entries: Iterable[onnx.OperatorSetIdProto]) -> str | None:
    """Of several entries of one name, all runtimes use the last; of the two names of one domain, they differ."""
    versions = {entry.domain: entry.version for entry in entries}
    for domain, version in versions.items():
        if not 0 <= version <= _MOST:
            return f": invalid opset {version} of the domain {domain or 'ai.onnx'!r}"
    standard = {versions[domain] for domain in DEFAULT_DOMAINS if domain in versions}
    if len(standard) > 1:
        imported = " and ".join(f"{versions[domain]} as {domain!r}" for domain in versions if domain in DEFAULT_DOMAINS)
        return f" imports two opsets of the standard domain, {imported}: remove the one that its operators do not use"
    return None


def _function(function: onnx.FunctionProto, around: Path, survey: Survey) -> str | None:
    parameters = (*function.attribute, *(parameter.name for parameter in function.attribute_proto))
    return (
        _imports(function.opset_import)
        or _twice(parameters, "attributes have the name")
        or _names(function.input, "input")
        or _results(function, around, function.input, survey)
        or _defined(function.output, {*function.input, *(name for node in function.node for name in node.output)})
        or _metadata(function)
    )


def _graph(graph: onnx.GraphProto, around: Path, survey: Survey) -> str | None:
    for sparse in graph.sparse_initializer:
        survey.sparse = True
        survey.written.setdefault("sparse-initializers", f"the sparse initializer {sparse.values.name!r}")
    initializers = [tensor.name for tensor in graph.initializer]
    if len(around) == 1:  # of the main graph: those of one kind are looked at again
        kinds = {(tensor.name, tensor.data_type, *tensor.dims) for tensor in graph.initializer}
        if len(kinds) < len(initializers):
            survey.repeats = survey.repeats or f"{_place(graph, around)}: two initializers have one name: rename one."
        initializers = [str(name) for name, *_ in kinds]
    initializers += [tensor.values.name for tensor in graph.sparse_initializer]
    inputs = [value.name for value in graph.input]
    return (
        _names(inputs, "input")
        or _names(initializers, "initializer")
        or _results(graph, around, {*inputs, *initializers}, survey)
        or _metadata(graph)
    )


def _names(names: Sequence[str], what: str) -> str | None:
    if "" in names:
        return f" has an {what} without a name"
    return _twice(names, f"{what}s have the name")


def _results(
    scope: onnx.GraphProto | onnx.FunctionProto, around: Path, reserved: Iterable[str], survey: Survey
) -> str | None:
    """Nodes that give what others give are looked at again: they may be repetitions."""
    names = [name for node in scope.node for name in node.output if name]
    defined = set(names)
    if len(defined) < len(names) and not survey.repeats:
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        survey.repeats = f"{_place(scope, around)}: two nodes give the value {repeated!r}: rename one of them."
    clash = defined.intersection(reserved)
    return f": a node gives the value {min(clash)!r}, which is an input or initializer: rename one" if clash else None


def _defined(names: Iterable[str], defined: set[str]) -> str | None:
    missing = next((name for name in names if name not in defined or not name), None)
    return None if missing is None else f" does not define its output {missing!r}"


def _node(node: onnx.NodeProto, around: Path, survey: Survey) -> str | None:
    if node.domain == DEFAULT_DOMAINS[1]:
        is_inside = len(around) > 2 or any(isinstance(message, onnx.FunctionProto) for message in around)
        for name in ("spelled-domain", *(("spelled-domain-inside",) if is_inside else ())):
            survey.written.setdefault(name, f"a node of domain {node.domain}: {node.op_type}")
    if len(node.attribute) > 1:
        fault = _twice((attribute.name for attribute in node.attribute), "attributes have the name")
        if fault:
            return fault
    if node.device_configurations and not all(
        configuration.configuration_id and all(spec.tensor_name for spec in configuration.sharding_spec)
        for configuration in node.device_configurations
    ):
        return ": a device configuration names no configuration, or no tensor"
    return _metadata(node)


def _attribute(attribute: AttributeProto, around: Path, survey: Survey) -> str | None:
    kind, held, name = attribute.type, _held(attribute), attribute.name
    if not name:
        return ": an attribute has no name"
    if attribute.ref_attr_name:
        in_function = isinstance(around[-1], onnx.NodeProto) and any(isinstance(a, onnx.FunctionProto) for a in around)
        refers = f": the attribute {name!r} refers to the parameter {attribute.ref_attr_name!r} of a function"
        if held and in_function:
            return f"{refers}, and has a value as well: remove one of them"
        if not held and not in_function:
            return f"{refers}, but is in none: give it a value"
        if in_function:
            return None if kind else f": the attribute {name!r} states no type"
        survey.referring.append(attribute)
    if not kind:
        if len(held) != 1:
            return f": the attribute {name!r} states no type"
        survey.untyped.append(attribute)
        kind = VALUE_FIELDS[held[0]]
    survey.sparse |= kind in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS)
    if any(VALUE_FIELDS[field_name] != kind for field_name in held):
        return f": the attribute {name!r} is of type {AttributeProto.AttributeType.Name(kind)}, but holds another value"
    if kind in _NEEDED and not held:
        return f": the attribute {name!r} is of type {AttributeProto.AttributeType.Name(kind)}, but holds none"
    return None


def _held(attribute: AttributeProto) -> list[str]:
    """Return the fields of the attribute that hold a value."""
    return [descriptor.name for descriptor, _ in attribute.ListFields() if descriptor.name in VALUE_FIELDS]


def fault_of_tensor(tensor: TensorProto) -> str | None:
    """Return what keeps the tensor from being read, as the end of a sentence that begins with its name."""
    if tensor.data_type not in NUMBERS_OF_TYPES or not tensor.data_type:
        return f" has the unknown element type {tensor.data_type}"
    if tensor.HasField("segment"):
        return " is a segment of a tensor, which is not supported: store it as a whole"
    fault = _dims(tensor.dims) or _metadata(tensor)
    if fault or tensor.data_location == TensorProto.EXTERNAL:
        return fault or _entries(tensor)
    return _data(tensor)


def _data(tensor: TensorProto) -> str | None:
    """onnx_ir would read a tensor without any data as zeros."""
    count, dtype = math.prod(tensor.dims), onnx_ir.DataType(tensor.data_type)
    raw = tensor.HasField("raw_data")
    if raw and dtype == onnx_ir.DataType.STRING:
        return " keeps strings as raw data, which ONNX does not allow"
    if raw and len(tensor.raw_data) != math.ceil(count * dtype.itemsize):
        return f" needs {math.ceil(count * dtype.itemsize)} bytes for its shape, but holds {len(tensor.raw_data)}"
    bits = ELEMENT_TYPES[dtype].bits if dtype in ELEMENT_TYPES else None
    if dtype in (onnx_ir.DataType.COMPLEX64, onnx_ir.DataType.COMPLEX128):
        count *= 2
    elif bits in (2, 4):
        count = math.ceil(count * bits / 8)
    own = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    for name in _DATA_FIELDS:
        needed, has = count if name == own and not raw else 0, len(getattr(tensor, name))
        if has != needed:
            return f" needs {needed} entries in {name} for its type and shape, but holds {has}"
    return _codes(tensor) if bits == 6 else None


def _codes(tensor: TensorProto) -> str | None:
    try:
        onnx_ir.from_proto(tensor).tobytes()
    except ValueError:
        return f" holds codes that {onnx_ir.DataType(tensor.data_type).name} does not have"
    return None


def _entries(tensor: TensorProto) -> str | None:
    """Check what the tensor says of its data file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if not entries.get("location"):
        return " is external data, but names no file"
    for key in ("offset", "length"):
        text = entries.get(key, "0")
        if not (text.isascii() and text.isdecimal() and int(text) <= _MOST_BYTES):
            return f" has the invalid {key} {text!r}; expected a number of bytes"
    return None


def _sparse(tensor: onnx.SparseTensorProto, _around: Path, _survey: Survey) -> str | None:
    count = math.prod(tensor.values.dims)
    if tensor.indices.data_type != TensorProto.INT64:
        return " has indices that are not int64"
    if len(tensor.values.dims) != 1 or list(tensor.indices.dims) not in ([count], [count, len(tensor.dims)]):
        return " has indices whose shape does not fit its values"
    return _dims(tensor.dims)


def _type(kind: onnx.TypeProto, around: Path, survey: Survey) -> str | None:
    if isinstance(around[-1], onnx.ValueInfoProto | AttributeProto) and not isinstance(around[1], _NOT_READ):
        survey.types.append(kind)
    if kind.WhichOneof("value") in ("tensor_type", "sparse_tensor_type"):
        tensor = kind.tensor_type if kind.HasField("tensor_type") else kind.sparse_tensor_type
        if tensor.elem_type not in NUMBERS_OF_TYPES:
            return f" has the unknown element type {tensor.elem_type}"
        sizes = [dim.dim_value for dim in tensor.shape.dim if dim.dim_value > 0]
        return _dims(sizes) if len(sizes) > 1 else None
    return None


_NOT_READ = onnx.TrainingInfoProto
"""The part of a model that onnx_ir does not read."""


def _dims(dims: Iterable[int]) -> str | None:
    sizes = list(dims)
    if any(size < 0 for size in sizes):
        return " has a negative dimension"
    if len(sizes) > MOST_DIMENSIONS:
        return f" has {len(sizes)} dimensions; at most {MOST_DIMENSIONS} are supported"
    if not fits_array(sizes):
        return f" has dimensions that are too large: {sizes}"
    return None


def _metadata(message: Any) -> str | None:
    entries: Sequence[onnx.StringStringEntryProto] = message.metadata_props
    return _twice((entry.key for entry in entries), "entries of metadata have the key") if len(entries) > 1 else None


def _twice(names: Iterable[object], what: str) -> str | None:
    counts = Counter(names)
    if len(counts) == counts.total():
        return None
    repeated = next(name for name, count in counts.items() if count > 1)
    return f": two {what} {repeated!r}, and only one of them could be kept"


_CHECKS: dict[str, Callable[[Any, Path, Survey], str | None]] = {
    "ModelProto": _model,
    "FunctionProto": _function,
    "GraphProto": _graph,
    "NodeProto": _node,
    "AttributeProto": _attribute,
    "TensorProto": lambda tensor, _around, _survey: fault_of_tensor(tensor),
    "SparseTensorProto": _sparse,
    "TypeProto": _type,
}


def _require_known_fields(proto: onnx.ModelProto) -> None:
    """Raise ModelError for fields that the installed onnx does not define, unless the model is too large to copy."""
    size = proto.ByteSize()
    if size > _TO_COPY:
        return
    understood = onnx.ModelProto()
    understood.CopyFrom(proto)
    understood.DiscardUnknownFields()  # pyright: ignore[reportAttributeAccessIssue]
    lost = size - understood.ByteSize()
    if lost:
        raise ModelError(
            f"the model holds {lost} bytes of fields that onnx {onnx.__version__} does not support: install a newer"
            " onnx."
        )
