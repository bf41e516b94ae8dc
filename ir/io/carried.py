"""Parts of a model that onnx_ir cannot represent, carried through a load and a save unchanged.

Types: onnx_ir has no Map and no Opaque type, and no undefined type inside a sequence. A value of such a type gets
a `CarriedType`: a tensor type without element type that keeps the whole type as its denotation, so that it survives
clones, passes and onnx_ir's own serialization. `restore_types` restores the types.

Training information: kept unchanged, as long as the parts of the graph that it refers to are unchanged.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

import onnx
import onnx_ir
from google.protobuf.message import Message
from onnx_ir import DataType, TensorType

from castsmith.ir.errors import ModelError
from castsmith.ir.io.readable import Survey, type_of_attribute
from castsmith.ir.io.wire import messages_of
from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES
from castsmith.numerics.types import type_name

_PREFIX = "castsmith.type:"
_TRAINING = "castsmith.training_info"
_TO_SEARCH = 1 << 26
"""Size in bytes up to which a model is searched for carried types as text, which is quicker than a walk."""
_SIMPLE = ("tensor_type", "sparse_tensor_type")

Declared = dict[str, tuple[int, tuple[int, ...]]]
"""Type and shape of initializers by name."""


class CarriedType(TensorType):
    """A type that onnx_ir has no class for, such as the sequence of maps that ZipMap gives."""

    def __init__(self, denotation: str) -> None:
        super().__init__(DataType.UNDEFINED, denotation=denotation)

    @property
    def proto(self) -> onnx.TypeProto:
        return _decoded(self.denotation or "")

    def __str__(self) -> str:
        return type_proto_text(self.proto)

    def __repr__(self) -> str:
        return f"CarriedType({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CarriedType) and self.denotation == other.denotation

    def __hash__(self) -> int:
        return hash(self.denotation)


@contextmanager
def as_onnx_ir_reads(survey: Survey) -> Generator[bool]:
    """Within the block, the proto is as onnx_ir reads it.

    Types that onnx_ir cannot represent are replaced, attributes state their types, and those with a value refer to no
    parameter: there is none outside of functions.

    Args:
        survey: What `require_readable` found in the proto.

    Yields:
        True if the proto had such types.
    """
    replaced: list[tuple[onnx.TypeProto, bytes]] = []
    references = [(attribute, attribute.ref_attr_name) for attribute in survey.referring]
    try:
        for attribute in survey.untyped:
            attribute.type = type_of_attribute(attribute) or onnx.AttributeProto.UNDEFINED
        for attribute, _ in references:
            attribute.ClearField("ref_attr_name")
        for proto_type in survey.types:
            if not _is_held(proto_type):
                whole = proto_type.SerializeToString(deterministic=True)
                replaced.append((proto_type, whole))
                proto_type.CopyFrom(
                    onnx.TypeProto(
                        tensor_type=onnx.TypeProto.Tensor(elem_type=0),
                        denotation=_PREFIX + b64encode(whole).decode(),
                    )
                )
        yield bool(replaced)
    finally:
        for proto_type, whole in replaced:
            proto_type.ParseFromString(whole)
        for attribute in survey.untyped:
            attribute.ClearField("type")
        for attribute, name in references:
            attribute.ref_attr_name = name


def name_types(values: Iterator[onnx_ir.Value]) -> None:
    """Give the values of carried types a type that can be recognised and shown."""
    for value in values:
        if isinstance(value.type, TensorType) and (value.type.denotation or "").startswith(_PREFIX):
            value.type = CarriedType(value.type.denotation or "")


def restore_types(proto: onnx.ModelProto) -> None:
    """Restore the carried types in the proto, with the element type if one was declared since."""
    data = proto.SerializeToString()  # `ByteSize` makes these bytes too
    if len(data) <= _TO_SEARCH and _PREFIX.encode() not in data:
        return
    for proto_type in _types(proto):
        if proto_type.denotation.startswith(_PREFIX):
            declared = proto_type.tensor_type.elem_type
            proto_type.CopyFrom(_decoded(proto_type.denotation))
            kind = proto_type.WhichOneof("value")
            if declared and kind in _SIMPLE:
                getattr(proto_type, kind).elem_type = declared


def carry_training(model: onnx_ir.Model, proto: onnx.ModelProto) -> None:
    """Keep the training information of the proto, with the parts it refers to, in the model's `meta`.

    Raises:
        ModelError: The training information keeps weights in data files.
    """
    if not proto.training_info:
        return
    for info in proto.training_info:
        for tensor in messages_of(info, onnx.TensorProto):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise ModelError(
                    f"{proto.graph.name}: training_info keeps the tensor {tensor.name!r} in a data file, expected"
                    " in the model."
                )
    declared = _declared(proto.graph)
    infos = tuple(info.SerializeToString(deterministic=True) for info in proto.training_info)
    names = {name for info in proto.training_info for name in _referred(info)} & declared.keys()
    model.meta[_TRAINING] = (infos, {name: declared[name] for name in sorted(names)})


def training_of(model: onnx_ir.Model) -> tuple[bytes, ...]:
    """Return the training information of the model, each entry as bytes."""
    return _training(model)[0]


def _training(model: onnx_ir.Model) -> tuple[tuple[bytes, ...], Declared]:
    return cast("tuple[tuple[bytes, ...], Declared]", model.meta.get(_TRAINING, ((), {})))


def restore_training(model: onnx_ir.Model, proto: onnx.ModelProto) -> None:
    """Restore the training information.

    Raises:
        ModelError: A part that it refers to has changed.
    """
    infos, referred = _training(model)
    declared = _declared(proto.graph) if referred else {}
    for name, before in referred.items():
        if declared.get(name) != before:
            raise ModelError(
                f"{proto.graph.name}: training_info refers to {name!r}, which has changed: remove training_info from"
                " the model, or train it before its types are changed."
            )
    for info in infos:
        proto.training_info.add().ParseFromString(info)


def type_proto_text(proto: onnx.TypeProto) -> str:
    """Return the type in ONNX text, without shapes: `seq(map(int64, float))`."""
    kind = proto.WhichOneof("value")
    if kind == "map_type":
        return f"map({_element(proto.map_type.key_type)}, {type_proto_text(proto.map_type.value_type)})"
    if kind == "opaque_type":
        return f"opaque({'.'.join(filter(None, (proto.opaque_type.domain, proto.opaque_type.name)))})"
    if kind in _SIMPLE:
        text = _element(getattr(proto, kind).elem_type)
        return f"sparse_tensor({text})" if kind == "sparse_tensor_type" else text
    if kind is None:
        return "?"
    return f"{'seq' if kind == 'sequence_type' else 'optional'}({type_proto_text(getattr(proto, kind).elem_type)})"


def _element(number: int) -> str:
    return type_name(DataType(number)) if number in NUMBERS_OF_TYPES and number else "?"


def _decoded(denotation: str) -> onnx.TypeProto:
    return onnx.TypeProto.FromString(b64decode(denotation.removeprefix(_PREFIX)))


def _types(proto: onnx.ModelProto) -> Iterator[onnx.TypeProto]:
    """Yield the types of values and in attributes; not those within others, nor those of training information."""
    for part in (proto.graph, *proto.functions):
        yield from messages_of(part, onnx.TypeProto)


def _is_held(proto: onnx.TypeProto) -> bool:
    """True if onnx_ir round-trips the type."""
    kind = proto.WhichOneof("value")
    if kind in _SIMPLE:
        inner = getattr(proto, kind)
        return inner.HasField("elem_type") or not inner.HasField("shape")
    if kind is None:
        return not proto.HasField("denotation")
    try:
        serialized = onnx.TypeProto()
        dtype = onnx_ir.serde.deserialize_type_proto_for_type(proto)
        shape = onnx_ir.serde.deserialize_type_proto_for_shape(proto)
        if dtype is not None:
            onnx_ir.serde.serialize_type_into(serialized, dtype)
        if shape is not None:
            onnx_ir.serde.serialize_shape_into(serialized, shape)
    except (ValueError, TypeError, AttributeError, RuntimeError):
        return False
    return serialized == proto


def _declared(graph: onnx.GraphProto) -> Declared:
    return {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}


def _referred(info: onnx.TrainingInfoProto) -> Iterator[str]:
    """Return the names in training information that may be those of the graph."""
    for binding in (*info.initialization_binding, *info.update_binding):
        yield binding.key
    yield from _inputs(info)


def _inputs(message: Message) -> Iterator[str]:
    """Return the inputs of all nodes in the message."""
    for node in messages_of(message, onnx.NodeProto):
        yield from node.input
        for attribute in node.attribute:
            yield from _inputs(attribute)
