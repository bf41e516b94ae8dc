"""Loading a model. A file is untrusted: its paths, offsets and sizes are checked before they are used."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Protocol

import onnx
import onnx_ir
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from castsmith.collection import paused_collection
from castsmith.ir.errors import ModelError, OrderError
from castsmith.ir.io import protos
from castsmith.ir.io.protos import file_format
from castsmith.ir.io.readable import fault_of_tensor
from castsmith.ir.io.stored import DataFile, FileTensor, Range, StoredTensor, checked, data_path, identity, opened
from castsmith.ir.io.wire import skeleton
from castsmith.ir.naming import name_bodies
from castsmith.ir.records import Flaw, FlawKind, Site
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import Place, all_tensors, is_external, put_tensor, tensor_places
from castsmith.numerics.arguments import described
from castsmith.numerics.errors import ArgumentTypeError, present

Tensors = list[tuple[Place, onnx_ir.TensorProtocol]]
"""Tensors with their places."""


class ModelHolder(Protocol):
    """An object whose `model` is an onnx_ir.Model, such as a Result, or what torch.onnx.export returns."""

    @property
    def model(self) -> onnx_ir.Model: ...


ModelLike = onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str] | bytes | ModelHolder
"""What every function takes as a model: an onnx_ir.Model, a ModelProto, a path, or an object that holds a model."""


_NOT_OF_FORMAT = (DecodeError, json_format.ParseError, text_format.ParseError, onnx.parser.ParseError, ValueError)
"""The errors raised for a file that is not in the format of its suffix."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|#[^\n]*+|=>|([<({\[])|[>)}\]]')
"""Tokens that open or close a bracket in ONNX text, and those that are skipped because they may contain one."""

_DEEPEST_TEXT = 100
"""Largest number of open brackets: the parser of ONNX text uses stack for each, and protobuf has a limit too."""

_LARGE_FILE = 1 << 24
_LARGE_WEIGHT = 1 << 16
"""Size in bytes from which a file is scanned without parsing, and a weight in it skipped."""


def load(path: str | os.PathLike[str]) -> onnx_ir.Model:
    """Load the model in the file `path`; weights stay on disk and are memory-mapped when used.

    Args:
        path: The file, in protobuf, text, JSON or ONNX text format, by its suffix.

    Raises:
        ModelError: The file is missing, truncated or not ONNX; external data is missing, too short or outside the
            model's folder; an initializer holds more or fewer bytes than its shape requires; or the graph is malformed
            (see castsmith.ir.validation). The message is one sentence that names the file.
    """
    return load_flawed(path, None)


def load_flawed(path: str | os.PathLike[str], flaws: list[Flaw] | None) -> onnx_ir.Model:
    """Load the model as `load` does; what is wrong with it goes into `flaws`, as long as it can be read."""
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise ArgumentTypeError(f"load() reads a file: pass its path, not {described(path)}.")
    path = Path(path)
    for _ in range(_ATTEMPTS):
        before = identity(path)
        try:
            if flaws:
                flaws.clear()
            model = _loaded(path, with_data=True, flaws=flaws)
        except ModelError:
            if identity(path) == before:
                raise
        else:
            if identity(path) == before:
                return model
    return _loaded(path, with_data=True, flaws=flaws)


_ATTEMPTS = 20
"""How often a model is read again that another process replaced, with its data files, while it was read."""


