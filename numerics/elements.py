"""Arrays as they come: their element type, and their elements as unsigned codes, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.codec import Array
from castsmith.numerics.errors import ElementTypeError

CHUNK = 1 << 16
"""Elements handled at a time, so that temporaries stay in the cache."""


def elements_of(array: npt.ArrayLike) -> tuple[Array, DataType]:
    """`array` as numpy has it, and its element type.

    Strings are object arrays of str or bytes and numpy's own kinds of text. Raises ElementTypeError where ONNX has no
    such type.
    """
    elements: Array = np.asarray(array)
    if elements.dtype.kind in "OUST":
        _require_texts(elements)
        return elements, DataType.STRING
    try:
        return elements, DataType.from_numpy(elements.dtype.newbyteorder("="))
    except TypeError:
        raise ElementTypeError(f"ONNX has no element type for numpy's {elements.dtype}.") from None


def code_chunks(elements: Array) -> Iterator[tuple[slice, Array]]:
    """The codes of numeric `elements` in C order, unsigned and in native byte order, with where each chunk lies."""
    width = elements.dtype.itemsize
    codes = elements.view(np.dtype(f"u{width}").newbyteorder(cast("Any", elements.dtype.byteorder)))
    flat: Any = codes.reshape(-1) if codes.flags.c_contiguous else codes.flat
    for start in range(0, codes.size, CHUNK):
        where = slice(start, min(start + CHUNK, codes.size))
        yield where, flat[where].astype(np.dtype(f"u{width}"), copy=False)


def texts_of(elements: Array) -> list[str]:
    """The strings of `elements` in C order. Bytes are UTF-8, as in ONNX; what is not becomes U+FFFD."""
    return [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in elements.reshape(-1)]


def _require_texts(elements: Array) -> None:
    if elements.dtype.kind != "O":
        return
    for element in cast("list[object]", elements.reshape(-1).tolist()):
        if not isinstance(element, str | bytes):
            name = type(element).__name__
            raise ElementTypeError(f"ONNX has no element type for an array of Python objects such as {name}.")
