"""Cast and BitCast of arrays.

Sources: the Cast schemas of opsets 1 to 28 (`onnx.defs`), OCP OFP8 1.0, OCP MX 1.0; the BitCast schema of opset 26,
which no later opset changes.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.arguments import as_array, flag, whole_number
from castsmith.numerics.cast.codec import Array, Workspace, code_dtype, code_mask
from castsmith.numerics.cast.integers import reports, truncates
from castsmith.numerics.cast.narrowing import (
    is_native,
    look_up,
    narrow,
    narrow_integers,
    narrow_into,
    narrows_to_bfloat16,
    widen,
    widen_half,
    widens_bfloat16,
)
from castsmith.numerics.cast.settings import NEWEST_OPSET, Policy, policy_for, require_settings, require_type
from castsmith.numerics.cast.strings import parse_codes, print_codes
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type, parse_type

CHUNK = 1 << 16
"""Number of elements handled at a time, so that temporaries stay in the cache."""
_LOOKED_AT, _REPORTED = 1 << 21, 1 << 24
"""Numbers of bytes handled at a time by conversions that look at their input first, and by those that need not."""


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


def code_chunks(elements: Array, chunk: int = CHUNK) -> Iterator[tuple[slice, Array]]:
    """Yield the codes of numeric `elements` by chunk, in C order and native byte order, with the slice of each.

    Elements that must be copied for it come in chunks of at most `CHUNK`.
    """
    width = elements.dtype.itemsize
    codes = elements.view(np.dtype(f"u{width}").newbyteorder(typing.cast("Any", elements.dtype.byteorder)))
    in_place = codes.flags.c_contiguous and codes.dtype.isnative
    flat: Any = codes.reshape(-1) if codes.flags.c_contiguous else codes.flat
    step = chunk if in_place else min(chunk, CHUNK)
    for start in range(0, codes.size, step):
        where = slice(start, min(start + step, codes.size))
        yield where, flat[where] if in_place else flat[where].astype(np.dtype(f"u{width}"), copy=False)


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
        plan = _plan(source, to, saturate, round_mode, opset, compiled)
    except TypeError:  # an argument that cannot be a key
        plan = _plan.__wrapped__(source, to, saturate, round_mode, opset, compiled)
    if plan.conversion is not None:
        result = np.empty(elements.size, plan.dtype)
        _convert(elements, result.view(plan.conversion.codes), plan.conversion)
        return result.reshape(elements.shape)
    if elements.dtype.kind in "biu":  # numpy never warns of these
        return elements.astype(plan.dtype, "C")
    with np.errstate(all="ignore"):
        if plan.text is None:
            return elements.astype(plan.dtype, "C")
        return parse_codes(texts_of(elements), *plan.text).view(plan.dtype).reshape(elements.shape)


class _Plan(NamedTuple):
    """The cast of one type to another: by a conversion, by numpy, or from text to a type by its settings."""

    dtype: np.dtype[Any]
    conversion: _Conversion | None = None
    text: tuple[ElementType, Policy] | None = None


@lru_cache(maxsize=1024, typed=True)
def _plan(source: DataType, to: TypeLike, saturate: bool, round_mode: str, opset: int, compiled: bool) -> _Plan:
    saturate, compiled = flag("saturate", saturate, CastError), flag("compiled", compiled, CastError)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    if compiled:
        from castsmith.numerics.cast.compiled import require_numba

        require_numba()
    policy, dtype = policy_for(target, saturate=saturate, round_mode=round_mode, opset=opset), target.numpy()
    from_row, to_row = element_type(source), element_type(target)
    if source is target or _is_numpys_own(from_row, to_row):
        return _Plan(dtype)
    if source is DataType.STRING:
        return _Plan(dtype, text=(to_row, policy))
    with np.errstate(all="ignore"):
        return _Plan(dtype, _conversion(from_row, to_row, policy, compiled))


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


def _convert(elements: Array, out: Array, conversion: _Conversion) -> None:
    """Write the converted elements to `out`; many in two threads, with chunks of half the size for the same memory.

    Conversions by numpy alone are left to one thread: they wait for memory, and a second thread does not help.
    """

    def work() -> None:
        workspace = Workspace()
        with np.errstate(all="ignore"):  # of this thread
            for where, codes in chunks:
                function(codes, out[where], workspace)

    function, size = conversion.function, elements.size
    if conversion.for_many is not None and size >= MANY:
        function = conversion.for_many()
    elif 0 < size <= conversion.chunk and elements.flags.c_contiguous and elements.dtype.isnative:
        codes = elements.reshape(-1).view(conversion.taken)
        if conversion.is_silent:
            return function(codes, out, Workspace())
        with np.errstate(all="ignore"):
            return function(codes, out, Workspace())
    if size <= MOST_ALONE or not conversion.is_slow:
        chunks = code_chunks(elements, conversion.chunk)
        return work()
    chunks = SharedIterator(code_chunks(elements, conversion.chunk // 2))
    return in_two_threads(work)


MANY = 1 << 20
"""Number of elements from which codes of 8 bits are looked up in pairs, in a table that takes 0.2 ms to make."""

MOST_ALONE = 1 << 22
"""The largest number of elements that one thread converts: that takes some milliseconds, and starting another 0.1 ms.

