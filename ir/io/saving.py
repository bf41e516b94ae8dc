"""Saving a model so that the file under the final name is always complete, the old one or the new one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import onnx
import onnx_ir
from onnx_ir import ExternalTensor

from castsmith.ir.errors import ModelError
from castsmith.ir.io.file_ranges import external_path, file_of, range_of
from castsmith.ir.io.files import (
    Draft,
    Placed,
    destination,
    drafted_shards,
    external_tensor,
    flush,
    free_names,
    link_beside,
    mode_for,
    new_file,
    replace,
    same_name,
    shards_of,
)
from castsmith.ir.io.loading import as_model
from castsmith.ir.io.protos import file_format, from_proto, to_proto
from castsmith.ir.io.superseded import (
    data_files_of,
    drop,
    journal,
    left_behind,
    locations,
    mark,
    publish_all,
    recover,
    withdraw,
)
from castsmith.ir.io.wire import write_model
from castsmith.ir.naming import has_clashes, settle_names
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import (
    Held,
    Place,
    bytes_of_tensor,
    is_external,
    put_tensor,
    tensor_places,
)
from castsmith.numerics.arguments import described
from castsmith.numerics.errors import ArgumentTypeError

_INLINE_LIMIT = 2**31 - 2**24
"""Protobuf refuses messages of 2 GiB; the rest below that is for the graph itself."""

_SMALL = 1024
"""Size in bytes up to which a tensor stays in the model file even if weights move out: shapes, scalars, axes."""

_LARGE = 1 << 16
"""Size in bytes from which a tensor is not made part of a message in memory."""

Tensors = dict[Place, onnx_ir.TensorProtocol]
"""Tensors by the initializers, or the attributes, that hold them."""

Staying = Mapping[Place, ExternalTensor]
"""Tensors whose data is not copied."""


@dataclass(frozen=True)
class _Where:
    """The files to write, links resolved: the model, the data file with its usual name, and their permissions."""

    model: Path
    data: Path
    mode: int


@dataclass(frozen=True)
class _Layout:
    """The data to write for the tensors: another tensor, a place in a new data file, or bytes to copy."""

    stand_ins: Tensors
    moved: Tensors
    copied: Tensors
    external: bool
    """True if a tensor of the model is in a data file."""


def save(
    model: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    reference_data: bool = False,
    shard_bytes: int | None = None,
) -> None:
    """Save `model` to `path` atomically: the new file is written, flushed to disk, then renamed.

    A file that is replaced keeps its permissions; if `path` is a symbolic link, its target is replaced. The model in
    memory is not changed; a value that would be hidden by another of its name in the file is renamed in the file. A
    data file that only the replaced model used is deleted if this program made it for that model and nothing else names
    it; otherwise it is kept, with a UserWarning.

    Args:
        model: An onnx_ir.Model, a ModelProto or a path.
        path: The file to write.
        external_data: Name of a file in the folder of `path` for the weights of more than 1 KiB. By default weights
            stay in the file, but those that were external stay external, large new ones join them, and all move out if
            the file would exceed 2 GiB; the data file is then named after the model. If a file has that name already, a
            number is added. Weights in a data file that the model replaced at `path` already uses are left there.
        reference_data: Do not copy weights that are already in a data file in the folder of `path`: the new model names
            the same place, and needs that file from then on.
        shard_bytes: Largest size of a data file in bytes; larger ones are split, but a single tensor is never split.

    Raises:
        ModelError: The model cannot be written.
    """
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise ArgumentTypeError(f"path must be a str or an os.PathLike, not {described(path)}.")
    kept = write(
        as_model(model), path, external_data=external_data, reference_data=reference_data, shard_bytes=shard_bytes
    )
    for file in kept:
        warnings.warn(kept_note(file), UserWarning, stacklevel=2)


def kept_note(file: Path) -> str:
    """Return the message for a data file that a save leaves behind."""
    return f"{file}: the saved model no longer needs this data file; it was kept, because other models may use it."


def write(
    model: onnx_ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    reference_data: bool = False,
    shard_bytes: int | None = None,
    is_last_use: bool = False,
) -> list[Path]:
    """Save as `save` does; return data files of the replaced model that are kept although now unused.

    Args:
        is_last_use: Nothing in memory is read after this, so that the data files of the model itself can be deleted
            too.
    """
    path = Path(path)
    if has_clashes(model):
        model = model.clone()
        settle_names(model)
    try:
        where = _where(path, external_data)
        tensors = dict(tensor_places(model))
        reads = {file_of(tensor) for tensor in tensors.values() if is_external(tensor)}
        if Path(os.path.realpath(where.model)) in reads:
            raise ModelError(f"{path}: the model keeps weights in this file, so it cannot be written there.")
        recover(where.model, where.data)
        before = data_files_of(where.model) or set[Path]()
        every = _without_texts(tensors)
        staying = {
            place: tensor
            for place, tensor in every.items()
            if is_external(tensor)
            and _stays(file_of(tensor), where, before, external_data, shard_bytes, reference_data=reference_data)
        }
        layout = _layout(model, every, path, where, staying, everything=external_data is not None, external=bool(reads))
        old = before - {file_of(tensor) for tensor in staying.values()}
        dropped = _write(model, where, layout, old if is_last_use else old - reads, shard_bytes)
        folder = Path(os.path.realpath(path.parent))
        if folder != where.model.parent:
            link_beside(folder, where.model.parent, data_files_of(where.model) or set(), dropped)
        return sorted(old - dropped)
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None


def write_to(model: onnx_ir.Model, stream: IO[bytes], name: str) -> int:
    """Write the model with all its weights to the stream, and return the number of bytes.

    Raises:
        ModelError: The model is too large for one file; the message calls the stream `name`.
    """
    if has_clashes(model):
        model = model.clone()
        settle_names(model)
    path, tensors = Path(name), dict(tensor_places(model))
    every = _without_texts(tensors)
    size = sum(tensor.nbytes for tensor in every.values())
    if size > _INLINE_LIMIT:
        raise ModelError(
            f"{name}: the model has {size} bytes of weights, more than the 2 GiB of an ONNX file: write it to a named"
            " file, which can have its weights beside it."
        )
    copied = _to_copy(model, every, path, {})
    elsewhere = {place: t for place, t in every.items() if is_external(t) and place not in copied}
    inlined = {place: _inlined(tensor) for place, tensor in elsewhere.items()}
    proto = _proto(model, inlined, copied, path, external=any(map(is_external, tensors.values())))
    return write_model(stream, proto, {_name(place, tensor): tensor for place, tensor in copied.items()})


def reloaded(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return the model as a file of it would be read, names resolved again; large tensors are shared, not copied.

    Raises:
        ModelError: The file could not be read.
    """
    shared = [(p, t) for p, t in tensor_places(model) if t.nbytes >= _LARGE or is_external(t)]
    shared = [(place, tensor) for place, tensor in shared if tensor.dtype != onnx_ir.DataType.STRING]
    numbers = enumerate(shared)
    stand_ins: Tensors = {p: external_tensor(Placed(t, 0), f"{number}", _name(p, t)) for number, (p, t) in numbers}
    with _replaced(stand_ins):
        proto = onnx.ModelProto.FromString(to_proto(model).SerializeToString())
    again = from_proto(proto)
    require_sound(again, model.graph.name or "the model")
    for place, tensor in list(tensor_places(again)):
        if is_external(tensor):
            put_tensor(place, shared[int(f"{tensor.path}")][1])
    return again


