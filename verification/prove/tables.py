"""Functions of one element, known for every element: programs of operators on a single source.

A program is run on every element, or on one of each class that it can distinguish (`prove.classes`); one that only
casts is the shortest chain of casts that it collapses to (`castsmith.numerics.exactness`). Two programs that agree
there are the same function; of any other program nothing is known.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.codec import code_dtype
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.exactness import chain_collapses
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.prove.classes import OF_32_BITS, classes_of, domain_of
from castsmith.verification.prove.programs import FAILURES, SOURCE, Array, Program, run, step

BITS_OF_NAN = " bits of NaN"
"""The end of a digest if the function may distinguish NaNs."""


def digest(program: Program, source: DataType, *, strict: bool) -> tuple[str, DataType] | None:
    """Return a text that only the same function has, and the type of its results; None for an unknown function.

    `same` is the identity. strict: the payload of a NaN counts, not only its sign.
    """
    try:
        chain = _chain(program, source, strict=strict)
        program = program if chain is None else _written_out(chain)
        domain = domain_of(program, source)
        if domain is None:
            return None if chain is None else _chain_text(chain, source)
        result, undefined = run(program, domain, {})
    except FAILURES:
        return None
    if result.shape != domain.shape or object in (result.dtype, domain.dtype):
        return None
    dtype = DataType.from_numpy(result.dtype)
    bits, before = (_bits(array, strict=strict) for array in (result, domain))
    classes = source in OF_32_BITS and domain is classes_of(source)  # one number of each class: others give the same
    if not classes and dtype == source and undefined is None and np.array_equal(bits, before):
        return "same", dtype
    marks = b"" if undefined is None else np.packbits(undefined).tobytes()
    defined = bits if undefined is None else np.where(undefined, bits.dtype.type(0), bits)
    text = f"{len(domain)} {int(source)} {int(dtype)} {hashlib.sha256(defined.tobytes() + marks).hexdigest()}"
    return text + (BITS_OF_NAN if _tells_nan(domain, defined) else ""), dtype


def _bits(array: Array, *, strict: bool) -> Array:
    """Return the bits of the elements; unless `strict`, those of a NaN without its payload."""
    dtype = DataType.from_numpy(array.dtype)
    row = element_type(dtype)
    bits = np.ascontiguousarray(array).view(code_dtype(row))
    if strict or row.kind is not Kind.FLOATING or not row.has_nan:
        return bits
    with np.errstate(all="ignore"):
        nan = np.isnan(array)
        signs = np.signbit(array[nan].astype(np.float64))
    quiet = np.ascontiguousarray(cast(np.array([np.nan, -np.nan]), dtype)).view(bits.dtype)
    bits = bits.copy()
    bits[nan] = np.where(signs, quiet[1], quiet[0])
    return bits


def _tells_nan(domain: Array, results: Array) -> bool:
    """True if two NaN of one sign have different results."""
    if element_type(DataType.from_numpy(domain.dtype)).kind is not Kind.FLOATING:
        return False
    with np.errstate(all="ignore"):
        nan = np.isnan(domain)
        signs = np.signbit(domain[nan].astype(np.float64))
    return any(len(np.unique(results[nan][signs == sign])) > 1 for sign in (True, False))


def _chain(program: Program, source: DataType, *, strict: bool) -> list[tuple[Any, ...]] | None:
    """Return the remaining casts of a program that only casts; None for any other."""
    casts: list[tuple[Any, ...]] = []
    while program.op == "Cast":
        casts.insert(0, program.settings)
        (program,) = program.arguments
    if program.op != "source" or not casts:
        return None
    at = 0
    while at + 1 < len(casts) and not (strict and element_type(source).kind is Kind.FLOATING):
        before = source if at == 0 else DataType(casts[at - 1][0])
        if _collapses(before, casts[at], casts[at + 1]):
            del casts[at]
            at = max(at - 1, 0)
        else:
            at += 1
    return casts


def _written_out(casts: list[tuple[Any, ...]]) -> Program:
    program = SOURCE
    for settings in casts:
        program = step("Cast", settings, [program])
    return program


def _chain_text(casts: list[tuple[Any, ...]], source: DataType) -> tuple[str, DataType]:
    dtype = DataType(casts[-1][0])
    if len(casts) == 1 and dtype == source:
        return "same", dtype
    return f"casts {int(source)} {[(settings[0], _policy(*settings)) for settings in casts]}", dtype


def _collapses(source: DataType, first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """True if two casts in a row equal the second alone."""
    to, saturate, mode, _ = first
    if _policy(*first) != _policy(to, saturate, mode, second[3]):
        return False
    how = {"first_saturate": saturate, "first_round_mode": mode, "opset": second[3]}
    how |= {"second_saturate": second[1], "second_round_mode": second[2]}
    return bool(chain_collapses(source, DataType(to), DataType(second[0]), **how))


def _policy(to: int, saturate: bool, mode: str, opset: int) -> str:
    """Return the rounding and overflow behaviour of a cast, as text."""
    return repr(policy_for(DataType(to), saturate=saturate, round_mode=mode, opset=opset))
