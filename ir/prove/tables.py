"""Functions of one element, known for every element: programs of operators on a single source.

A program of a source of at most 16 bits is run on all of them. One that only casts is the shortest chain of casts that
it collapses to (`castsmith.numerics.exactness`). One of a float or 32-bit integer whose steps depend only on its
upper 20 bits and on whether any of the lower 12 is set, as every rounding to float16 or narrower does, is run on one
number of each of those 2**21 classes. Two programs that agree there are the same function; other programs
are unknown.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.ops import Answer, traits_of
from castsmith.numerics.cast import bit_cast, cast, code_dtype, policy_for
from castsmith.numerics.critical import every_value
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.exactness import chain_collapses
from castsmith.numerics.status import Definedness, cast_status
from castsmith.numerics.types import Kind, element_type

Array = NDArray[Any]

KEPT = 20
_LOW = (1 << 32 - KEPT) - 1
_FEWEST_MANTISSA_BITS = 10
_OF_32_BITS = (DataType.FLOAT, DataType.INT32, DataType.UINT32)


@dataclass(frozen=True, eq=False)
class Program:
    """A computation from an element: `source` itself, a `constant`, or an operator on other programs.

    Attributes:
        op: The name of the operator.
        settings: For a cast `to`, `saturate`, `round_mode` and the opset; for a shift its direction.
    """

    op: str
    settings: tuple[Any, ...] = ()
    arguments: tuple[Program, ...] = ()
    constant: bytes = b""
    size: int = 1


SOURCE = Program("source")


def constant(array: Array, dtype: DataType) -> Program:
    """Return a program that is a scalar or a table."""
    return Program("constant", (int(dtype), array.shape), (), np.ascontiguousarray(array).tobytes())


def step(op: str, settings: tuple[Any, ...], arguments: Sequence[Program]) -> Program:
    """Return an operator on programs."""
    return Program(op, settings, tuple(arguments), b"", 1 + sum(each.size for each in arguments))


class _Sees(enum.Enum):
    """Dependence of a program on the 32 bits of its source."""

    NOTHING = "a constant"
    ALL = "the source, or its bits as another type"
    SOME = "the source with a mask that keeps some of the lower bits"
    CLASS = "the upper bits and whether any lower one is set"
    UNKNOWN = "more than that"


BITS_OF_NAN = " bits of NaN"
"""The end of a digest if the function may distinguish NaNs."""


def digest(program: Program, source: DataType, *, strict: bool) -> tuple[str, DataType] | None:
    """Return a text that only the same function has, and the type of its results; None for an unknown function.

    `same` is the identity. strict: the payload of a NaN counts, not only its sign.
    """
    try:
        chain = _chain(program, source, strict=strict)
        program = program if chain is None else _written_out(chain)
        domain = _domain(program, source)
        if domain is None:
            return None if chain is None else _chain_text(chain, source)
        result, undefined = _run(program, domain, {})
    except (CastsmithError, ValueError, TypeError, KeyError, IndexError):
        return None
    if result.shape != domain.shape:
        return None
    dtype = DataType.from_numpy(result.dtype)
    bits, before = (_bits(array, strict=strict) for array in (result, domain))
    classes = source in _OF_32_BITS and domain is _classes(source)  # one number of each class: others give the same
    if not classes and dtype == source and undefined is None and np.array_equal(bits, before):
        return "same", dtype
    marks = b"" if undefined is None else np.packbits(undefined).tobytes()
    known = bits if undefined is None else np.where(undefined, bits.dtype.type(0), bits)
    text = f"{len(domain)} {int(source)} {int(dtype)} {hashlib.sha256(known.tobytes() + marks).hexdigest()}"
    return text + (BITS_OF_NAN if _tells_nan(domain, known) else ""), dtype


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


def _domain(program: Program, source: DataType) -> Array | None:
    """Return one element of each class that the program does not distinguish; None if there are too many."""
    row = element_type(source)
    if row.kind > Kind.FLOATING:
        return None
    if row.bits <= 16:
        return _every(source)
    sees: dict[Program, _Sees] = {}
    if source in _OF_32_BITS and _sees(program, source, sees) is _Sees.CLASS:
        return _classes(source)
    return None


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


def agree(ours: Program, theirs: Program, source: DataType, *, strict: bool) -> bool:
    """True if both give the same for every element for which the first gives a defined result."""
    try:
        domain = _every(source) if element_type(source).bits <= 16 else _classes(source)
        if any(domain is not _domain(program, source) for program in (ours, theirs)):
            return False
        (a, undefined), (b, _) = (_run(program, domain, {}) for program in (ours, theirs))
    except (CastsmithError, ValueError, TypeError, KeyError, IndexError):
        return False
    if a.dtype != b.dtype or a.shape != domain.shape or b.shape != domain.shape:
        return False
    same = _bits(a, strict=strict) == _bits(b, strict=strict)
    return bool(np.all(same if undefined is None else same | undefined))


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


def evaluated(program: Program) -> Array | None:
    """Return the result of a program of constants; None if it is undefined."""
    try:
        result, undefined = _run(program, np.zeros(0), {})
    except (CastsmithError, ValueError, TypeError, KeyError, IndexError):
        return None
    return None if undefined is not None else result


@lru_cache(maxsize=8)
def _every(source: DataType) -> Array:
    every = np.array([False, True]) if source is DataType.BOOL else every_value(source).copy()
    every.flags.writeable = False
    return every


@lru_cache(maxsize=3)
def _classes(source: DataType) -> Array:
    upper = np.arange(1 << KEPT, dtype=np.uint32) << np.uint32(32 - KEPT)
    classes = np.concatenate([upper, upper | np.uint32(1)]).view(source.numpy())
    classes.flags.writeable = False
    return classes


def _sees(program: Program, source: DataType, known: dict[Program, _Sees]) -> _Sees:
    """Return the dependence of the program on its source of 32 bits."""
    if program not in known:
        known[program] = _sees_anew(program, source, known)
    return known[program]


def _sees_anew(program: Program, source: DataType, known: dict[Program, _Sees]) -> _Sees:
    if program.op == "constant":
        return _Sees.NOTHING
    if program.op == "source":
        return _Sees.ALL
    seen = [_sees(argument, source, known) for argument in program.arguments]
    if all(each in (_Sees.NOTHING, _Sees.CLASS) for each in seen):
        return _Sees.CLASS
    others = [value for each, value in zip(seen, program.arguments, strict=True) if each is _Sees.NOTHING]
    number = _scalar(others[0]) if len(others) == 1 else None
    if seen[0] is _Sees.ALL:
        return _sees_all(program, source, number)
    if seen[0] is _Sees.SOME and _tells_zero(program, number) and _masks_lower_bits(program.arguments[0]):
        return _Sees.CLASS
    return _Sees.UNKNOWN


def _sees_all(program: Program, source: DataType, number: Any) -> _Sees:
    """Return the dependence of an operator on the source, or on its bits, in its first argument."""
    as_bits = program.arguments[0].op == "BitCast" or source is DataType.UINT32
    if program.op == "BitCast":
        return _Sees.ALL if program.settings[0] in (int(DataType.UINT32), int(DataType.INT32)) else _Sees.UNKNOWN
    if as_bits:
        unsigned = source is DataType.UINT32 or program.arguments[0].settings[:1] == (int(DataType.UINT32),)
        if program.op == "BitShift" and unsigned and number is not None and program.settings == ("RIGHT",):
            return _Sees.CLASS if 32 - KEPT <= int(number) < 32 else _Sees.UNKNOWN
        if program.op == "BitwiseAnd" and number is not None:
            return _Sees.SOME if int(number) & _LOW else _Sees.CLASS
        return _Sees.UNKNOWN
    if source is not DataType.FLOAT or program.arguments[0].op not in ("source", "Add"):
        return _Sees.UNKNOWN
    if program.op == "Add" and program.arguments[1].op == "constant" and program.arguments[1].constant == bytes(4):
        return _Sees.ALL  # the same number, except for -0
    if program.op == "Cast":
        row = element_type(DataType(program.settings[0]))
        narrow = row.kind is Kind.FLOATING and row.mantissa_bits <= _FEWEST_MANTISSA_BITS
        return _Sees.CLASS if narrow or row.kind is Kind.BOOLEAN else _Sees.UNKNOWN
    if program.op == "IsNaN":
        return _Sees.CLASS
    compared = traits_of("", program.op).answer is Answer.COMPARISON and number is not None
    if compared and not int(np.asarray(number, np.float32).view(np.uint32)) & _LOW:
        return _Sees.CLASS
    return _Sees.UNKNOWN


def _tells_zero(program: Program, number: Any) -> bool:
    """True if the operator depends on its first argument, a masked source, only by its being zero."""
    if program.op == "Cast":
        return program.settings[0] == int(DataType.BOOL)
    return (program.op == "Min" and number == 1) or (program.op in ("Equal", "Greater") and number == 0)


def _masks_lower_bits(program: Program) -> bool:
    """True if the mask keeps every lower bit."""
    masks = [_scalar(argument) for argument in program.arguments if argument.op == "constant"]
    unsigned = program.arguments[0].op == "BitCast" and program.arguments[0].settings[0] == int(DataType.UINT32)
    return unsigned and len(masks) == 1 and int(masks[0]) & _LOW == _LOW


def _scalar(program: Program) -> Any:
    dtype, shape = DataType(program.settings[0]), program.settings[1]
    size: int = math.prod(shape)
    if size != 1 or element_type(dtype).bits < 32:
        return None
    numbers: list[Any] = np.frombuffer(program.constant, dtype.numpy()).tolist()
    return numbers[0]


Run = tuple[Array, NDArray[np.bool_] | None]


def _run(program: Program, domain: Array, done: dict[Program, Run]) -> Run:
    """Return the results of the program, and which of them the standard leaves undefined."""
    if program not in done:
        done[program] = _run_anew(program, domain, done)
    return done[program]


def _run_anew(program: Program, domain: Array, done: dict[Program, Run]) -> Run:
    if program.op == "source":
        return domain, None
    if program.op == "constant":
        dtype, shape = DataType(program.settings[0]), program.settings[1]
        return np.frombuffer(program.constant, dtype.numpy()).reshape(shape), None
    runs = [_run(argument, domain, done) for argument in program.arguments]
    arrays = [array for array, _ in runs]
    first = 1 if program.op in ("Where", "Gather", "GatherElements") else 0
    if len({array.dtype for array in arrays[first:]}) > 1:
        raise ValueError("operands of several types")
    if program.op == "Where":
        marks = [np.zeros(domain.shape, np.bool_) if mark is None else mark for _, mark in runs]
        undefined = marks[0] | np.where(arrays[0], marks[1], marks[2])
        return np.where(*arrays), undefined if undefined.any() else None
    present = [mark for _, mark in runs if mark is not None]
    undefined = np.logical_or.reduce(present) if present else None
    if program.op == "Cast":
        to, saturate, round_mode, opset = program.settings
        how: dict[str, Any] = {"saturate": saturate, "round_mode": round_mode, "opset": opset}
        result = arrays[0] if DataType.from_numpy(arrays[0].dtype) == to else cast(arrays[0], DataType(to), **how)
        fresh = None
        if result is not arrays[0]:
            open_here = cast_status(arrays[0], DataType(to), **how) == Definedness.UNDEFINED
            fresh = open_here if open_here.any() else None
        both = [mark for mark in (undefined, fresh) if mark is not None]
        return result, np.logical_or.reduce(both) if both else None
    if program.op == "BitCast":
        return bit_cast(arrays[0], DataType(program.settings[0])), undefined
    with np.errstate(all="ignore"):
        return _OPERATORS[program.op](program.settings, *arrays), undefined


def _table(_: tuple[Any, ...], table: Array, index: Array) -> Array:
    """Run Gather or GatherElements of a vector: negative indices count from its end."""
    if table.ndim != 1:
        raise ValueError("not a vector")
    return table[index.astype(np.int64)]


def _shift(settings: tuple[Any, ...], array: Array, by: Array) -> Array:
    return np.asarray(np.right_shift(array, by) if settings == ("RIGHT",) else np.left_shift(array, by))


def _whole(function: Callable[..., Any]) -> Callable[..., Array]:
    """Run the function on integers only: results for zeros of both signs or NaN are left to runtimes."""

    def run(_: tuple[Any, ...], *arrays: Array) -> Array:
        if any(array.dtype.kind not in "iu" for array in arrays):
            raise ValueError("not whole numbers")
        return np.asarray(functools.reduce(function, arrays[1:], arrays[0]) if len(arrays) > 1 else function(*arrays))

    return run


def _add(_: tuple[Any, ...], *arrays: Array) -> Array:
    """Run a sum of integers, or of a number and zero, which is that number except for its -0."""
    whole = all(array.dtype.kind in "iu" for array in arrays)
    nothing = arrays[1].ndim == 0 and arrays[1].dtype == np.float32 and arrays[1].tobytes() == bytes(4)
    if not whole and not nothing:
        raise ValueError("a sum that is rounded")
    return np.asarray(arrays[0] + arrays[1])


def _product(_: tuple[Any, ...], *arrays: Array) -> Array:
    """Run a product of integers, or of floats, which is rounded once."""
    if any(array.dtype.kind not in "iu" and array.dtype != np.float32 for array in arrays):
        raise ValueError("a product that runtimes may round otherwise")
    return np.asarray(arrays[0] * arrays[1])


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """Run the function on types that numpy computes in themselves."""

    def run(_: tuple[Any, ...], *arrays: Array) -> Array:
        if any(array.dtype.isbuiltin != 1 for array in arrays):
            raise ValueError("not a type of numpy")
        return np.asarray(function(*arrays))

    return run


_OPERATORS: dict[str, Callable[..., Array]] = {
    "Gather": _table,
    "GatherElements": _table,
    "BitShift": _shift,
    **{name: _whole(function) for name, function in (("Min", np.minimum), ("Max", np.maximum))},
    "Add": _add,
    "Sub": _whole(np.subtract),
    "Mul": _product,
    "BitwiseAnd": _whole(np.bitwise_and),
    "BitwiseOr": _whole(np.bitwise_or),
    "BitwiseXor": _whole(np.bitwise_xor),
    "BitwiseNot": _whole(np.bitwise_not),
    "Neg": _plain(np.negative),
    "Abs": _plain(np.abs),
    "Equal": _plain(np.equal),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "IsNaN": _plain(np.isnan),
    "Not": _plain(np.logical_not),
    "And": _plain(np.logical_and),
    "Or": _plain(np.logical_or),
    "Xor": _plain(np.logical_xor),
}

ELEMENTWISE = frozenset({"Cast", "BitCast", "Where", *_OPERATORS})
"""The operators with known functions; Gather and GatherElements in a constant vector, by its first axis."""