def _where(path: Path, external_data: str | None) -> _Where:
    model = destination(path)
    folder = Path(os.path.realpath(model.parent))
    model = folder / model.name
    name = f"{model.name}.data" if external_data is None else external_data
    if external_data is not None:
        data = external_path(folder, name)
        if data is None:
            raise ModelError(f"{path}: external data cannot be written to {name!r}, outside the model's folder.")
        if data.is_dir():
            raise ModelError(f"{path}: external data cannot be written to {name!r}, which is a folder.")
        if same_name(folder / name, model):
            raise ModelError(
                f"{path}: external data cannot be written to {name!r}, the model file itself: choose another name."
            )
    return _Where(model, Path(os.path.normpath(folder / name)), mode_for(model))


def _stays(
    file: Path,
    where: _Where,
    before: set[Path],
    external_data: str | None,
    shard_bytes: int | None,
    *,
    reference_data: bool,
) -> bool:
    """True if the weights in the data file need no copy: the replaced model uses it, or the caller references it."""
    if not file.is_relative_to(where.model.parent):
        return False
    wanted = external_data is None or file == Path(os.path.realpath(where.data))
    return reference_data or (wanted and shard_bytes is None and file in before)


def _without_texts(tensors: Tensors) -> Tensors:
    """Return the tensors except initializers of text, which stay in the model file."""
    return {p: t for p, t in tensors.items() if isinstance(p, Held) or t.dtype != onnx_ir.DataType.STRING}


