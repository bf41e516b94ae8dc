"""Comparison of two constants: equal bits, or the size and position of the largest difference."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type, type_name

Digest = tuple[DataType, tuple[object, ...], bytes]

_MAX_TEXT = 40


@dataclass(frozen=True)
class TensorDifference:
    """Types and shapes of two constants, and their largest difference; `detail` is a phrase, empty if shapes differ."""

    before: str
    after: str
    detail: str


def digest(tensor: onnx_ir.TensorProtocol) -> Digest:
    """Return a digest that is equal for tensors of the same type, shape and bits, however they are stored."""
    if tensor.dtype == DataType.STRING:
        content = b"".join(len(text).to_bytes(8, "little") + text for text in _texts(tensor))
    else:
        content = tensor.tobytes()
    return tensor.dtype, tuple(tensor.shape.numpy()), blake2b(content, digest_size=16).digest()


def tensor_difference(before: onnx_ir.TensorProtocol, after: onnx_ir.TensorProtocol) -> TensorDifference:
    """Return the difference of two tensors that differ."""
    left, right = _flat(before), _flat(after)
    detail = ""
    if tuple(before.shape.numpy()) == tuple(after.shape.numpy()) and _comparable(before.dtype, after.dtype):
        differ = _bits_differ(left, right) if before.dtype == after.dtype else _gaps(left, right) > 0
        detail = _detail(left, right, differ, tuple(before.shape.numpy()))
    same_kind = _kind(before) == _kind(after)
    first, second = _kind(before), _kind(after)
    if same_kind and left.size == 1:
        first, second = f"{first} {{{_text(left[0])}}}", f"{second} {{{_text(right[0])}}}"
    return TensorDifference(first, second, detail)


def _flat(tensor: onnx_ir.TensorProtocol) -> npt.NDArray[Any]:
    return np.array(_texts(tensor), object) if tensor.dtype == DataType.STRING else tensor.numpy().reshape(-1)


def _detail(
    left: npt.NDArray[Any], right: npt.NDArray[Any], differ: npt.NDArray[np.bool_], shape: tuple[int, ...]
) -> str:
    count = int(differ.sum())
    if not count:
        return "the values are the same"
    counted = f"{count} of {left.size} elements differ"
    if left.dtype == object:
        return f"{counted}, {_place(int(differ.argmax()), left, right, shape)}"
    gaps = _gaps(left, right)
    worst = int(gaps.argmax())
    if gaps[worst] == 0:
        return f"{counted} in their bits but not in value, {_place(int(differ.argmax()), left, right, shape)}"
    size = "NaN on one side" if np.isnan(_number(left[worst])) != np.isnan(_number(right[worst])) else str(gaps[worst])
    return f"{counted}, the largest difference {size} {_place(worst, left, right, shape)}"


def _place(flat: int, left: npt.NDArray[Any], right: npt.NDArray[Any], shape: tuple[int, ...]) -> str:
    index = [int(i) for i in np.unravel_index(flat, shape)]
    return f"at {index}: {_text(left[flat])} -> {_text(right[flat])}"


def _bits_differ(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if left.dtype == object:
        return np.asarray(left != right, np.bool_)
    width = left.dtype.itemsize
    codes = [np.ascontiguousarray(side).view(np.uint8).reshape(-1, width) for side in (left, right)]
    return np.asarray((codes[0] != codes[1]).any(axis=1))


def _gaps(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distance of the elements: 0 for equal ones and for two NaN, infinite for NaN beside a number."""
    with np.errstate(all="ignore"):
        first, second = _numbers(left), _numbers(right)
        gaps = np.abs(first - second)
        nans = np.isnan(first).astype(np.int8) + np.isnan(second)
    gaps[(first == second) | (nans == 2)] = 0
    gaps[nans == 1] = np.inf
    return gaps


def _numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the elements as float64, which holds all but 64-bit integers; those as long double."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return cast(array, DataType.DOUBLE)


def _number(element: Any) -> Any:
    return _numbers(np.array([element]))[0]


def _comparable(left: DataType, right: DataType) -> bool:
    kinds = {element_type(left).kind, element_type(right).kind}
    return left == right or not kinds & {Kind.STRING, Kind.COMPLEX}


def _kind(tensor: onnx_ir.TensorProtocol) -> str:
    return f"{type_name(tensor.dtype)}[{', '.join(str(dim) for dim in tensor.shape.numpy())}]"


def _texts(tensor: onnx_ir.TensorProtocol) -> list[bytes]:
    elements: list[object] = tensor.numpy().reshape(-1).tolist()
    return [element if isinstance(element, bytes) else str(element).encode() for element in elements]


def _text(element: object) -> str:
    text = repr(element) if isinstance(element, str | bytes) else str(element)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
