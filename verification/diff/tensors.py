"""Comparison of two constants: equal bits, or the size and position of the largest difference."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.text import tensor_type_text
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.compare import distances
from castsmith.verification.evaluate.conversions import bits_of

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
    left, right, same_type = _flat(before), _flat(after), before.dtype == after.dtype
    detail = ""
    if tuple(before.shape.numpy()) == tuple(after.shape.numpy()) and _comparable(before.dtype, after.dtype):
        apart, _ = distances(left, right)
        differ = (bits_of(left) != bits_of(right)).reshape(left.size, -1).any(1) if same_type else apart > 0
        detail = _detail(left, right, differ, apart, tuple(before.shape.numpy()))
    first, second = tensor_type_text(before), tensor_type_text(after)
    if first == second and left.size == 1:
        first, second = f"{first} {{{_text(left[0])}}}", f"{second} {{{_text(right[0])}}}"
    return TensorDifference(first, second, detail)


def _flat(tensor: onnx_ir.TensorProtocol) -> Array:
    return np.array(_texts(tensor), object) if tensor.dtype == DataType.STRING else tensor.numpy().reshape(-1)


def _detail(left: Array, right: Array, differ: Array, apart: Array, shape: tuple[int, ...]) -> str:
    count = int(differ.sum())
    if not count:
        return "the values are the same"
    counted = f"{count} of {left.size} elements differ"
    if left.dtype == object:
        return f"{counted}, {_place(int(differ.argmax()), left, right, shape)}"
    worst = int(apart.argmax())
    if apart[worst] == 0:
        return f"{counted} in their bits but not in value, {_place(int(differ.argmax()), left, right, shape)}"
    size = "NaN on one side" if (left[worst] == left[worst]) != (right[worst] == right[worst]) else str(apart[worst])
    return f"{counted}, the largest difference {size} {_place(worst, left, right, shape)}"


def _place(flat: int, left: Array, right: Array, shape: tuple[int, ...]) -> str:
    index = [int(i) for i in np.unravel_index(flat, shape)]
    return f"at {index}: {_text(left[flat])} -> {_text(right[flat])}"


def _comparable(left: DataType, right: DataType) -> bool:
    kinds = {element_type(left).kind, element_type(right).kind}
    return left == right or not kinds & {Kind.STRING, Kind.COMPLEX}


def _texts(tensor: onnx_ir.TensorProtocol) -> list[bytes]:
    elements: list[object] = tensor.numpy().reshape(-1).tolist()
    return [element if isinstance(element, bytes) else str(element).encode() for element in elements]


def _text(element: object) -> str:
    text = repr(element) if isinstance(element, str | bytes) else str(element)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