def _layout(
    model: onnx_ir.Model,
    every: Tensors,
    path: Path,
    where: _Where,
    staying: Staying,
    *,
    everything: bool,
    external: bool,
) -> _Layout:
    initializers: Tensors = {p: t for p, t in every.items() if p not in staying and not isinstance(p, Held)}
    held = {place: t for place, t in every.items() if place not in staying and isinstance(place, Held)}
    inline = _size_in_file(held, path)
    inline += sum(bytes_of_tensor(tensor) for tensor in initializers.values() if not is_external(tensor))
    out = everything or inline > _INLINE_LIMIT
    elsewhere: Tensors = {p: t for p, t in {**initializers, **held}.items() if is_external(t)}
    stand_ins: Tensors = {place: _in_folder(tensor, where.model.parent) for place, tensor in staying.items()}
    stand_ins |= {place: _inlined(tensor) for place, tensor in elsewhere.items() if out and tensor.nbytes <= _SMALL}
    has_data = bool(elsewhere or staying)
    moved = {
        place: tensor
        for place, tensor in initializers.items()
        if place not in stand_ins
        and (place in elsewhere or (out and tensor.nbytes > _SMALL) or (has_data and _is_new(tensor)))
    }
    moved |= {place: tensor for place, tensor in elsewhere.items() if place not in stand_ins}
    copied = _to_copy(model, initializers, path, {**stand_ins, **moved})
    return _Layout(stand_ins, moved, copied, external)


def _size_in_file(held: Mapping[Held, onnx_ir.TensorProtocol], path: Path) -> int:
    """Return the bytes of tensors in attributes that must be in the model file. Raises ModelError for too many."""
    size = sum(bytes_of_tensor(tensor) for tensor in held.values() if not is_external(tensor))
    if size > _INLINE_LIMIT:
        raise ModelError(
            f"{path}: node attributes hold {size} bytes of constants, more than the 2 GiB of an ONNX file:"
            " make them initializers, which can be kept beside it."
        )
    return size


