"""Reading a model from disk. A file is untrusted: its paths, offsets and sizes are checked before they are used."""

from __future__ import annotations

import math
import mmap
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import onnx
import onnx_ir
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from castsmith.ir.errors import ModelError
from castsmith.ir.io import protos
from castsmith.ir.io.file_ranges import StoredTensor, data_file, mapped_tensor
from castsmith.ir.io.protos import file_format
from castsmith.ir.io.wire import skeleton
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import put_tensor, tensor_places
from castsmith.numerics.arguments import described
from castsmith.numerics.errors import ArgumentTypeError, ElementTypeError
from castsmith.numerics.types import element_type

# Whether a tensor of a file holds what its shape says, before memory is taken for it.

_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

_MOST_ELEMENTS = 1 << 58
"""What the dimensions of an array may come to, those of 0 left out: numpy counts its bytes in 63 bits."""


def require_external_data(path: Path, folder: Path, tensor: onnx_ir.ExternalTensor) -> Path:
    """The file that holds the tensor of the model `path`. Raises ModelError unless it is there and long enough.

    folder: what the place of the data is relative to.
    """
    location = f"{tensor.location}"
    target = data_file(folder / path.name, location)
    if target is None:
        raise ModelError(
            f"{path}: tensor {tensor.name!r} keeps its data in {location!r}, which is outside the model's folder."
        )
    if not os.path.isfile(target):
        raise ModelError(f"{path}: tensor {tensor.name!r} keeps its data in {location!r}, which is missing.")
    needed = _bytes_needed(path, tensor)
    offset, size = tensor.offset or 0, target.stat().st_size
    if tensor.length is not None and tensor.length != needed:
        raise ModelError(
            f"{path}: tensor {tensor.name!r} needs {needed} bytes for its shape, but its entry says {tensor.length}."
        )
    if offset < 0 or offset + needed > size:
        raise ModelError(
            f"{path}: tensor {tensor.name!r} needs {needed} bytes at offset {offset} of {location!r},"
            f" which has only {size}."
        )
    return target


def require_inline_data(path: Path, tensor: onnx_ir.TensorProtocol) -> None:
    """Raise ModelError, which names the model `path`, unless the tensor's data is that of its shape and type."""
    if isinstance(tensor, onnx_ir.StringTensor):
        needed, has = _count(path, tensor), len(tensor.string_data())
        if has != needed:
            raise ModelError(f"{path}: tensor {tensor.name!r} needs {needed} strings for its shape, but holds {has}.")
    if not isinstance(tensor, onnx_ir.serde.TensorProtoTensor):
        return
    raw = tensor.raw
    if not raw.HasField("raw_data"):
        _check_typed(path, tensor)
        return
    needed = _bytes_needed(path, tensor)
    if len(raw.raw_data) != needed:
        raise ModelError(
            f"{path}: tensor {tensor.name!r} needs {needed} bytes for its shape, but holds {len(raw.raw_data)}."
        )


def _check_typed(path: Path, tensor: onnx_ir.serde.TensorProtoTensor) -> None:
    """Data in a field of its type: onnx_ir would read a tensor without any data as zeros."""
    count, bits = _count(path, tensor), element_type(tensor.dtype).bits
    if tensor.dtype in (onnx_ir.DataType.COMPLEX64, onnx_ir.DataType.COMPLEX128):
        count *= 2
    elif bits in (2, 4):
        count = math.ceil(count * bits / 8)
    own = onnx.helper.tensor_dtype_to_field(int(tensor.dtype))
    for field in _TYPED_FIELDS:
        needed, has = count if field == own else 0, len(getattr(tensor.raw, field))
        if has != needed:
            raise ModelError(
                f"{path}: tensor {tensor.name!r} needs {needed} entries in {field} for its type and shape, but holds"
                f" {has}."
            )


def _bytes_needed(path: Path, tensor: onnx_ir.TensorProtocol) -> int:
    if tensor.dtype == onnx_ir.DataType.STRING:
        raise ModelError(f"{path}: tensor {tensor.name!r} keeps strings as raw data, which ONNX does not allow.")
    return math.ceil(_count(path, tensor) * tensor.dtype.itemsize)


def _count(path: Path, tensor: onnx_ir.TensorProtocol) -> int:
    """The number of elements, of a type that there is."""
    dims = list(_dims(tensor))
    if any(dim < 0 for dim in dims):
        raise ModelError(f"{path}: tensor {tensor.name!r} has a negative dimension.")
    if math.prod(max(dim, 1) for dim in dims) >= _MOST_ELEMENTS:
        raise ModelError(f"{path}: tensor {tensor.name!r} has dimensions {dims}, which no array can have.")
    try:
        element_type(tensor.dtype)
    except ElementTypeError:
        raise ModelError(f"{path}: tensor {tensor.name!r} has the unknown element type {tensor.dtype!r}.") from None
    return math.prod(dims)


def _dims(tensor: onnx_ir.TensorProtocol) -> Iterator[int]:
    for dim in tensor.shape:
        assert isinstance(dim, int)
        yield dim


