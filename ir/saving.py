"""Writing a model to disk so that the file under the final name is always whole, the old one or the new."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir
from onnx_ir import ExternalTensor

from castsmith.ir.atomic import clear_debris, flush, new_file, replace
from castsmith.ir.errors import ModelError
from castsmith.ir.external import Placed, external_tensor, shards_of, write_shards
from castsmith.ir.inline import write_model
from castsmith.ir.protos import file_format, to_proto
from castsmith.ir.ranges import external_path, range_of
from castsmith.ir.superseded import superseded_data
from castsmith.ir.tensors import graphs_with_initializers
from castsmith.ir.walks import all_nodes

_INLINE_LIMIT = 2**31 - 2**24
"""Protobuf refuses messages of 2 GiB; what is left below is for the graph itself."""

_SMALL = 1024
"""Bytes up to which a tensor stays in the model file even when weights move out: shapes, scalars, axes."""

_LARGE = 1 << 16
"""Bytes from which a tensor is not made part of a message in memory."""


@dataclass(frozen=True)
class _Held:
    """The place of a tensor in an attribute of a node."""

    node: onnx_ir.Node
    name: str


_Place = onnx_ir.Value | _Held
Tensors = dict[_Place, onnx_ir.TensorProtocol]
"""Tensors by the initializers, or the attributes, that hold them."""


def save(
    model: onnx_ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    reference_data: bool = False,
    shard_bytes: int | None = None,
) -> None:
    """Write the model to `path`, atomically: written to a new file, flushed to disk, then renamed.

    external_data: name of a file beside `path` for the weights of more than 1 KiB. By default weights stay in the
        file, but those that were external stay external, large new ones join them, and all move out where the file
        would pass 2 GiB; the data file is then named after the model. Where a file has that name, a number is added.
        A data file named after the model that only the model replaced here needed goes with it.
    reference_data: weights that are in a data file in the folder of `path` already are not copied: the new model names
        the same place, and needs that file from then on.
    shard_bytes: data files are split where they would get larger than this; a single tensor is never split.

    The model in memory is not changed. Raises ModelError where nothing can be written.
    """
    path = Path(path)
    try:
        clear_debris(path)
        old_data = superseded_data(path, model)
        tensors = _tensors(model)
        held = _in_attributes(model)
        moved = _to_move(tensors, _size_in_file(held, path), everything=external_data is not None)
        moved |= {place: tensor for place, tensor in held.items() if isinstance(tensor, ExternalTensor)}
        if reference_data:
            moved = {value: tensor for value, tensor in moved.items() if not _is_beside(tensor, path.parent)}
        with _moved_out(moved, path, external_data, shard_bytes) as stand_ins:
            _write(model, path, stand_ins, _to_copy(model, tensors, path, moved))
        for file in old_data:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None


def _tensors(model: onnx_ir.Model) -> Tensors:
    return {
        value: value.const_value
        for graph in graphs_with_initializers(model)
        for value in graph.initializers.values()
        if value.const_value is not None and value.const_value.dtype != onnx_ir.DataType.STRING
    }


def _in_attributes(model: onnx_ir.Model) -> Tensors:
    return {
        _Held(node, name): attribute.as_tensor()
        for node in all_nodes(model)
        for name, attribute in node.attributes.data.items()
        if attribute.type == onnx_ir.AttributeType.TENSOR and not attribute.is_ref()
    }


def _size_in_file(held: Tensors, path: Path) -> int:
    """Bytes of the tensors in attributes that have to be in the model file. Raises ModelError for too many."""
    size = sum(tensor.nbytes for tensor in held.values() if not isinstance(tensor, ExternalTensor))
    if size > _INLINE_LIMIT:
        raise ModelError(
            f"{path}: nodes hold {size} bytes of constants in their attributes, more than the 2 GiB of an ONNX file:"
            " make them initializers, which can be kept beside it."
        )
    return size


def _to_move(tensors: Tensors, held: int, *, everything: bool) -> Tensors:
    """The tensors that belong in a data file; `held`: the bytes that are in the model file anyway."""
    inline = held + sum(tensor.nbytes for tensor in tensors.values() if not isinstance(tensor, ExternalTensor))
    if everything or inline > _INLINE_LIMIT:
        return {value: tensor for value, tensor in tensors.items() if tensor.nbytes > _SMALL}
    external = {value: tensor for value, tensor in tensors.items() if isinstance(tensor, ExternalTensor)}
    return {value: tensor for value, tensor in tensors.items() if value in external or (external and _is_new(tensor))}


def _is_new(tensor: onnx_ir.TensorProtocol) -> bool:
    """Whether the tensor was made since the model was loaded, and is large: it then goes where the others are."""
    loaded = isinstance(tensor, onnx_ir.serde.TensorProtoTensor) or range_of(tensor) is not None
    return tensor.nbytes >= _LARGE and not loaded


def _is_beside(tensor: onnx_ir.TensorProtocol, folder: Path) -> bool:
    return isinstance(tensor, ExternalTensor) and Path(f"{tensor.base_dir}").resolve() == folder.resolve()


def _to_copy(model: onnx_ir.Model, tensors: Tensors, path: Path, moved: Tensors) -> Tensors:
    """The large tensors that stay in the model file and are copied into it past the message."""
    if file_format(path) != "protobuf":
        return {}
    own = {value for value in model.graph.initializers.values() if value not in moved and value.name}
    held = (ExternalTensor, onnx_ir.serde.TensorProtoTensor)
    return {
        value: tensor
        for value, tensor in tensors.items()
        if value in own and tensor.nbytes >= _LARGE and not isinstance(tensor, held)
    }


@contextmanager
def _moved_out(moved: Tensors, path: Path, name: str | None, shard_bytes: int | None) -> Generator[Tensors]:
    """Write data files with the tensors in `moved`; gives what stands for them. The files go if the block fails."""
    shards = shards_of(moved.values(), shard_bytes) if moved else []
    files = write_shards(path.parent, _data_name(path, name), shards)
    try:
        places = [(placed, file) for shard, file in zip(shards, files, strict=True) for placed in shard]
        yield {
            place: external_tensor(placed, file, (tensor.name if isinstance(place, _Held) else place.name) or "")
            for (place, tensor), (placed, file) in zip(moved.items(), places, strict=True)
        }
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        raise


def _write(model: onnx_ir.Model, path: Path, stand_ins: Tensors, copied: Tensors) -> None:
    empty = {value: _without_data(value, tensor) for value, tensor in copied.items()}
    with _replaced({**stand_ins, **empty}):
        proto = to_proto(model)
    names = {value.name: tensor for value, tensor in copied.items() if value.name}
    for tensor in proto.graph.initializer if names else ():
        if tensor.name in names:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    with new_file(path) as (file, part):
        if file_format(path) == "protobuf":
            write_model(file, proto, names)
        else:
            onnx.save_model(proto, file, format=file_format(path))
        flush(file)
        replace(part, path)


def _without_data(place: _Place, tensor: onnx_ir.TensorProtocol) -> ExternalTensor:
    return external_tensor(Placed(tensor, 0), Path("data"), place.name or "")


@contextmanager
def _replaced(stand_ins: Tensors) -> Generator[None]:
    """Put other tensors in those places for the time of the block."""
    own = {place: _put(place, tensor) for place, tensor in stand_ins.items()}
    try:
        yield
    finally:
        for place, tensor in own.items():
            if tensor is not None:
                _put(place, tensor)


def _put(place: _Place, tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol | None:
    """Put the tensor in the place; returns what was there."""
    if isinstance(place, _Held):
        before = place.node.attributes[place.name].as_tensor()
        place.node.attributes[place.name] = onnx_ir.AttrTensor(place.name, tensor)
        return before
    before, place.const_value = place.const_value, tensor
    return before


def _data_name(path: Path, wanted: str | None) -> str:
    name = wanted or f"{path.name}.data"
    if external_path(path.parent, name) is None:
        raise ModelError(f"{path}: external data may not be kept in {name!r}, outside the model's folder.")
    return name
