"""Elements to run a program on so that it is known for every element: all of them, or one of each class.

A float or a 32-bit integer falls into 2**21 classes by its upper 20 bits and whether any of the lower 12 is set. A
program that reads no more, as every rounding to float16 or narrower, is known once it has run on one of each.
"""

from __future__ import annotations

import enum
import math
from functools import lru_cache
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Answer
from castsmith.numerics.critical import every_value
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.prove.programs import Array, Program

KEPT = 20
_LOW = (1 << 32 - KEPT) - 1
_FEWEST_MANTISSA_BITS = 10
OF_32_BITS = (DataType.FLOAT, DataType.INT32, DataType.UINT32)


class _Sees(enum.Enum):
    """Dependence of a program on the 32 bits of its source."""

    NOTHING = "a constant"
    ALL = "the source, or its bits as another type"
    SOME = "the source with a mask that keeps some of the lower bits"
    CLASS = "the upper bits and whether any lower one is set"
    UNKNOWN = "more than that"


def domain_of(program: Program, source: DataType) -> Array | None:
    """Return one element of each class that the program does not distinguish; None if there are too many."""
    row = element_type(source)
    if row.kind > Kind.FLOATING:
        return None
    if row.bits <= 16:
        return every(source)
    sees: dict[Program, _Sees] = {}
    if source in OF_32_BITS and _sees(program, source, sees) is _Sees.CLASS:
        return classes_of(source)
    return None


@lru_cache(maxsize=8)
def every(source: DataType) -> Array:
    every = np.array([False, True]) if source is DataType.BOOL else every_value(source).copy()
    every.flags.writeable = False
    return every


@lru_cache(maxsize=3)
def classes_of(source: DataType) -> Array:
    upper = np.arange(1 << KEPT, dtype=np.uint32) << np.uint32(32 - KEPT)
    classes = np.concatenate([upper, upper | np.uint32(1)]).view(source.numpy())
    classes.flags.writeable = False
    return classes


def _sees(program: Program, source: DataType, sights: dict[Program, _Sees]) -> _Sees:
    """Return the dependence of the program on its source of 32 bits."""
    if program not in sights:
        sights[program] = _sees_anew(program, source, sights)
    return sights[program]


def _sees_anew(program: Program, source: DataType, sights: dict[Program, _Sees]) -> _Sees:
    if program.op == "constant":
        return _Sees.NOTHING
    if program.op == "source":
        return _Sees.ALL
    argument_sights = [_sees(argument, source, sights) for argument in program.arguments]
    if all(sight in (_Sees.NOTHING, _Sees.CLASS) for sight in argument_sights):
        return _Sees.CLASS
    blind = [value for sight, value in zip(argument_sights, program.arguments, strict=True) if sight is _Sees.NOTHING]
    number = _scalar(blind[0]) if len(blind) == 1 else None
    if argument_sights[0] is _Sees.ALL:
        return _sees_all(program, source, number)
    if argument_sights[0] is _Sees.SOME and _tells_zero(program, number) and _masks_lower_bits(program.arguments[0]):
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