When a model is saved smaller pieces are converted in threads, which then have no others below them.
"""


def in_two_threads(work: Callable[[], None]) -> None:
    """Call `work` in this thread and in another at the same time; raise the error of either.

    numpy computes without the lock of the interpreter.
    """
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    other = threading.Thread(target=beside, name="castsmith-cast")
    try:
        other.start()
    except RuntimeError:  # no thread can be started, as in WebAssembly
        work()
        return
    try:
        work()
    finally:
        other.join()
    if failed:
        raise failed[0]


class SharedIterator(Iterator[tuple[slice, Array]]):
    """An iterator that several threads may use: each item goes to one of them."""

    def __init__(self, items: Iterator[tuple[slice, Array]]) -> None:
        self._items, self._lock = items, threading.Lock()

    def __next__(self) -> tuple[slice, Array]:
        with self._lock:
            return next(self._items)


_Function = Callable[[Array, Array, Workspace], None]


class _Conversion(NamedTuple):
    """The conversion of one type to another: the function reads codes, at most `chunk` of them, and writes `codes`.

    `is_slow` tells that it makes several passes over the numbers, or looks each up, without the interpreter's lock.
    `is_silent` tells that numpy has nothing to warn of. `for_many` returns another function for arrays of at least
    `MANY` elements.
    """

    taken: np.dtype[Any]
    codes: np.dtype[Any]
    function: _Function
    chunk: int
    is_slow: bool = False
    is_silent: bool = False
    for_many: Callable[[], _Function] | None = None


def _conversion(source: ElementType, target: ElementType, policy: Policy, compiled: bool) -> _Conversion:
    """Return how the type `source` is converted to `target`, where numpy does not by the same rule."""
    taken = code_dtype(source)
    if target.kind is Kind.STRING:
        return _Conversion(taken, target.dtype.numpy(), _printer(source), CHUNK)
    codes = code_dtype(target)
    if compiled:
        from castsmith.numerics.cast.compiled import kernel_for

        if (kernel := kernel_for(source, target, policy)) is not None:
            return _Conversion(taken, codes, kernel, _REPORTED // taken.itemsize, is_silent=True)
    function, converts = _converter(source.dtype, target.dtype, policy), _quick(source, target)
    if converts is None:
        by_pairs = taken.itemsize == 1 and codes.itemsize <= 4
        for_many = partial(_by_pairs, source.dtype, target.dtype, policy) if by_pairs else None
        silent = _is_tabled(source, target)
        return _Conversion(taken, codes, function, CHUNK, is_slow=True, is_silent=silent, for_many=for_many)

    def convert(codes: Array, out: Array, work: Workspace) -> None:
        if not converts(codes, out):
            for start in range(0, codes.size, CHUNK):
                function(codes[start : start + CHUNK], out[start : start + CHUNK], work)

    whole = target.kind is Kind.INTEGER and source.kind is Kind.FLOATING
    whole = whole and reports(source.dtype.numpy(), target.dtype.numpy())
    return _Conversion(taken, codes, convert, (_REPORTED if whole else _LOOKED_AT) // taken.itemsize)


def _printer(source: ElementType) -> _Function:
    return lambda codes, out, _work: np.copyto(out, print_codes(codes, source))


def _quick(source: ElementType, target: ElementType) -> Callable[[Array, Array], bool] | None:
    """Return a function that converts codes by numpy or ml_dtypes, and returns False if they may be wrong somewhere.

    None for types between which they are wrong too often.
    """
    from_dtype, to_dtype = source.dtype.numpy(), target.dtype.numpy()
    is_float = source.dtype in (DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16)
    if is_float and target.kind is Kind.INTEGER and target.bits >= 8:
        return lambda codes, out: truncates(out.view(to_dtype), codes.view(from_dtype), target.bits)
    if source.dtype is DataType.BFLOAT16 and is_native(target):
        return lambda codes, out: widens_bfloat16(codes, out.view(to_dtype))
    if target.dtype is DataType.BFLOAT16 and is_native(source) and source.dtype is not DataType.DOUBLE:
        return lambda codes, out: narrows_to_bfloat16(out, codes.view(from_dtype))
    return None


@lru_cache(maxsize=256)
def _converter(source: DataType, target: DataType, policy: Policy) -> _Function:
    """Return the function that converts codes by a table of all codes, or by a wider type."""
    from_row, to_row = element_type(source), element_type(target)
    if source is DataType.FLOAT16 and target in (DataType.FLOAT, DataType.DOUBLE):
        return lambda codes, out, work: widen_half(codes, out.view(target.numpy()), work)
    if _is_tabled(from_row, to_row):
        table = _table(from_row, to_row, policy)
        return lambda codes, out, _work: look_up(table, codes, out)
    if from_row.kind is Kind.INTEGER and to_row.kind is Kind.FLOATING and to_row.bits <= 8:
        return lambda codes, out, work: narrow_integers(out, widen(codes, from_row), to_row, policy, work)
    return lambda codes, out, work: narrow_into(out, widen(codes, from_row), to_row, policy, work)


@lru_cache(maxsize=16)
def _by_pairs(source: DataType, target: DataType, policy: Policy) -> _Function:
    """Return the function that looks two codes of 8 bits up at once, in a table of all pairs."""
    table = _table(element_type(source), element_type(target), policy)
    both = np.dtype(f"u{2 * table.itemsize}")
    pairs = table[np.arange(2**16, dtype=np.uint16).view(np.uint8)].view(both)

    def convert(codes: Array, out: Array, _work: Workspace) -> None:
        even = codes.size & ~1
        look_up(pairs, codes[:even].view(np.uint16), out[:even].view(both))
        look_up(table, codes[even:], out[even:])

    return convert


def _table(source: ElementType, target: ElementType, policy: Policy) -> Array:
    """Return the code in the type `target` of each code of `source`, which has at most 16 bits."""
    every = np.arange(2 ** (8 * code_dtype(source).itemsize), dtype=code_dtype(source))
    with np.errstate(all="ignore"):
        return narrow(widen(every, source), target, policy)


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
