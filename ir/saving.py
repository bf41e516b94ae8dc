"""Writing a model to disk so that the file under the final name is always whole, the old one or the new."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx
import onnx_ir
from onnx_ir import ExternalTensor

from castsmith.ir.errors import ModelError
from castsmith.ir.protos import to_proto
from castsmith.ir.tensors import graphs_with_initializers

_INLINE_LIMIT = 2**31 - 2**24
"""Protobuf refuses messages of 2 GiB; what is left below is for the graph itself."""

_FORMATS = {".onnxtxt": "onnxtxt", ".textproto": "textproto", ".json": "json"}

_SMALL = 1024
"""Bytes up to which a tensor stays in the model file even when weights move out: shapes, scalars, axes."""


def save(model: onnx_ir.Model, path: str | os.PathLike[str], *, external_data: str | None = None) -> None:
    """Write the model to `path`, atomically: written to a new file, flushed to disk, then renamed.

    external_data: name of a file beside `path` for the weights of more than 1 KiB. By default weights stay in the
    file, but those that were external stay external, and all move out where the file would pass 2 GiB; the data file
    is then named after the model. The model in memory is not changed. Raises ModelError where nothing can be written.
    """
    path = Path(path)
    moved = _weights_to_move(model, everything=external_data is not None)
    try:
        if not moved:
            _write_whole(path, to_proto(model))
        else:
            _save_with_data(model, path, moved, external_data)
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None


def _weights_to_move(model: onnx_ir.Model, *, everything: bool) -> list[onnx_ir.Value]:
    values = [
        value
        for graph in graphs_with_initializers(model)
        for value in graph.initializers.values()
        if value.const_value is not None and value.const_value.dtype != onnx_ir.DataType.STRING
    ]
    sizes = {value: value.const_value.nbytes for value in values if value.const_value is not None}
    inline = sum(size for value, size in sizes.items() if not isinstance(value.const_value, ExternalTensor))
    if everything or inline > _INLINE_LIMIT:
        return [value for value in values if sizes[value] > _SMALL]
    return [value for value in values if isinstance(value.const_value, ExternalTensor)]


def _save_with_data(model: onnx_ir.Model, path: Path, moved: list[onnx_ir.Value], name: str | None) -> None:
    """The data file is written first, under a name that no file has, so that an older model keeps its own data."""
    data = _free_name(path, name)
    tensors = [value.const_value for value in moved if value.const_value is not None]
    placed = onnx_ir.external_data.convert_tensors_to_external(tensors, path.parent, data)
    try:
        for value, tensor in zip(moved, placed, strict=True):
            value.const_value = tensor
        _write_whole(path, to_proto(model))
    except BaseException:
        (path.parent / data).unlink(missing_ok=True)
        raise
    finally:
        for value, tensor in zip(moved, tensors, strict=True):
            value.const_value = tensor


def _free_name(path: Path, wanted: str | None) -> str:
    first = wanted or f"{path.name}.data"
    if os.path.isabs(first) or not (path.parent / first).resolve().is_relative_to(path.parent.resolve()):
        raise ModelError(f"{path}: external data may not be kept in {first!r}, outside the model's folder.")
    candidate, count = first, 0
    while (path.parent / candidate).exists():
        count += 1
        candidate = f"{first}.{count}"
    return candidate


def _write_whole(path: Path, proto: onnx.ModelProto) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as file:
        try:
            onnx.save_model(proto, file, format=_FORMATS.get(path.suffix, "protobuf"))
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
