"""Programs: what operators in a row compute from one element, and their results on an array of elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.convert import bit_cast, cast
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.status import Definedness, cast_status

Array = NDArray[Any]

FAILURES = (CastsmithError, ValueError, TypeError, KeyError, IndexError)
"""The errors of a program of which nothing is known."""


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
    return Program(op, settings, tuple(arguments), b"", 1 + sum(argument.size for argument in arguments))


Run = tuple[Array, NDArray[np.bool_] | None]
Operators = Mapping[str, Callable[..., Array]]


def run(program: Program, domain: Array, done: dict[Program, Run], operators: Operators | None = None) -> Run:
    """Return the results of the program, and which of them the standard leaves undefined.

    Args:
        done: The results so far, of this and other programs on this domain.
        operators: The functions of operators besides casts and Where, by default `EXACT`.
    """
    if program not in done:
        done[program] = _run_anew(program, domain, done, EXACT if operators is None else operators)
    return done[program]


def _run_anew(program: Program, domain: Array, done: dict[Program, Run], operators: Operators) -> Run:
    if program.op == "source":
        return domain, None
    if program.op == "constant":
        dtype, shape = DataType(program.settings[0]), program.settings[1]
        return np.frombuffer(program.constant, dtype.numpy()).reshape(shape), None
    runs = [run(argument, domain, done, operators) for argument in program.arguments]
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
        if operators is EXACT and DataType.STRING in (to, _dtype_of(arrays[0])):
            raise ValueError("text, which runtimes write in different ways")
        how: dict[str, Any] = {"saturate": saturate, "round_mode": round_mode, "opset": opset}
        result = arrays[0] if _dtype_of(arrays[0]) == to else cast(arrays[0], DataType(to), **how)
        fresh = None
        if result is not arrays[0]:
            open_here = cast_status(arrays[0], DataType(to), **how) == Definedness.UNDEFINED
            fresh = open_here if open_here.any() else None
        masks = [mark for mark in (undefined, fresh) if mark is not None]
        return result, np.logical_or.reduce(masks) if masks else None
    if program.op == "BitCast":
        return bit_cast(arrays[0], DataType(program.settings[0])), undefined
    with np.errstate(all="ignore"):
        return operators[program.op](program.settings, *arrays), undefined


def _dtype_of(array: Array) -> DataType:
    return DataType.STRING if array.dtype.kind in "OSU" else DataType.from_numpy(array.dtype)


def evaluated(program: Program) -> Array | None:
    """Return the result of a program of constants; None if it is undefined."""
    try:
        result, undefined = run(program, np.zeros(0), {})
    except FAILURES:
        return None
    return None if undefined is not None else result


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
    are_integers = all(array.dtype.kind in "iu" for array in arrays)
    nothing = arrays[1].ndim == 0 and arrays[1].dtype == np.float32 and arrays[1].tobytes() == bytes(4)
    if not are_integers and not nothing:
        raise ValueError("a sum that is rounded")
    return np.asarray(arrays[0] + arrays[1])


def _product(_: tuple[Any, ...], *arrays: Array) -> Array:
    """Run a product of integers, or of floats, which is rounded once."""
    if any(array.dtype.kind not in "iu" and array.dtype != np.float32 for array in arrays):
        raise ValueError("a product that runtimes may round differently")
    return np.asarray(arrays[0] * arrays[1])


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """Run the function on types that numpy computes in themselves."""

    def run(_: tuple[Any, ...], *arrays: Array) -> Array:
        if any(array.dtype.isbuiltin != 1 for array in arrays):
            raise ValueError("not a type of numpy")
        return np.asarray(function(*arrays))

    return run


EXACT: Operators = {
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

ELEMENTWISE = frozenset({"Cast", "BitCast", "Where", *EXACT})
"""The operators with known functions; Gather and GatherElements in a constant vector, by its first axis."""
