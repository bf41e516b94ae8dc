"""Writing the suite: models with data sets as ONNX's backend tests have them, raw vectors, and one manifest.

    DIR/manifest.json                                   every vector: types, files with hashes, what is left open
    DIR/raw/inputs/NAME, DIR/raw/outputs/NAME           elements, little-endian; see `raw_bytes`
    DIR/node/test_NAME/model.onnx                       one node
    DIR/node/test_NAME/test_data_set_0/input_0.pb ...   the elements that the standard fixes

The same version writes the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

import castsmith
from castsmith.conformance.quantized import dequantize_vectors, quantize_vectors, trunc_vectors
from castsmith.conformance.vectors import Operand, Vector, bit_cast_vectors, cast_vectors
from castsmith.ir.io.files import umask
from castsmith.numerics.cast.codec import code_mask
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import OptionError
from castsmith.numerics.types import element_type, type_name

Array = npt.NDArray[Any]

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the layout of the manifest."""
_LEAST_SHARED = 4096
"""Bytes of elements that are not written twice."""
_OLDEST_IR = 8
"""The IR version of models at opset 17 and below, which every runtime of today reads."""
_IR_OF_OPSET = {19: 9, 21: 10, 23: 11, 24: 12, 25: 13, 28: 14}
"""The IR version of the release of ONNX that introduced an opset (onnx's table of versions)."""


def suite(types: Sequence[DataType], opset: int | None = None) -> Iterator[Vector]:
    """Yield all vectors of the suite whose types are among `types`, in a fixed order.

    Args:
        types: Element types.
        opset: The opset of every model; None for each opset at which a result changes.

    Raises:
        OptionError: The opset is not supported.
    """
    if opset is not None and not 13 <= opset <= NEWEST_OPSET:
        raise OptionError(f"unsupported opset {opset} of a conformance suite; supported are 13 to {NEWEST_OPSET}.")
    yield from cast_vectors("Cast", types, opset)
    yield from cast_vectors("CastLike", types, opset)
    yield from bit_cast_vectors(types, opset)
    yield from quantize_vectors(types, opset)
    yield from dequantize_vectors(types, opset)
    if DataType.FLOAT in types:
        yield from trunc_vectors()


@dataclass(frozen=True, slots=True)
class Exported:
    """A suite that was written.

    Attributes:
        vectors: The number of vectors.
        models: The number of models; vectors of which the standard fixes no element have none.
        elements: The number of output elements, of all vectors.
        size: Bytes of all files.
        sha256: The hash of the manifest, which holds the hash of every other file.
    """

    vectors: int
    models: int
    elements: int
    size: int
    sha256: str


