"""Cast and BitCast of arrays.

Sources: the Cast schemas of opsets 1 to 28 (`onnx.defs`), OCP OFP8 1.0, OCP MX 1.0; the BitCast schema of opset 26,
which no later opset changes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import as_array, flag, whole_number
from castsmith.numerics.cast.codec import Array, Conversion, code_dtype, code_mask
from castsmith.numerics.cast.narrowing import is_native, narrow, widen
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
    return elements, _type_of(elements.dtype)


@lru_cache(maxsize=256)
def _type_of(dtype: np.dtype[Any]) -> DataType:
    try:
        return DataType.from_numpy(dtype.newbyteorder("="))
    except TypeError:
        raise ElementTypeError(f"ONNX has no element type for numpy's {dtype}.") from None


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
    compiled: bool = False,
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
        compiled: Convert by kernels that numba compiles, between the types for which these are faster. The bits are the
            same. Needs the extra `castsmith[compiled]`. The first cast of a pair of types compiles its kernel or loads
            it from numba's cache, so that this pays off for many millions of numbers.

    Returns:
        A new array of the shape of `input` and the dtype of `to`; strings are in an object array.

    Raises:
        ElementTypeError: Cast does not support a type at `opset`.
        CastError: Cast does not have these settings, or numba is missing.
        ArgumentTypeError: A setting has the wrong Python type.
    """
    elements, source = elements_of(input)
    try:
        convert = _cast_of(source, to, saturate, round_mode, opset, compiled)
    except TypeError:  # an argument that cannot be a key
        convert = _cast_of.__wrapped__(source, to, saturate, round_mode, opset, compiled)
    with np.errstate(all="ignore"):
        return convert(elements)


@lru_cache(maxsize=1024, typed=True)
def _cast_of(
    source: DataType, to: TypeLike, saturate: bool, round_mode: str, opset: int, compiled: bool
) -> Callable[[Array], Array]:
    """Return the cast of arrays of one type to another: by numpy, from text, or by a conversion of codes."""
    saturate, compiled = flag("saturate", saturate, CastError), flag("compiled", compiled, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    if compiled:
        from castsmith.numerics.cast.compiled import require_numba

        require_numba()
    policy, dtype = policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset), target.numpy()
    from_row, to_row = element_type(source), element_type(target)
    if source is target or _is_numpys_own(from_row, to_row):
        return lambda elements: elements.astype(dtype, "C")
    if source is DataType.STRING:
        return lambda elements: parse_codes(texts_of(elements), to_row, policy).view(dtype).reshape(elements.shape)
    convert = _conversion(from_row, to_row, policy, compiled)

    def by_chunk(elements: Array) -> Array:
        result = np.empty(elements.size, dtype)
        codes = result if target is DataType.STRING else result.view(code_dtype(to_row))
        for where, chunk in code_chunks(elements):
            codes[where] = convert(chunk)
        return result.reshape(elements.shape)

    return by_chunk


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


def _conversion(source: ElementType, target: ElementType, policy: Policy, compiled: bool) -> Conversion:
    """Return how codes of `source` are converted to `target`, where numpy does not convert by the same rule."""
    if target.kind is Kind.STRING:
        return partial(print_codes, row=source)
    if compiled:
        from castsmith.numerics.cast.compiled import kernel_for

        if (kernel := kernel_for(source, target, policy)) is not None:
            return kernel
    if _is_tabled(source, target):
        table = _table(source.dtype, target.dtype, policy)
        return partial(table.take, mode="clip")
    return lambda codes: narrow(widen(codes, source), target, policy)


@lru_cache(maxsize=256)
def _table(source: DataType, target: DataType, policy: Policy) -> Array:
    """Return the code in the type `target` of each code of `source`, which has at most 16 bits."""
    row = element_type(source)
    all_codes = np.arange(2 ** (8 * code_dtype(row).itemsize), dtype=code_dtype(row))
    with np.errstate(all="ignore"):
        return narrow(widen(all_codes, row), element_type(target), policy)


def _is_numpys_own(source: ElementType, target: ElementType) -> bool:
    """True if numpy converts by the same rule: to float and double, and between integers of whole bytes."""
    if not (is_native(source) and is_native(target)):
        return False
    return target.kind is Kind.FLOATING or source.kind is Kind.INTEGER


def _is_tabled(source: ElementType, target: ElementType) -> bool:
    """True if a table of all codes of `source` is fastest: up to 8 bits, float16, and 16 bits to a narrow float."""
    width = code_dtype(source).itemsize
    narrow_target = target.kind is Kind.FLOATING and target.bits <= 16
    return width == 1 or source.dtype is DataType.FLOAT16 or (width == 2 and narrow_target)


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
    if from_row.stored_bits != to_row.stored_bits:
        raise ElementTypeError(
            f"BitCast needs types of the same width; {from_row.name} has {from_row.stored_bits} bits and "
            f"{to_row.name} has {to_row.stored_bits}."
        )
    copied = np.array(elements, dtype=elements.dtype.newbyteorder("="), order="C")
    if from_row.stored_bits < 8:
        codes = copied.view(np.uint8)
        codes &= code_mask(from_row)
    return copied.view(to_row.dtype.numpy())