_NO_MODEL = (DecodeError, json_format.ParseError, text_format.ParseError, onnx.parser.ParseError, UnicodeDecodeError)
"""What is raised for a file that is not of the format that its suffix says."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|#[^\n]*+|=>|([<({\[])|[>)}\]]')
"""What opens or closes something in ONNX text, and what is stepped over because it may only look so."""

_DEEPEST_TEXT = 100
"""Brackets that may be open at once: the parser of ONNX text takes stack for each, and protobuf holds no more."""

_LARGE_FILE = 1 << 24
_LARGE_WEIGHT = 1 << 16
"""Bytes from which a file is worth stepping through, and a weight in it worth stepping over."""


def load(path: str | os.PathLike[str]) -> onnx_ir.Model:
    """The model in the file `path`; weights stay on disk, in the file or beside it, and are memory-mapped when used.

    Raises ModelError, in one sentence that names the file, where it is missing, truncated or not ONNX, where external
    data is missing, shorter than the tensor that needs it or outside the model's folder, where an initializer holds
    more or fewer bytes than its shape says, and where the graph is malformed (see castsmith.ir.validation).
    """
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise ArgumentTypeError(f"a model must be an onnx_ir.Model, a ModelProto or a path, not {described(path)}.")
    path = Path(path)
    proto, source = _read(path)
    model = _deserialize(path, proto)
    _find_data(path, path.parent, model)
    if source is not None:
        _map_own_weights(path, model, source)
    return model


def from_proto(proto: onnx.ModelProto, name: str = "") -> onnx_ir.Model:
    """The model of a ModelProto in memory, whose external data, if any, is in the current folder.

    Raises ModelError, which calls the model `name`, where the proto is not a whole model or the data is not there.
    """
    path = Path(name or proto.graph.name.replace("/", "_") or "the model")
    model = _deserialize(path, proto)
    _find_data(path, Path.cwd(), model)
    return model


def from_bytes(data: bytes, name: str) -> onnx_ir.Model:
    """The model that the bytes of an ONNX file hold, as `from_proto`. Raises ModelError, which calls it `name`."""
    if not data:
        raise ModelError(f"{name}: there is nothing to read, where an ONNX model is expected.")
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise ModelError(f"{name}: this is not an ONNX model, or it is cut short.") from None
    return from_proto(proto, name)


def _find_data(path: Path, folder: Path, model: onnx_ir.Model) -> None:
    """Give each tensor of the model `path` with external data its file in the folder. Raises ModelError."""
    for place, tensor in list(tensor_places(model)):
        if not isinstance(tensor, onnx_ir.ExternalTensor):
            require_inline_data(path, tensor)
            continue
        file = require_external_data(path, folder, tensor)
        tensor.base_dir = folder
        put_tensor(place, StoredTensor(tensor, file, tensor.dtype, tensor.shape))


def as_model(model: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str]) -> onnx_ir.Model:
    """The model itself, or that of a ModelProto or a file. Raises ModelError for what holds none, or is not sound."""
    if isinstance(model, onnx_ir.Model):
        require_sound(model, model.graph.name or "the model")
        return model
    return from_proto(model) if isinstance(model, onnx.ModelProto) else load(model)


def read_proto(path: Path) -> onnx.ModelProto:
    """The model in the file as it is, large weights of the file named as ranges of it. Raises ModelError."""
    proto, source = _read(path)
    if source is not None:
        source.close()
    return proto


def _read(path: Path) -> tuple[onnx.ModelProto, IO[bytes] | None]:
    """The proto and, where its weights were left where they are, the open file that holds them."""
    if path.is_dir():
        raise ModelError(f"{path}: this is a folder, not an ONNX file.")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: this is not an ordinary file, so no model is read from it.")
    try:
        if path.stat().st_size > _LARGE_FILE and file_format(path) == "protobuf":
            return _read_skeleton(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # onnx calls its own text format experimental
            _require_shallow_text(path)
            return onnx.load_model(path, load_external_data=False), None
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file.") from None
    except RecursionError:
        raise ModelError(f"{path}: what is in the file nests too deep for a model.") from None
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read ({error.strerror}).") from None
    except (*_NO_MODEL, ValueError):
        raise ModelError(f"{path}: this is not an ONNX model, or it is cut short.") from None


def _require_shallow_text(path: Path) -> None:
    """Raise ModelError for ONNX text that nests deeper than its parser can follow."""
    if file_format(path) != "onnxtxt":
        return
    depth = 0
    for found in _BRACKETS.finditer(path.read_text("utf-8")):
        if found[1]:
            depth += 1
            if depth > _DEEPEST_TEXT:
                raise ModelError(f"{path}: brackets nest more than {_DEEPEST_TEXT} deep, which no model does.")
        elif found[0] in ">)}]":
            depth = max(0, depth - 1)


def _read_skeleton(path: Path) -> tuple[onnx.ModelProto, IO[bytes]]:
    file = open(path, "rb")  # noqa: SIM115, as it stays open as long as the tensors live
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping, memoryview(mapping) as data:
        return onnx.ModelProto.FromString(skeleton(data, path.name, _LARGE_WEIGHT)), file


def _map_own_weights(path: Path, model: onnx_ir.Model, file: IO[bytes]) -> None:
    """Make external data that is in the model file itself what it is: data of that file."""
    mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for place, tensor in list(tensor_places(model)):
        if isinstance(tensor, onnx_ir.ExternalTensor) and tensor.location == path.name:
            put_tensor(place, mapped_tensor(file, mapping, tensor))


def _deserialize(path: Path, proto: onnx.ModelProto) -> onnx_ir.Model:
    if not proto.ir_version or not proto.HasField("graph"):
        missing = "graph" if proto.ir_version else "IR version"
        raise ModelError(f"{path}: this is not an ONNX model: it has no {missing}.")
    if not proto.opset_import:
        raise ModelError(f"{path}: the model imports no operator set, so its operators have no meaning.")
    try:
        model = protos.from_proto(proto)
    except RecursionError:
        raise ModelError(f"{path}: graphs or types in the model nest too deep.") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ModelError(f"{path}: the model is malformed ({protos.root_cause(error)}).") from None
    require_sound(model, str(path), sort=True)
    return model
