"""Conversions by kernels that numba compiles, with the same bits. They are used only where they are asked for.

The facts that a kernel needs of a format come from its row, and from what the codec makes of the numbers at its limits.
A kernel is compiled once on each machine for the types of its arrays: numba keeps it beside this package, or where that
is not writable in the cache of the user.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, Conversion, code_dtype
from castsmith.numerics.cast.narrowing import is_native, narrow
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.errors import CastError
from castsmith.numerics.types import ElementType, Kind, element_type

_FLOAT = element_type(DataType.FLOAT)
_LIMITS = np.array([0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000, 0x7FFF_FFFF, 0x8000_0000], np.uint32).view(np.float32)
"""The largest float, infinity, NaN with the smallest and with the largest payload, -0."""
_NARROWING = {
    DataType.BFLOAT16: "narrow_bfloat16",
    **dict.fromkeys((DataType.FLOAT, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16), "narrow_exact"),
    **dict.fromkeys((DataType.DOUBLE, DataType.UINT32), "narrow_inexact"),
    DataType.INT32: "narrow_int32",
    DataType.INT64: "narrow_int64",
}
_TRUNCATING = {
    DataType.BFLOAT16: "truncate_bfloat16",
    **dict.fromkeys((DataType.FLOAT, DataType.DOUBLE), "truncate"),
}
_WIDENING = {DataType.BFLOAT16: "widen_bfloat16", DataType.FLOAT16: "widen"}
"""The kernel for each source: to a floating-point type of 8 or 16 bits, to integers of 8 bits, to float and double."""


def require_numba() -> None:
    """Raise CastError if numba cannot be imported."""
    try:
        import_module("numba")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "numba"
        reason = "" if missing else f", which cannot be imported ({error})"
        raise CastError(f"compiled=True needs numba{reason}: pip install 'castsmith[compiled]'.") from None


def kernel_name(source: ElementType, target: ElementType) -> str | None:
    """Return the name of the kernel for the types; None if the conversion by numpy is as fast."""
    if target.kind is Kind.INTEGER:
        return _TRUNCATING.get(source.dtype) if target.bits == 8 else None
    if target.bits in (8, 16) and target.signed and target.has_nan:
        return _NARROWING.get(source.dtype)
    return _WIDENING.get(source.dtype) if target.dtype in (DataType.FLOAT, DataType.DOUBLE) else None


def kernel_for(source: ElementType, target: ElementType, policy: Policy) -> Conversion | None:
    """Return the compiled conversion; None if the conversion by numpy is as fast."""
    name = kernel_name(source, target)
    if name is None:
        return None
    if target.kind is Kind.INTEGER:
        number = np.float64 if source.dtype is DataType.DOUBLE else np.float32
        facts = number(target.min), number(target.max), number(0)
    elif target.bits > 16:
        facts = (widen_facts(source),) if source.dtype is DataType.FLOAT16 else ()
    else:
        facts = (None if target.dtype is DataType.BFLOAT16 else narrow_facts(target, policy),)
    stored_dtype = source.dtype.numpy() if is_native(source) else code_dtype(source)
    result_dtype = target.dtype.numpy() if target.bits > 16 else code_dtype(target)
    run = _compiled(name, stored_dtype, result_dtype, tuple(import_module("numba").typeof(fact) for fact in facts))

    def convert(codes: Array) -> Array:
        out = np.empty(codes.size, result_dtype)
        run(codes.view(stored_dtype), out, *facts)
        return out.view(code_dtype(target))

    return convert


def narrow_facts(row: ElementType, policy: Policy) -> tuple[np.uint32, ...]:
    """Return the facts of a format of 8 or 16 bits with a sign and NaN, and fewer exponents than float.

    What float's code is shifted by; what is added to it first to round it and to change the bias; the code of float of
    the least normal number, and of the number of which that of the format's least number is the last bit; the codes of
    too large a number, infinity and NaN; the bits of NaN that vary; the place of the sign; the code of -0.
    """
    shift = _FLOAT.mantissa_bits - row.mantissa_bits
    base = ((row.bias - _FLOAT.bias) << _FLOAT.mantissa_bits) + (1 << (shift - 1)) - 1
    least = (row.min_exponent + _FLOAT.bias) << _FLOAT.mantissa_bits
    magic = least + (shift << _FLOAT.mantissa_bits)
    with np.errstate(all="ignore"):
        too_large, infinity, nan, other_nan, zero = narrow(_LIMITS, row, policy).tolist()
    facts = shift, base, least, magic, too_large, infinity, nan, nan ^ other_nan, row.bits - 1, zero
    return tuple(np.uint32(fact % 2**32) for fact in facts)


def widen_facts(row: ElementType) -> tuple[np.uint32, ...]:
    """Return the facts of a format of 16 bits with the specials of IEEE 754: a shift, a bias, and infinity shifted."""
    shift = _FLOAT.mantissa_bits - row.mantissa_bits
    bias = (_FLOAT.bias - row.bias) << _FLOAT.mantissa_bits
    infinity = (2**row.exponent_bits - 1) << _FLOAT.mantissa_bits
    return np.uint32(shift), np.uint32(bias), np.uint32(infinity)


@lru_cache(maxsize=64)
def _compiled(
    name: str, stored_dtype: np.dtype[Any], result_dtype: np.dtype[Any], facts: tuple[Any, ...]
) -> Callable[..., None]:
    """Return the kernel compiled for arrays of two types and facts of the types of numba."""
    numba: Any = import_module("numba")
    kernel = getattr(import_module("castsmith.numerics.cast.kernels"), name)
    # Arrays that are read-only or not aligned are taken too: numba compiles a kernel for each kind otherwise.
    array = numba.types.Array(numba.from_dtype(stored_dtype), 1, "C", readonly=True, aligned=False)
    signature = numba.void(array, numba.from_dtype(result_dtype)[::1], *facts)
    try:
        return numba.njit(signature, nogil=True, cache=True)(kernel)
    except RuntimeError:  # numba finds no folder that it may write to
        return numba.njit(signature, nogil=True)(kernel)
