"""Saving a model so that the file under the final name is always complete, the old one or the new one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import onnx
import onnx_ir
from onnx_ir import ExternalTensor

from castsmith.ir.errors import ModelError
from castsmith.ir.io.files import (
    destination,
    draft_of,
    free_name,
    locked,
    mode_for,
    new_file,
    replace,
    same_name,
)
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.ir.io.protos import file_format, from_proto, to_proto
from castsmith.ir.io.stored import FileTensor, StoredTensor, file_of, inside, opened
from castsmith.ir.io.streaming import write_tensor
from castsmith.ir.io.superseded import data_files_of, drop
from castsmith.ir.io.wire import write_model
from castsmith.ir.naming import has_clashes, settle_names
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import Held, Place, is_external, put_tensor, tensor_places
from castsmith.numerics.arguments import count, described, flag, text
from castsmith.numerics.errors import ArgumentTypeError, OptionError

_INLINE_LIMIT = 2**31 - 2**24
"""Protobuf refuses messages of 2 GiB; the rest below that is for the graph itself."""

_SMALL = 1024
"""Size in bytes up to which a tensor stays in the model file even if weights move out: shapes, scalars, axes."""

_LARGE = 1 << 16
"""Size in bytes from which a tensor is not made part of a message in memory."""

_MAPPED, _MAPPING_UNIT, _VECTOR = 1 << 20, 1 << 16, 64
"""A tensor of a MiB or more begins at a multiple of 64 KiB, so that any system can map it by itself.

ONNX Runtime and onnx_ir align from that size on, too: for smaller ones what lies between would be most of the file.
"""

Tensors = dict[Place, onnx_ir.TensorProtocol]
"""Tensors by the initializers, or the attributes, that hold them."""


@dataclass(frozen=True)
class _Where:
    """The files to write, links resolved: the model, the data file with its usual name, and their permissions."""

    model: Path
    data: Path
    mode: int


@dataclass(frozen=True)
class _Layout:
    """What is written for the tensors.

    Attributes:
        stand_ins: Other tensors in the place of these.
        moved: Tensors to write to new data files.
        copied: Large initializers to write to the model file past the message.
    """

    stand_ins: Tensors = field(default_factory=Tensors)
    moved: Tensors = field(default_factory=Tensors)
    copied: Tensors = field(default_factory=Tensors)


def save(
    model: ModelLike,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    reference_data: bool = False,
    shard_bytes: int | None = None,
) -> None:
    """Save `model` to `path` atomically: the new file is written, flushed to disk, then renamed.

    A file that is replaced keeps its permissions; if `path` is a symbolic link, its target is replaced. The model in
    memory is not changed; a value that would be hidden by another of its name in the file is renamed in the file. A
    data file of the replaced model is deleted if the new one would have its name and nothing else names it; otherwise
    it is kept, with a UserWarning. Another process that saves to `path` at the same time waits.

    Args:
        model: A model in any form, or the result of `optimize` or `convert`.
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
    if external_data is not None:
        text("external_data", external_data)
    flag("reference_data", reference_data, OptionError)
    if shard_bytes is not None:
        count("shard_bytes", shard_bytes, 1)
    kept_files = write(
        as_model(model), path, external_data=external_data, reference_data=reference_data, shard_bytes=shard_bytes
    )
    for file in kept_files:
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
) -> list[Path]:
    """Save as `save` does; return data files of the replaced model that are kept although now unused."""
    path = Path(path)
    model = _settled(model)
    try:
        where = _where(path, external_data)
        tensors = dict(tensor_places(model))
        external = {place: tensor for place, tensor in tensors.items() if is_external(tensor)}
        if where.model in map(file_of, external.values()):
            raise ModelError(f"{path}: the model keeps weights in this file, so it cannot be written there.")
        with locked(where.model):
            before = data_files_of(where.model)
            usable = before if shard_bytes is None else set[Path]()
            usable = usable if external_data is None else usable & {Path(os.path.realpath(where.data))}
            staying = {p for p, tensor in external.items() if _stays(tensor, where, None if reference_data else usable)}
            layout = _layout(model, tensors, path, where, staying, everything=external_data is not None)
            old = before - {file_of(external[place]) for place in staying}
            _write(model, where, layout, shard_bytes)
            dropped = drop(old - _read_by_name(external.values()), where.model, where.data)
            _link_beside(Path(os.path.realpath(path.parent)), where.model, dropped)
            return sorted(old - dropped)
    except OSError as error:
        folder = path.parent
        why = f" ({error.strerror})" if folder.is_dir() else f", because the folder {folder} does not exist"
        raise ModelError(f"{path}: the file cannot be written{why}.") from None