def load_structure(path: str | os.PathLike[str], flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Load the model as `load` does, but leave external data where it is: its files may be missing.

    flaws: Takes what is wrong with the model, which is then no error as long as it can be read.
    """
    return _loaded(Path(path), with_data=False, flaws=flaws)


def _loaded(path: Path, *, with_data: bool, flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    proto, own = _read(path)
    if not proto.HasField("graph") and (kind := _foreign_kind(path)):
        raise ModelError(f"{path}: {kind}.")
    model, tensors = _deserialize(path, proto, flaws)
    if own is not None:
        tensors = [(place, own.opened(path, place, tensor)) for place, tensor in tensors]
    if with_data:
        try:
            _find_data(path, path.parent, tensors)
        except ModelError as error:
            _note_flaw(flaws, proto, str(error).removeprefix(f"{path}: "))
            raise
    return model


def from_proto(proto: onnx.ModelProto, name: str = "", flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Return the model of a ModelProto in memory, whose external data, if any, is in the current folder.

    Raises:
        ModelError: The proto is incomplete or the data is missing; the message calls the model `name`.
    """
    path = Path(name or proto.graph.name.replace("/", "_") or "the model")
    model, tensors = _deserialize(path, proto, flaws)
    _find_data(path, Path.cwd(), tensors)
    return model


def from_bytes(data: bytes, name: str, flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Return the model in the bytes of an ONNX file, as `from_proto`. Raises ModelError, which calls it `name`."""
    return from_proto(proto_from_bytes(data, name), name, flaws)


def proto_from_bytes(data: bytes, name: str) -> onnx.ModelProto:
    """Return the proto in the bytes of an ONNX file. Raises ModelError, which calls it `name`."""
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise ModelError(f"{name}: {_foreign_kind(data) or 'not an ONNX model, or truncated'}.") from None
    if not proto.HasField("graph") and (kind := _foreign_kind(data)):
        raise ModelError(f"{name}: {kind}.")
    return proto


def _find_data(path: Path, folder: Path, tensors: Tensors) -> None:
    """Give each tensor of the model `path` with external data its file in the folder. Raises ModelError."""
    external = [(place, tensor) for place, tensor in tensors if is_external(tensor)]
    stays_open = len({f"{tensor.location}" for _, tensor in external}) <= _MOST_OPEN
    files = dict[Path, DataFile]()
    for place, tensor in external:
        file = data_path(folder / path.name, f"{tensor.location}")
        what = f"{path}: tensor {tensor.name!r}"
        name = checked(what, tensor, file)
        if name not in files:
            files[name] = DataFile(name, stays_open=stays_open)
        tensor.base_dir = folder
        stored = StoredTensor(tensor, files[name])
        _require_codes(what, stored)
        put_tensor(place, stored)


_MOST_OPEN = 64
"""Data files that a model keeps open."""


def as_model(model: ModelLike, flaws: list[Flaw] | None = None) -> onnx_ir.Model:
    """Return the model itself, the one that an object holds, or that of a ModelProto, its bytes or a file.

    flaws: Takes what is wrong with the model, which is then no error as long as it can be read.

    Raises:
        ModelError: The model is invalid.
        ArgumentTypeError: The argument is not a model.
    """
    if isinstance(model, str | os.PathLike):
        return load_flawed(model, flaws)
    held = model_in_memory(model)
    if held is not None:
        require_sound(held, held.graph.name or "the model", flaws=flaws)
        if flaws is None or not flaws:
            _require_data(held)
        return held
    proto = _proto_of(model)
    if proto is not None:
        return from_proto(proto, "", flaws)
    raise ArgumentTypeError(
        f"a model must be a path, an onnx_ir.Model, a ModelProto, its bytes or an ONNXProgram, not {described(model)}."
    )


def _proto_of(model: object) -> onnx.ModelProto | None:
    """Return the ModelProto that the argument is, holds, or has the bytes of. Raises ModelError for other bytes."""
    if isinstance(model, bytes):
        return proto_from_bytes(model, "the bytes")
    proto = model if isinstance(model, onnx.ModelProto) else getattr(model, "model_proto", None)
    return proto if isinstance(proto, onnx.ModelProto) else None


def _require_data(model: onnx_ir.Model) -> None:
    """Raise ModelError if a tensor of a model in memory holds other data than its shape needs."""
    for tensor in all_tensors(model):
        if isinstance(tensor, onnx_ir.serde.TensorProtoTensor):
            fault = fault_of_tensor(tensor.raw)
            if fault:
                raise ModelError(f"tensor {tensor.name!r}{fault}.")
        elif isinstance(tensor, onnx_ir.ExternalTensor):
            opened(tensor)


def structure(model: ModelLike) -> onnx.ModelProto:
    """Return the model as it is written, without large weights if it is in memory or in a large file."""
    if isinstance(model, str | os.PathLike):
        return read_proto(Path(model))
    held = model_in_memory(model)
    if held is None:
        return _proto_of(model) or onnx.ModelProto()
    bare = held.clone()
    for name, value in list(bare.graph.initializers.items()):
        if value.const_value is not None and value.const_value.nbytes > _LARGE_WEIGHT:
            del bare.graph.initializers[name]
            if not value.is_graph_input():
                value.const_value = None
                bare.graph.inputs.append(value)
    return protos.to_proto(bare)


def own_model(model: ModelLike, *, in_place: bool = False) -> onnx_ir.Model:
    """Return the model for a caller that changes it: a copy of one in memory unless `in_place`; raises as `as_model`.

    The copy shares the tensors.
    """
    read = as_model(model)
    return read if in_place or model_in_memory(model) is None else read.clone()


def model_in_memory(model: object) -> onnx_ir.Model | None:
    """Return the onnx_ir.Model that the argument is or holds; None for a path, a ModelProto or anything else."""
    held = getattr(model, "model", None) if not isinstance(model, onnx_ir.Model) else model
    return held if isinstance(held, onnx_ir.Model) else None


def read_proto(path: Path) -> onnx.ModelProto:
    """Return the model in the file as a proto, large weights of the file as ranges of it. Raises ModelError."""
    return _read(path)[0]


def unloadable(source: str | bytes) -> onnx.ModelProto | None:
    """Return the proto of a model that cannot be loaded, to show what it says; None for what is no model.

    Its own large weights are named by their place in the file. Raises ModelError for a file that cannot be read.
    """
    proto, own = (proto_from_bytes(source, "the model"), None) if isinstance(source, bytes) else _read(Path(source))
    location = None if own is None else own.location
    for tensor in protos.tensors_of(proto) if location is not None else ():
        for entry in tensor.external_data:
            entry.value = "" if entry.value == location else entry.value
    return proto if proto.graph.node or proto.graph.input else None


@dataclass(frozen=True)
class _OwnWeights:
    """The model file, which holds the weights that the proto names by this location."""

    file: DataFile
    location: str

    def opened(self, path: Path, place: Place, tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
        """Replace the tensor, if it is one of these, by one that reads the file."""
        if not is_external(tensor) or tensor.location != self.location:
            return tensor
        what, has = f"{path}: tensor {tensor.name!r}", present(tensor.length, "its length")
        if tensor.dtype == onnx_ir.DataType.STRING:
            raise ModelError(f"{what} keeps strings as raw data, which ONNX does not allow.")
        if has != tensor.nbytes:
            raise ModelError(f"{what} needs {tensor.nbytes} bytes for its shape, but holds {has}.")
        own = FileTensor(Range(self.file, present(tensor.offset, "its place"), has), tensor)
        _require_codes(what, own)
        put_tensor(place, own)
        return own


def _require_codes(what: str, tensor: FileTensor | StoredTensor) -> None:
    """Raise ModelError if bits that no element of a 6-bit type uses are set: onnx_ir does not read such a tensor."""
    unused = -6 * tensor.size % 8
    if tensor.dtype.bitwidth == 6 and unused and tensor.range.bytes[-1] >> (8 - unused):
        raise ModelError(f"{what} holds codes that {tensor.dtype.name} does not have.")


def _read(path: Path) -> tuple[onnx.ModelProto, _OwnWeights | None]:
    """Return the proto and, if its weights were left in the file, the file."""
    if path.is_dir():
        raise ModelError(f"{path}: {_foreign_kind(path) or 'a folder, not an ONNX file'}.")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: not an ordinary file.")
    try:
        if path.stat().st_size > _LARGE_FILE and file_format(path) == "protobuf":
            own = _OwnWeights(DataFile(Path(os.path.realpath(path))), token_hex())
            whole = own.file.view(0, path.stat().st_size)
            return onnx.ModelProto.FromString(skeleton(whole, own.location, _LARGE_WEIGHT)), own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # onnx calls its own text format experimental
            _require_shallow_text(path)
            return onnx.load_model(path, load_external_data=False), None
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file.") from None
    except RecursionError:
        raise ModelError(f"{path}: the file is nested too deeply.") from None
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read ({error.strerror}).") from None
    except _NOT_OF_FORMAT:
        raise ModelError(f"{path}: {_foreign_kind(path) or 'not an ONNX model, or truncated'}.") from None
    except (IndexError, RuntimeError):  # of the parser of ONNX text
        raise ModelError(f"{path}: the text has a number that is out of range.") from None


def _foreign_kind(source: Path | bytes) -> str:
    """Return what a file or content is instead of an ONNX model, and the fix; empty if it is not recognised."""
    from castsmith.ir.io.foreign import foreign_bytes, foreign_file

    return foreign_bytes(source) if isinstance(source, bytes) else foreign_file(source)


def _require_shallow_text(path: Path) -> None:
    """Raise ModelError for ONNX text that is nested deeper than its parser can follow."""
    if file_format(path) != "onnxtxt":
        return
    depth = 0
    for bracket in _BRACKETS.finditer(path.read_text("utf-8")):
        if bracket[1]:
            depth += 1
            if depth > _DEEPEST_TEXT:
                raise ModelError(f"{path}: brackets are nested more than {_DEEPEST_TEXT} levels deep.")
        elif bracket[0] in ">)}]":
            depth = max(0, depth - 1)


NO_IR_VERSION = "the model has no IR version"
"""What is wrong with a model without its version."""
NO_IMPORTS = "the model imports no operator set, so its operators have no meaning"
"""What is wrong with a model that imports none: before there were imports, all operators were those of opset 1."""
_FIRST_WITH_IMPORTS = 3
"""The first IR version in which a model imports operator sets."""


def _note_flaw(flaws: list[Flaw] | None, proto: onnx.ModelProto, fault: str, *kinds: FlawKind) -> None:
    """Keep a fault for which the model cannot be read further, unless it is known."""
    if flaws is not None and not flaws:
        flaws.append(Flaw(Site(proto.graph.name), fault.rstrip("."), kinds=frozenset(kinds)))


def _deserialize(path: Path, proto: onnx.ModelProto, flaws: list[Flaw] | None = None) -> tuple[onnx_ir.Model, Tensors]:
    """Return the model, which is sound, and its tensors with their places. Raises ModelError."""
    if flaws is not None and proto.HasField("graph") and not (proto.ir_version and proto.opset_import):
        original, proto = proto, onnx.ModelProto()
        proto.CopyFrom(original)
        if not proto.ir_version:
            flaws.append(Flaw(Site(proto.graph.name), NO_IR_VERSION, kinds=frozenset({FlawKind.UNVERSIONED})))
            proto.ir_version = _FIRST_WITH_IMPORTS
        if not proto.opset_import:
            flaws.append(Flaw(Site(proto.graph.name), NO_IMPORTS, kinds=frozenset({FlawKind.UNIMPORTED})))
            proto.opset_import.add(version=1)
    if not proto.ir_version or not proto.HasField("graph"):
        missing = "graph" if proto.ir_version else "IR version"
        raise ModelError(f"{path}: not an ONNX model: it has no {missing}.")
    if not proto.opset_import:
        raise ModelError(f"{path}: {NO_IMPORTS}.")
    try:
        with paused_collection():
            model = protos.from_proto(proto, flaws)
    except RecursionError:
        raise ModelError(f"{path}: graphs or types in the model are nested too deeply.") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        fault = f"the model is malformed ({protos.root_cause(error)})."
        _note_flaw(flaws, proto, fault)
        raise ModelError(f"{path}: {fault}") from None
    name_bodies(model)
    try:
        require_sound(model, str(path), sort=True, flaws=flaws)
    except ModelError as error:
        kinds = (FlawKind.CYCLE,) if isinstance(error, OrderError) else ()
        _note_flaw(flaws, proto, str(error).removeprefix(f"{path}: "), *kinds)
        raise
    return model, list(tensor_places(model))
