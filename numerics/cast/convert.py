"""Cast and BitCast of arrays.

Sources: the Cast schemas of opsets 1 to 28 (`onnx.defs`), OCP OFP8 1.0, OCP MX 1.0; the BitCast schema of opset 26,
which no later opset changes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import as_array, flag, whole_number
from castsmith.numerics.cast.codec import Array, code_dtype, code_mask
from castsmith.numerics.cast.narrowing import is_native, look_up, narrow, narrow_into, widen, widen_half
from castsmith.numerics.cast.settings import NEWEST_OPSET, Policy, policy_for, require_settings, require_type
from castsmith.numerics.cast.strings import parse_codes, print_codes
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type, parse_type

CHUNK = 1 << 16
"""Number of elements handled at a time, so that temporaries stay in the cache."""


def elements_of(array: npt.ArrayLike) -> tuple[Array, DataType]:
    """Return `array` as numpy stores it, and its element type.

    Strings are object arrays of str or bytes, or numpy's own text dtypes.

    Raises:
        ElementTypeError: ONNX has no such type.
    """
    elements: Array = as_array("input", array)
    if elements.dtype.kind in "OUST":
        _require_texts(elements)
        return elements, DataType.STRING
    try:
        return elements, DataType.from_numpy(elements.dtype.newbyteorder("="))
    except TypeError:
        raise ElementTypeError(f"ONNX has no element type for numpy's {elements.dtype}.") from None


def code_chunks(elements: Array) -> Iterator[tuple[slice, Array]]:
    """Yield the codes of numeric `elements` by chunk, in C order and native byte order, with the slice of each."""
    width = elements.dtype.itemsize
    codes = elements.view(np.dtype(f"u{width}").newbyteorder(typing.cast("Any", elements.dtype.byteorder)))
    flat: Any = codes.reshape(-1) if codes.flags.c_contiguous else codes.flat
    for start in range(0, codes.size, CHUNK):
        where = slice(start, min(start + CHUNK, codes.size))
        yield where, flat[where].astype(np.dtype(f"u{width}"), copy=False)


def texts_of(elements: Array) -> list[str]:
    """Return the strings of `elements` in C order. Bytes are UTF-8, as in ONNX; invalid bytes become U+FFFD."""
    return [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in elements.reshape(-1)]


def _require_texts(elements: Array) -> None:
    if elements.dtype.kind != "O":
        return
    for element in typing.cast("list[object]", elements.reshape(-1).tolist()):
        if not isinstance(element, str | bytes):
            name = type(element).__name__
            raise ElementTypeError(f"ONNX has no element type for an array of Python objects such as {name}.")


def cast(
    input: npt.ArrayLike,
    to: TypeLike,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> Array:
    """Convert `input` to the element type `to` as the Cast operator of `opset` does: each element is rounded once.

    The result depends on each element alone, and numpy emits no warnings. What the standard leaves open (see
    `cast_status`) is fixed here: a floating-point number, or one in text, outside an integer's range gives the nearest
    extreme, and NaN gives 0; text that does not spell a number gives NaN, 0 or False; a negative number in float8e8m0
    gives NaN; NaN in float4e2m1 and float6 gives zero of the opposite sign.

    Args:
        input: An array of any shape and layout, of any element type that Cast supports; strings are str or bytes.
        to: The element type, as a name, number, dtype or member of an enumeration (see `parse_type`): "float8e4m3fn",
            "f8e4m3fn", 17, onnx.TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn.
        saturate: The attribute `saturate`; it affects only the 8-bit floating-point types.
        round_mode: The attribute `round_mode`; it affects only float8e8m0.
        opset: The opset whose Cast is computed.

    Returns:
        A new array of the shape of `input` and the dtype of `to`; strings are in an object array.

    Raises:
        ElementTypeError: Cast does not support a type at `opset`.
        CastError: Cast does not have these settings.
        ArgumentTypeError: A setting has the wrong Python type.
    """
    elements, source = elements_of(input)
    saturate = flag("saturate", saturate, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    policy = policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset)
    with np.errstate(all="ignore"):
        if source is target:
            return elements.astype(target.numpy(), order="C", copy=True)
        if source is DataType.STRING:
            codes = parse_codes(texts_of(elements), element_type(target), policy)
            return codes.view(target.numpy()).reshape(elements.shape)
        if _is_numpys_own(element_type(source), element_type(target)):
            return elements.astype(target.numpy(), order="C")
        result = np.empty(elements.size, target.numpy())
        out = result if target is DataType.STRING else result.view(code_dtype(element_type(target)))
        convert = _converter(source, target, policy)
        for where, codes in code_chunks(elements):
            convert(codes, out[where])
        return result.reshape(elements.shape)


def check_cast(source: DataType, to: TypeLike, *, round_mode: str, opset: int) -> DataType:
    """Return the target type of a cast that `opset` has.

    Raises:
        ElementTypeError: Cast does not support one of the types at `opset`.
        CastError: Cast does not have these settings.
    """
    require_settings(round_mode, opset)
    target = parse_type(to)
    require_type(source, opset)
    require_type(target, opset)
    return target


@lru_cache(maxsize=256)
def _converter(source: DataType, target: DataType, policy: Policy) -> Callable[[Array, Array], None]:
    """Return the function that converts codes of the numeric type `source` to codes of `target`, or to str objects."""
    from_row, to_row = element_type(source), element_type(target)
    if target is DataType.STRING:
        return lambda codes, out: np.copyto(out, print_codes(codes, from_row))
    if target is DataType.FLOAT and from_row.bits == 16 and from_row.kind is Kind.FLOATING:
        return lambda codes, out: widen_half(codes, from_row, out)
    if _is_tabled(from_row, to_row):
        every = np.arange(2 ** (8 * code_dtype(from_row).itemsize), dtype=code_dtype(from_row))
        table = narrow(widen(every, from_row), to_row, policy)
        return lambda codes, out: look_up(table, codes, out)
    return lambda codes, out: narrow_into(out, widen(codes, from_row), to_row, policy)


def _is_numpys_own(source: ElementType, target: ElementType) -> bool:
    """True if numpy converts by the same rule: to float and double, and between integers of whole bytes."""
    if not (is_native(source) and is_native(target)):
        return False
    return target.kind is Kind.FLOATING or source.kind is Kind.INTEGER


def _is_tabled(source: ElementType, target: ElementType) -> bool:
    """True if a table of all codes of `source` is fastest: up to 8 bits, and from 16 bits to 16 bits or fewer.

    Integers of 8 bits are numbers of bfloat16, to which ml_dtypes converts them faster.
    """
    width = code_dtype(source).itemsize
    if width == 1:
        return not (is_native(source) and target.dtype is DataType.BFLOAT16)
    return width == 2 and target.kind is Kind.FLOATING and target.bits <= 16


FIRST_OPSET = 26
"""The opset that introduced BitCast."""


def bit_cast(array: npt.ArrayLike, to: TypeLike, *, opset: int = NEWEST_OPSET) -> Array:
    """Return the elements of `array` with their bits read as `to`, in a new array of dtype `to.numpy()`.

    Any layout and byte order is accepted. Types of 2 and 4 bits use the low bits of a byte; the bits above are zero in
    the result. A bool is 8 bits, because the schema treats it as uint8.

    Raises:
        ElementTypeError: A type is text or float6, or the widths differ.
        CastError: The opset has no BitCast.
    """
    if not FIRST_OPSET <= whole_number("opset", opset) <= NEWEST_OPSET:
        raise CastError(f"unsupported opset {opset} for BitCast; supported are {FIRST_OPSET} to {NEWEST_OPSET}.")
    elements, source = elements_of(array)
    from_row, to_row = element_type(source), element_type(parse_type(to))
    for row in (from_row, to_row):
        if row.kind is Kind.STRING or (row.since.cast or 0) > FIRST_OPSET:  # its schema is older than the type
            raise ElementTypeError(f"BitCast does not support {row.name}.")
    if _width(from_row) != _width(to_row):
        raise ElementTypeError(
            f"BitCast needs types of the same width; {from_row.name} has {_width(from_row)} bits and "
            f"{to_row.name} has {_width(to_row)}."
        )
    copied = np.array(elements, dtype=elements.dtype.newbyteorder("="), order="C")
    if _width(from_row) < 8:
        codes = copied.view(np.uint8)
        codes &= code_mask(from_row)
    return copied.view(to_row.dtype.numpy())


def _width(row: ElementType) -> int:
    return 8 if row.kind is Kind.BOOLEAN else row.bits