def write_to(model: onnx_ir.Model, stream: IO[bytes], name: str) -> int:
    """Write the model with all its weights to the stream, and return the number of bytes.

    Raises:
        ModelError: The model is too large for one file; the message calls the stream `name`.
    """
    model = _settled(model)
    _require_inline(model, name, "write it to a named file, which can keep its weights in a separate file")
    layout = _inline(model, _streamable(model, Path(name)))
    return write_model(stream, _proto(model, layout), _by_name(layout.copied))


def whole_proto(model: onnx_ir.Model) -> onnx.ModelProto:
    """Return the model as a ModelProto with all its weights, those in data files too.

    Raises:
        ModelError: The weights are too large for one message.
    """
    model = _settled(model)
    name = model.graph.name or "the model"
    _require_inline(model, name, "save it to a file, which can keep its weights in a separate file")
    return _proto(model, _inline(model))


def light_proto(model: onnx_ir.Model) -> tuple[onnx.ModelProto, dict[str, onnx_ir.TensorProtocol]]:
    """Return the model as a ModelProto in which the large initializers of its graph have no elements, and these."""
    model = _settled(model)
    layout = _inline(model, {*model.graph.initializers.values()})
    return _proto(model, layout), _by_name(layout.copied)


def _inline(model: onnx_ir.Model, past: Container[Place] = ()) -> _Layout:
    """Lay out a model whose weights are in its message, or past it: those that are large or in data files."""
    layout = _Layout()
    for place, tensor in tensor_places(model):
        is_text = tensor.dtype == onnx_ir.DataType.STRING
        if place in past and not is_text and (tensor.nbytes >= _LARGE or is_external(tensor)):
            layout.copied[place] = tensor
        elif is_external(tensor):
            layout.stand_ins[place] = _inlined(tensor)
    return layout


def _require_inline(model: onnx_ir.Model, name: str, way_out: str) -> None:
    """Raise ModelError if the weights exceed one message."""
    size = sum(tensor.nbytes for place, tensor in tensor_places(model) if _has_bytes(place, tensor))
    if size > _INLINE_LIMIT:
        raise ModelError(
            f"{name}: the model has {size} bytes of weights, more than the 2 GiB of an ONNX file: {way_out}."
        )


