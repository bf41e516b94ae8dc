"""Whether a tensor of a file holds what its shape says, before memory is taken for it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.ranges import data_file
from castsmith.numerics.errors import ElementTypeError
from castsmith.numerics.types import element_type

_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

_MOST_ELEMENTS = 1 << 58
"""What the dimensions of an array may come to, those of 0 left out: numpy counts its bytes in 63 bits."""


def require_external_data(path: Path, tensor: onnx_ir.ExternalTensor) -> Path:
    """The file that holds the tensor of the model at `path`. Raises ModelError unless it is there and long enough."""
    location = f"{tensor.location}"
    target = data_file(path, location)
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
