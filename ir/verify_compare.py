"""Two arrays compared bit by bit, and the first element that differs in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.verify_exact import Mask
from castsmith.ir.verify_promotion import Array, dtype_of
from castsmith.numerics.cast import cast
from castsmith.numerics.types import Kind, element_type, type_name


@dataclass(frozen=True)
class Difference:
    """Where two arrays differ first and how many elements do; `index` is empty for scalars, and where their types
    or shapes differ."""

    index: tuple[int, ...]
    a: str
    b: str
    elements: int
    of: int


def difference(a: Array, b: Array, open_in_a: Mask = None, *, nan_bits: bool = False) -> Difference | None:
    """The first element that differs in any bit, but where `open_in_a` says that any result will do.

    nan_bits: whether NaN of another sign or payload counts.
    """
    if dtype_of(a) != dtype_of(b) or a.shape != b.shape:
        return Difference((), _kind(a), _kind(b), a.size, a.size)
    differ = np.asarray(_bits(a) != _bits(b) if dtype_of(a) != DataType.STRING else _texts(a) != _texts(b))
    if differ.ndim > a.ndim:
        differ = differ.any(axis=-1)
    if not nan_bits and element_type(dtype_of(a)).kind in (Kind.FLOATING, Kind.COMPLEX):
        differ &= ~(np.isnan(a) & np.isnan(b))
    if open_in_a is not None and open_in_a.shape == differ.shape:
        differ &= ~open_in_a
    if not differ.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), differ.shape))
    return Difference(index, element_text(a, index), element_text(b, index), int(differ.sum()), a.size)


def element_text(array: Array, index: tuple[int, ...]) -> str:
    """An element as a number, and as its bits where the number alone might not tell."""
    element, dtype = array[index], dtype_of(array)
    if element_type(dtype).kind is not Kind.FLOATING:
        return repr(element) if dtype is DataType.STRING else str(element)
    code = int(_bits(np.asarray(element).reshape(1))[0])
    return f"{element} (0x{code:0{array.dtype.itemsize * 2}x})"


def on_common_ground(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Both arrays as they can be compared: as they are, or as numbers where one model has them in another type of the
    same kind; None where neither will do, as for values beside their codes."""
    if a.shape != b.shape:
        return None
    types = dtype_of(a), dtype_of(b)
    if types[0] == types[1]:
        return a, b
    kinds = {element_type(dtype).kind for dtype in types}
    if kinds not in ({Kind.FLOATING}, {Kind.INTEGER}) or any(element_type(dtype).bits > 53 for dtype in types):
        return None
    return cast(a, DataType.DOUBLE), cast(b, DataType.DOUBLE)


def _bits(array: Array) -> NDArray[Any]:
    """The bits of each element as an unsigned integer; of a complex number as two, along one dimension more."""
    parts = (2,) if array.dtype.kind == "c" else ()
    size = array.dtype.itemsize // (2 if parts else 1)
    return np.ascontiguousarray(array).view(f"u{size}").reshape((*array.shape, *parts))


def _texts(array: Array) -> NDArray[Any]:
    texts = [e.decode(errors="replace") if isinstance(e, bytes) else str(e) for e in array.reshape(-1).tolist()]
    return np.array(texts, object).reshape(array.shape)


def _kind(array: Array) -> str:
    return f"{type_name(dtype_of(array))}[{', '.join(map(str, array.shape))}]"