def reloaded(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return the model as a file of it would be read, names resolved again; large tensors are shared, not copied.

    Raises:
        ModelError: The file could not be read.
    """
    shared = [(p, t) for p, t in tensor_places(model) if t.nbytes >= _LARGE or is_external(t)]
    shared = [(place, tensor) for place, tensor in shared if tensor.dtype != onnx_ir.DataType.STRING]
    numbers = enumerate(shared)
    stand_ins: Tensors = {p: external_tensor(t, f"{number}", 0, _name(p, t)) for number, (p, t) in numbers}
    with _replaced(stand_ins):
        proto = onnx.ModelProto.FromString(to_proto(model).SerializeToString())
    copy = from_proto(proto)
    require_sound(copy, model.graph.name or "the model")
    for place, tensor in list(tensor_places(copy)):
        if is_external(tensor):
            put_tensor(place, shared[int(f"{tensor.path}")][1])
    return copy


def _settled(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return the model, or a copy with other names if a value would be hidden by another of its name."""
    if has_clashes(model):
        model = model.clone()
        settle_names(model)
    return model


def _where(path: Path, external_data: str | None) -> _Where:
    model = destination(path)
    folder = Path(os.path.realpath(model.parent))
    model = folder / model.name
    name = f"{model.name}.data" if external_data is None else external_data
    if external_data is not None:
        data = inside(folder, name)
        if data is None:
            raise ModelError(f"{path}: external data cannot be written to {name!r}, outside the model's folder.")
        if data.is_dir():
            raise ModelError(f"{path}: external data cannot be written to {name!r}, which is a folder.")
        if same_name(folder / name, model):
            raise ModelError(
                f"{path}: external data cannot be written to {name!r}, the model file itself: choose another name."
            )
    return _Where(model, Path(os.path.normpath(folder / name)), mode_for(model))


def _stays(tensor: ExternalTensor, where: _Where, usable: set[Path] | None) -> bool:
    """True if the tensor needs no copy, as the new model can use its data file: one of these, or any in the folder."""
    file = opened(tensor).range.file
    return file.path.is_relative_to(where.model.parent) and (usable is None or file.path in usable) and file.is_in_place


def _read_by_name(tensors: Iterable[ExternalTensor]) -> set[Path]:
    """Return the data files that are opened again when a tensor of the model in memory is used."""
    return {
        file_of(tensor) for tensor in tensors if not (isinstance(tensor, StoredTensor) and tensor.range.file.stays_open)
    }


def _has_bytes(place: Place, tensor: onnx_ir.TensorProtocol) -> bool:
    """True unless it is an initializer of text, which stays in the model file."""
    return isinstance(place, Held) or is_external(tensor) or tensor.dtype != onnx_ir.DataType.STRING


def _layout(
    model: onnx_ir.Model,
    tensors: Tensors,
    path: Path,
    where: _Where,
    staying: set[Place],
    *,
    everything: bool,
) -> _Layout:
    out = everything or _size_in_file(tensors, path) > _INLINE_LIMIT
    any_external = any(map(is_external, tensors.values()))
    layout, streamable = _Layout(), _streamable(model, path)
    for place, tensor in tensors.items():
        if not _has_bytes(place, tensor):
            continue
        if is_external(tensor):
            if place in staying:
                layout.stand_ins[place] = _in_folder(tensor, where.model.parent)
            elif out and tensor.nbytes <= _SMALL:
                layout.stand_ins[place] = _inlined(tensor)
            else:
                layout.moved[place] = tensor
        elif not isinstance(place, Held):
            if (out and tensor.nbytes > _SMALL) or (any_external and _is_new(tensor)):
                layout.moved[place] = tensor
            elif place in streamable and tensor.nbytes >= _LARGE:
                layout.copied[place] = tensor
    return layout


def _size_in_file(tensors: Tensors, path: Path) -> int:
    """Return the bytes of tensors that are not external. Raises ModelError if those of attributes are too many."""
    held = initializers = 0
    for place, tensor in tensors.items():
        if not is_external(tensor) and _has_bytes(place, tensor):
            size = tensor.nbytes
            held, initializers = (held + size, initializers) if isinstance(place, Held) else (held, initializers + size)
    if held > _INLINE_LIMIT:
        raise ModelError(
            f"{path}: node attributes hold {held} bytes of constants, more than the 2 GiB of an ONNX file:"
            " make them initializers, which can be stored in a separate file."
        )
    return held + initializers


def _is_new(tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the tensor was made since the model was loaded, and is large: it is then stored beside the others."""
    return not isinstance(tensor, onnx_ir.serde.TensorProtoTensor | FileTensor) and tensor.nbytes >= _LARGE


def _in_folder(tensor: ExternalTensor, folder: Path) -> onnx_ir.TensorProtocol:
    """Return the tensor as a model in the folder names it."""
    file = file_of(tensor)
    if Path(os.path.realpath(folder / tensor.location)) == file:
        return tensor
    return external_tensor(tensor, _location(file, folder), tensor.offset or 0, tensor.name)


def _inlined(tensor: ExternalTensor) -> onnx_ir.TensorProtocol:
    """Return a tensor in a data file as one in memory."""
    proto = onnx.TensorProto(
        name=tensor.name,
        doc_string=tensor.doc_string,
        dims=tensor.shape.numpy(),
        data_type=int(tensor.dtype),
        raw_data=opened(tensor).tobytes(),
    )
    tensor_proto = onnx_ir.serde.TensorProtoTensor(proto)
    tensor_proto.metadata_props.update(tensor.metadata_props)
    return tensor_proto


def _location(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _streamable(model: onnx_ir.Model, path: Path) -> set[Place]:
    """Return the initializers that can be written to the model file past the message, if they are large."""
    if file_format(path) != "protobuf":
        return set()
    return {
        value
        for value in model.graph.initializers.values()
        if value.name and type(value.const_value) is not onnx_ir.serde.TensorProtoTensor
    }


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor and its offset in its data file."""

    place: Place
    tensor: onnx_ir.TensorProtocol
    offset: int


def shards_of(tensors: Mapping[Place, onnx_ir.TensorProtocol], limit: int | None) -> list[list[Placed]]:
    """Lay the tensors out in order, in files of at most `limit` bytes or of a single tensor."""
    shards = list[list[Placed]]()
    end = 0
    for place, tensor in tensors.items():
        offset = _aligned(end, tensor.nbytes)
        if not shards or (limit is not None and offset + tensor.nbytes > limit):
            shards.append([])
            offset = 0
        shards[-1].append(Placed(place, tensor, offset))
        end = offset + tensor.nbytes
    return shards


def _aligned(offset: int, size: int) -> int:
    unit = _MAPPING_UNIT if size >= _MAPPED else _VECTOR
    return -(-offset // unit) * unit


def _write(model: onnx_ir.Model, where: _Where, layout: _Layout, shard_bytes: int | None) -> None:
    """Write data files and model, all or none."""
    shards = shards_of(layout.moved, shard_bytes)
    draft, folder = draft_of(where.model), where.model.parent
    with ExitStack() as written:
        parts = [_write_shard(shard, where, number, written) for number, shard in enumerate(shards, start=1)]
        if parts:
            written.enter_context(locked(where.data))
        names = [free_name(name, where.model) for name in _shard_names(where.data, len(shards))]
        for shard, name in zip(shards, names, strict=True):
            for stored in shard:
                location, own = _location(name, folder), _name(stored.place, stored.tensor)
                layout.stand_ins[stored.place] = external_tensor(stored.tensor, location, stored.offset, own)
        proto = _proto(model, layout)
        written.callback(_remove, draft)  # also if a signal comes as soon as the file is complete
        with new_file(draft, where.mode) as file:
            _write_proto(proto, file, where.model, layout)
        with ExitStack() as published:
            for part, name in zip(parts, names, strict=True):
                replace(part, name)
                published.callback(_remove, name)
            replace(draft, where.model)
            published.pop_all()


def _write_shard(shard: Sequence[Placed], where: _Where, number: int, written: ExitStack) -> Path:
    part = draft_of(where.model, number)
    written.callback(_remove, part)
    with new_file(part, where.mode) as file:
        for stored in shard:
            file.seek(stored.offset)
            write_tensor(stored.tensor, file)
    return part


def _shard_names(wanted: Path, count: int) -> list[Path]:
    if count == 1:
        return [wanted]
    return [wanted.with_name(f"{wanted.name}-{number:05}-of-{count:05}") for number in range(1, count + 1)]


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)


def _link_beside(folder: Path, model: Path, gone: Iterable[Path]) -> None:
    """Make links in `folder` to the data files of a model to which a link in that folder leads.

    Programs that open that link look for the data beside it. Links to the files in `gone` are removed. A file that has
    the name of a link already stays as it is.
    """
    if folder == model.parent:
        return
    files = data_files_of(model)
    links = {file: folder / file.relative_to(model.parent) for file in (*files, *gone)}
    with suppress(OSError):
        for file, link in links.items():
            if file not in files and link.is_symlink() and Path(os.path.realpath(link)) == file:
                link.unlink()
            elif file in files and not os.path.lexists(link):
                link.symlink_to(os.path.relpath(file, link.parent))


def _write_proto(proto: onnx.ModelProto, file: IO[bytes], path: Path, layout: _Layout) -> None:
    if file_format(path) == "protobuf":
        write_model(file, proto, _by_name(layout.copied))
    else:
        onnx.save_model(proto, file, format=file_format(path))


def _proto(model: onnx_ir.Model, layout: _Layout) -> onnx.ModelProto:
    """Return the model to write, with the tensors that are copied past the message empty."""
    names = _by_name(layout.copied)
    empty = {p: external_tensor(tensor, "data", 0, _name(p, tensor)) for p, tensor in layout.copied.items()}
    with _replaced({**layout.stand_ins, **empty}):
        proto = to_proto(model)
    for tensor in proto.graph.initializer if names else ():
        if tensor.name in names:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return proto


def _by_name(tensors: Tensors) -> dict[str, onnx_ir.TensorProtocol]:
    return {_name(place, tensor): tensor for place, tensor in tensors.items()}


def _name(place: Place, tensor: onnx_ir.TensorProtocol) -> str:
    return (tensor.name if isinstance(place, Held) else place.name) or ""


def external_tensor(tensor: onnx_ir.TensorProtocol, location: str, offset: int, name: str) -> ExternalTensor:
    """Return the tensor as an entry that names its position in the data file at `location`."""
    return ExternalTensor(
        location,
        offset,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


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