def _is_new(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the tensor was made since the model was loaded, and is large: it is then stored beside the others."""
    loaded = isinstance(tensor, onnx_ir.serde.TensorProtoTensor)
    return not loaded and tensor.nbytes >= _LARGE and range_of(tensor) is None


def _in_folder(tensor: ExternalTensor, folder: Path) -> onnx_ir.TensorProtocol:
    """Return the tensor as a model in the folder names it."""
    file = file_of(tensor)
    if Path(os.path.realpath(folder / tensor.location)) == file:
        return tensor
    return external_tensor(Placed(tensor, tensor.offset or 0), _location(file, folder), tensor.name)


def _inlined(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    proto = onnx.TensorProto(
        name=tensor.name,
        doc_string=tensor.doc_string,
        dims=tensor.shape.numpy(),
        data_type=int(tensor.dtype),
        raw_data=tensor.tobytes(),
    )
    made = onnx_ir.serde.TensorProtoTensor(proto)
    made.metadata_props.update(tensor.metadata_props)
    return made


def _location(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _to_copy(model: onnx_ir.Model, tensors: Tensors, path: Path, placed: Tensors) -> Tensors:
    """Return the large tensors that stay in the model file and are copied into it past the message."""
    if file_format(path) != "protobuf":
        return {}
    own = {value for value in model.graph.initializers.values() if value not in placed and value.name}
    return {
        value: tensor
        for value, tensor in tensors.items()
        if value in own and not isinstance(tensor, onnx_ir.serde.TensorProtoTensor) and tensor.nbytes >= _LARGE
    }


def _write(model: onnx_ir.Model, where: _Where, layout: _Layout, old: set[Path], shard_bytes: int | None) -> set[Path]:
    """Write data files and model, all or none; return those of the files `old` that were deleted."""
    folder = where.model.parent
    shards = shards_of(layout.moved.values(), shard_bytes) if layout.moved else []
    with drafted_shards(folder, os.path.relpath(where.data, folder), shards, where.mode) as drafts:
        for draft in drafts:
            mark(draft.part, where.model)
        while True:
            names = free_names(drafts, where.model)
            places = [(placed, name) for shard, name in zip(shards, names, strict=True) for placed in shard]
            stand_ins = layout.stand_ins | {
                place: external_tensor(placed, _location(name, folder), _name(place, tensor))
                for (place, tensor), (placed, name) in zip(layout.moved.items(), places, strict=True)
            }
            proto = _proto(model, stand_ins, layout.copied, where.model, external=layout.external)
            dropped = _put_in_place(proto, where, layout.copied, list(zip(drafts, names, strict=True)), old)
            if dropped is not None:
                return dropped


def _put_in_place(
    proto: onnx.ModelProto, where: _Where, copied: Tensors, data: Sequence[tuple[Draft, Path]], old: set[Path]
) -> set[Path] | None:
    """Write the model and rename all files; None if the name of a data file was taken meanwhile."""
    left = left_behind(where.model, old)
    with new_file(where.model) as (file, part):
        _write_proto(proto, file, where.model, {_name(place, tensor): tensor for place, tensor in copied.items()})
        flush(file, where.mode)
        with journal(where.model, part, data, left):
            try:
                publish_all(data)
            except FileExistsError:
                return None
            try:
                replace(part, where.model)
            except BaseException:
                withdraw(data)
                raise
            return drop(left, where.model)


def _write_proto(
    proto: onnx.ModelProto, file: IO[bytes], path: Path, copied: dict[str, onnx_ir.TensorProtocol]
) -> None:
    if file_format(path) == "protobuf":
        write_model(file, proto, copied)
    else:
        onnx.save_model(proto, file, format=file_format(path))


def _proto(model: onnx_ir.Model, stand_ins: Tensors, copied: Tensors, path: Path, *, external: bool) -> onnx.ModelProto:
    """Return the model to write, with the tensors in `copied` empty. external: a tensor of the model is external."""
    names = {place: _name(place, tensor) for place, tensor in copied.items()}
    empty = {place: external_tensor(Placed(tensor, 0), "data", names[place]) for place, tensor in copied.items()}
    with _replaced({**stand_ins, **empty}):
        proto = to_proto(model)
    if not (external or stand_ins or copied):
        return proto
    for tensor in proto.graph.initializer if names else ():
        if tensor.name in names.values():
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    allowed = {f"{tensor.location}" for tensor in stand_ins.values() if is_external(tensor)}
    for location in locations(proto) - allowed:
        raise ModelError(f"{path}: the model would depend on data of another model, {location!r}.")
    return proto


def _name(place: Place, tensor: onnx_ir.TensorProtocol) -> str:
    return (tensor.name if isinstance(place, Held) else place.name) or ""


@contextmanager
def _replaced(stand_ins: Tensors) -> Generator[None]:
    """Within the block, put other tensors in those places."""
    values = [(place, place.const_value) for place in stand_ins if not isinstance(place, Held)]
    held = [(p.owner.attributes, p.name, p.owner.attributes[p.name]) for p in stand_ins if isinstance(p, Held)]
    try:
        for place, tensor in stand_ins.items():
            put_tensor(place, tensor)
        yield
    finally:
        for value, tensor in values:
            value.const_value = tensor
        for attributes, name, attribute in held:
            attributes[name] = attribute