def export(folder: str | os.PathLike[str], types: Sequence[DataType], opset: int | None = None) -> Exported:
    """Write the suite to `folder`, which appears when all is written.

    Args:
        folder: A new or empty directory; its parent exists.
        types: The element types of inputs and outputs.
        opset: The opset of every model; None for each opset at which a result changes.

    Raises:
        OptionError: The directory is not empty, or the opset is not supported.
        OSError: A file cannot be written.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OptionError(f"{target} is not an empty directory; name a new one for the suite.")
    with _published(target) as place:
        writer = _Writer(place)
        vectors = [writer.vector(vector) for vector in suite(types, opset)]
        manifest = {
            "format": FORMAT,
            "castsmith": castsmith.__version__,
            "opset": opset,
            "types": [type_name(dtype) for dtype in types],
            "reasons": list(writer.reasons),
            "vectors": vectors,
        }
        text = json.dumps(manifest, indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"
        digest = writer.file(MANIFEST, text.encode())
    models = sum("model" in vector for vector in vectors)
    return Exported(len(vectors), models, writer.elements, writer.size, digest)


@contextmanager
def _published(target: Path) -> Generator[Path]:
    """Give a directory beside `target` that takes its place at the end, and is removed if that is not reached."""
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield place
        os.chmod(place, 0o777 & ~umask())
        place.replace(target)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


@dataclass
class _Writer:
    """The files written so far, and what the manifest says of them."""

    folder: Path
    size: int = 0
    elements: int = 0
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    homes: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def file(self, name: str, content: bytes) -> str:
        """Write one file, unless it is there, and return its hash."""
        if name not in self.digests:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self.size += len(content)
            self.digests[name] = hashlib.sha256(content).hexdigest()
        return self.digests[name]

    def vector(self, vector: Vector) -> dict[str, Any]:
        """Write the files of one vector and return its row of the manifest."""
        self.elements += vector.output.size
        fixed = fixed_part(vector)
        model = None if fixed is None else self._backend(vector, *fixed)
        row: dict[str, Any] = {
            "name": vector.name,
            "op": vector.op,
            "domain": vector.domain,
            "version": vector.domain_version,
            "opsets": [vector.opset, vector.last_opset],
            "attributes": dict(vector.attributes),
            "clause": vector.clause,
            "inputs": [self._array(f"raw/inputs/{value.file}", value.elements, value.name) for value in vector.inputs],
            "output": self._array(f"raw/outputs/{vector.name}", vector.output, "output"),
            "open": [
                [span.start, span.stop, span.standing.name.lower(), self._reason(span.reason)] for span in vector.spans
            ],
        }
        return row if model is None else {**row, "model": model}

    def _reason(self, reason: str) -> int:
        return self.reasons.setdefault(reason, len(self.reasons))

    def _array(self, name: str, array: Array, label: str) -> dict[str, Any]:
        """Write elements once: arrays of the same bytes share a file, and those of a data set stay there."""
        content = raw_bytes(array)
        digest = hashlib.sha256(content).hexdigest()
        name, offset = self.homes.setdefault(digest, (name, 0))
        self.file(name, content)
        dtype = Operand(label, array, "").dtype
        row: dict[str, Any] = {"name": label, "type": type_name(dtype), "shape": list(array.shape), "file": name}
        return {**row, "sha256": digest} | ({"offset": offset} if offset else {})

    def _backend(self, vector: Vector, inputs: Sequence[Operand], output: Array) -> dict[str, str]:
        folder = f"node/test_{vector.name}"
        name = f"{folder}/model.onnx"
        digest = self.file(name, model_bytes(vector, inputs, output))
        for index, value in enumerate(inputs):
            shared = value.file == type_name(value.dtype)
            self._tensor(f"{folder}/test_data_set_0/input_{index}.pb", value.name, value.elements, keep=not shared)
        self._tensor(f"{folder}/test_data_set_0/output_0.pb", "output", output, keep=True)
        return {"file": name, "sha256": digest}

    def _tensor(self, path: str, name: str, array: Array, *, keep: bool) -> None:
        """Write a tensor; if `keep`, its elements are not written again where they end the file as raw bytes."""
        content, raw = _tensor_bytes(name, array), raw_bytes(array)
        self.file(path, content)
        if keep and len(raw) >= _LEAST_SHARED and content.endswith(raw):
            self.homes.setdefault(hashlib.sha256(raw).hexdigest(), (path, len(content) - len(raw)))


def raw_bytes(array: Array) -> bytes:
    """Return the elements in C order: little-endian codes, types of less than a byte in its low bits, zeros above.

    Strings are a JSON array.
    """
    if array.dtype.kind in "OUST":
        return json.dumps([str(text) for text in array.reshape(-1).tolist()]).encode()
    return codes_of(array).astype(f"<u{array.itemsize}", copy=False).tobytes()


def codes_of(array: Array) -> Array:
    """Return the codes of numbers, in the low bits of unsigned integers."""
    row = element_type(DataType.from_numpy(array.dtype.newbyteorder("=")))
    codes = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False).view(f"u{array.itemsize}")
    return codes & code_mask(row)


def fixed_part(vector: Vector) -> tuple[list[Operand], Array] | None:
    """Return the inputs and the output without the elements that the standard leaves open; None if nothing remains.

    Of a quantization along an axis, whole columns are left out, and of one in blocks whole rows.
    """
    mask = vector.defined()
    data, *others = vector.inputs
    if mask.ndim == 1:
        fixed: Any = mask
    elif others[0].elements.ndim == 1:
        fixed = (slice(None), mask.all(0))
    else:
        fixed = mask.all(1)
        others = [Operand(operand.name, operand.elements[fixed], operand.file) for operand in others]
    output = vector.output[fixed]
    inputs = [Operand(data.name, data.elements[fixed], data.file), *others]
    return (inputs, output) if output.size else None


def model_bytes(vector: Vector, inputs: Sequence[Operand], output: Array, *, constant: bool = False) -> bytes:
    """Return the model of one node whose inputs and output have the given types and shapes.

    Args:
        vector: The operator.
        inputs: Its operands.
        output: Its output.
        constant: The operands are initializers and not inputs.
    """
    values = [_value(value.name, value.dtype, value.elements.shape) for value in inputs]
    attributes = onnx_ir.convenience.convert_attributes(vector.attributes)
    result = _value("output", vector.output_type, output.shape)
    node = onnx_ir.Node(vector.domain, vector.op, values, attributes, outputs=[result])
    imports = {"": vector.opset} | ({vector.domain: vector.domain_version} if vector.domain else {})
    for value, content in zip(values, inputs, strict=True) if constant else ():
        value.const_value = _tensor(content.name, content.elements)
    ports, weights = ([], values) if constant else (values, [])
    graph = onnx_ir.Graph(ports, [result], nodes=[node], initializers=weights, opset_imports=imports, name=vector.name)
    dtypes = [value.dtype for value in inputs] + [vector.output_type]
    model = onnx_ir.Model(graph, ir_version=ir_version(vector.opset, dtypes), producer_name="castsmith")
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def ir_version(opset: int, types: Iterable[DataType]) -> int:
    """Return the IR version of a model: that of its opset's release, or of its newest type."""
    of_opset = (version for first, version in _IR_OF_OPSET.items() if first <= opset)
    return max(chain([_OLDEST_IR], of_opset, (element_type(dtype).since.ir_version for dtype in types)))


def _value(name: str, dtype: DataType, shape: tuple[int, ...]) -> onnx_ir.Value:
    return onnx_ir.Value(name=name, type=onnx_ir.TensorType(dtype), shape=onnx_ir.Shape(shape))


def _tensor_bytes(name: str, array: Array) -> bytes:
    return onnx_ir.to_proto(_tensor(name, array)).SerializeToString(deterministic=True)


def _tensor(name: str, array: Array) -> onnx_ir.TensorProtocol:
    if array.dtype.kind in "OUST":
        texts = np.array([str(text).encode() for text in array.reshape(-1).tolist()], object).reshape(array.shape)
        return onnx_ir.StringTensor(texts, name=name)
    plain = np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder("="), copy=False)
    return onnx_ir.Tensor(plain, name=name)
