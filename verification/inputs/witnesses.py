"""Elements that tell two functions of one element apart: those that inputs have to hold.

They are looked for where the two may differ: at the critical values of every conversion and comparison in them
(`castsmith.numerics.critical`), composed over what comes before: the elements at which the result of the earlier steps
passes a critical value of a later one are found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Answer
from castsmith.numerics.cast.codec import Array, code_dtype
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.checker import Term, Terms, cells_of
from castsmith.verification.evaluate.conversions import bits_of
from castsmith.verification.evaluate.promotion import dtype_of
from castsmith.verification.prove.functions import FAILURES, run

_GRID = 1 << 10
"""Elements between which bisection starts. On 25 random pairs of chains 64 found as much; 1,024 take no longer."""

_PICKED = 6
"""Witnesses of a pair that are fed, spread out, as not all need reach the functions. On those pairs 2 did as well."""

_LEAST_TEXT, _LARGEST_TEXT = 2.0**-20, 2.0**66
"""Numbers as texts: what is outside is rounded alike by all types but double, and is written with many digits."""

COMPARING = operators(lambda row: row.answer is Answer.COMPARISON) | {"Min", "Max", "Clip"}

Mask = NDArray[np.bool_]


def witnesses(terms: Terms, ours: Term, theirs: Term, dtype: DataType, *, nan_bits: bool = False) -> Array | None:
    """Return elements of the type for which the first gives a defined result and the second another, spread out.

    Only where there are none, elements for which the second alone is undefined.

    Returns:
        No element if none was found; None if that cannot be decided.
    """
    domain = _domain(terms, (ours, theirs), dtype)
    masks = None if domain is None else _compared(terms, ours, theirs, domain, nan_bits=nan_bits)
    if domain is None or masks is None:
        return None
    apart, undefined = masks
    candidates = np.sort(domain[apart if apart.any() else undefined])
    picked = (
        candidates[np.unique(np.linspace(0, len(candidates) - 1, _PICKED).astype(int))]
        if len(candidates)
        else candidates
    )
    sizes = [len(text) for text in picked] if dtype is DataType.STRING else np.abs(picked.astype(np.float64))
    return picked[np.argsort(sizes, kind="stable")]


def differing(terms: Terms, ours: Term, theirs: Term, elements: Array, *, nan_bits: bool = False) -> Mask | None:
    """Return for which of the elements the first gives a defined result and the second another or an undefined one.

    Returns:
        None if that is unknown.
    """
    masks = _compared(terms, ours, theirs, elements, nan_bits=nan_bits)
    return None if masks is None else masks[0] | masks[1]


def _compared(terms: Terms, ours: Term, theirs: Term, elements: Array, *, nan_bits: bool) -> tuple[Mask, Mask] | None:
    """Return for which elements the first is defined and the bits differ, and for which only the first is defined."""
    done: dict[Term, Any] = {}
    try:
        (a, open_in_a), (b, open_in_b) = (run(terms, function, elements, done) for function in (ours, theirs))
        a, b = (np.broadcast_to(array, elements.shape) for array in (a, b))
    except FAILURES:
        return None
    if dtype_of(a) != dtype_of(b):
        return None
    apart = np.asarray(bits_of(a) != bits_of(b))
    if not nan_bits and element_type(dtype_of(a)).kind is Kind.FLOATING:
        apart &= ~(np.isnan(a) & np.isnan(b))
    defined = np.True_ if open_in_a is None else ~open_in_a
    return apart & defined, np.broadcast_to(np.False_ if open_in_b is None else open_in_b & defined, elements.shape)


def _domain(terms: Terms, functions: Sequence[Term], dtype: DataType) -> Array | None:
    """Return the elements to try; None for a type of which none are known."""
    row = element_type(dtype)
    if row.kind is Kind.STRING:
        return _texts(functions)
    if row.kind > Kind.FLOATING:
        return None
    if row.bits <= 16:
        return every_value(dtype)
    grid = _grid(dtype)
    points = [grid, critical_values(dtype, *_targets(functions), dtype)]
    visited = set[tuple[Term, Any]]()
    for part in (part for function in functions for part in _parts(function)):
        cells = cells_of(int(dtype)) if part.op == "Table" else None
        points += [] if cells is None else [cells.low]
        for operand, targets, key in _turns(part):
            if (operand, key) not in visited:
                visited.add((operand, key))
                points.append(_crossings(terms, operand, targets, grid))
    return np.concatenate(points)


def _parts(function: Term) -> Iterator[Term]:
    """Yield the function and all functions in it, each once."""
    stack, visited = [function], set[Term]()
    while stack:
        part = stack.pop()
        if part not in visited:
            visited.add(part)
            yield part
            stack += (arg for arg in part.args if arg is not None)


def _targets(functions: Sequence[Term]) -> list[DataType]:
    """Return the numeric types that the functions cast to."""
    parts = [part for function in functions for part in _parts(function) if part.op == "Cast"]
    types = dict.fromkeys(DataType(part.dtype) for part in parts)
    return [dtype for dtype in types if element_type(dtype).kind <= Kind.FLOATING]


def _turns(function: Term) -> Iterator[tuple[Term, Array, Any]]:
    """Yield the operands of the last step, the numbers of each at which its result turns, and a key for these."""
    operands = [arg for arg in function.args if arg is not None]
    if function.op in ("Cast", "Table") and operands[0].op != "source":
        types = DataType(operands[0].dtype), DataType(function.dtype)
        if max(element_type(dtype).kind for dtype in types) <= Kind.FLOATING:
            yield operands[0], critical_values(*types), types[1]
    if function.op in COMPARING:
        constants = {arg: arg.array.reshape(-1) for arg in operands if arg.array is not None and arg.is_constant}
        for operand in (arg for arg in operands if arg not in constants):
            yield from ((operand, neighbours(array), constant) for constant, array in constants.items())


def _texts(functions: Sequence[Term]) -> Array:
    """Return the numbers that matter to the types that the functions cast to, as texts; few of very many digits."""
    texts = {"-0", "nan", "inf", "-inf", "1e3"}
    for dtype in (DataType.INT64, DataType.UINT64, DataType.DOUBLE) if _targets(functions) else ():
        numbers = critical_values(dtype, *_targets(functions))
        size = np.abs(numbers.astype(np.float64))
        texts.update(
            cast(numbers[(size == 0) | ((size > _LEAST_TEXT) & (size < _LARGEST_TEXT))], DataType.STRING).tolist()
        )
    return np.array(sorted(texts), object)


# ---- the order of the elements of a type of 32 or 64 bits


def _ordered(array: Array) -> NDArray[Any]:
    """Return unsigned integers in the order of the elements, of which floats are not NaN."""
    row = element_type(dtype_of(array))
    codes = array.view(code_dtype(row))
    if row.kind is Kind.INTEGER:
        return codes ^ codes.dtype.type((1 << row.bits - 1) if row.signed else 0)
    negative = codes >> codes.dtype.type(row.bits - 1) != 0
    return np.where(negative, ~codes, codes | codes.dtype.type(1 << row.bits - 1))


def _elements(ordered: NDArray[Any], dtype: DataType) -> Array:
    """Return the elements in the places of this order."""
    row = element_type(dtype)
    half = ordered.dtype.type(1 << row.bits - 1)
    if row.kind is Kind.INTEGER:
        return (ordered ^ (half if row.signed else ordered.dtype.type(0))).view(dtype.numpy())
    return np.where(ordered < half, ~ordered, ordered ^ half).view(dtype.numpy())


@lru_cache(maxsize=8)
def _grid(dtype: DataType) -> Array:
    """Return elements of the type in order, from the least to the greatest: evenly spaced by code, and by number."""
    row = element_type(dtype)
    ends = np.array([int(row.min), int(row.max)] if row.kind is Kind.INTEGER else [-math.inf, math.inf], dtype.numpy())
    first, last = (int(end) for end in _ordered(ends))
    codes = [first + (last - first) * part // (_GRID - 1) for part in range(_GRID)]
    integers = np.arange(-64 if row.signed else 0, 65).astype(dtype.numpy())
    grid = np.unique(np.concatenate([np.array(codes, code_dtype(row)), _ordered(integers)]))
    return _elements(grid, dtype)


def neighbours(array: Array) -> Array:
    """Return the elements, each with the elements next to it in its type; NaN is left out."""
    row = element_type(dtype_of(array))
    if row.kind is Kind.INTEGER:
        numbers = [n + step for n in array.reshape(-1).astype(object).tolist() for step in (0, 1, -1)]
        return np.array([n for n in numbers if int(row.min) <= n <= int(row.max)], array.dtype)
    if row.kind is not Kind.FLOATING:
        return array
    codes = array.view(code_dtype(row))
    step_of_code = codes.dtype.type(1)
    near = np.concatenate([codes, codes + step_of_code, codes - step_of_code]).view(array.dtype)
    with np.errstate(all="ignore"):
        return near[~np.isnan(near)]


def _crossings(terms: Terms, function: Term, targets: Array, grid: Array) -> Array:
    """Return the elements where the result of the function passes a target, with their neighbours."""

    def results(ordered: NDArray[Any]) -> Array:
        elements = _elements(ordered, dtype_of(grid))
        return np.broadcast_to(run(terms, function, elements, {})[0], ordered.shape)

    def reached(ordered: NDArray[Any]) -> Mask:
        with np.errstate(all="ignore"):
            return np.asarray(results(ordered) >= passed)

    ordered = _ordered(grid)
    try:
        before = results(ordered)
        with np.errstate(all="ignore"):
            beyond = before >= targets[:, None]
        row, place = np.nonzero(beyond[:, 1:] != beyond[:, :-1])
        lower, upper, passed = ordered[place], ordered[place + 1], targets[row]
        above = reached(lower)
        while np.any(upper - lower > 1):
            middle = lower + (upper - lower) // lower.dtype.type(2)
            below = reached(middle) == above
            lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
    except FAILURES:
        return grid[:0]
    return neighbours(_elements(np.unique(np.concatenate([lower, upper])), dtype_of(grid)))
