"""Parts of proofs: types of expressions, elements that decide a program."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.verification.prove.classes import classes_of, domain_of, every
from castsmith.verification.prove.programs import SOURCE, Program, constant, step

F, _D, H, I8, I64, _U32, BOOL = (
    *(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT8, DataType.INT64, DataType.UINT32),
    DataType.BOOL,
)


def number(value: Any, dtype: DataType = _U32) -> Program:
    return constant(np.array(value, dtype.numpy()), dtype)


def cast(program: Program, to: DataType) -> Program:
    return step("Cast", (int(to), True, "up", 23), [program])


def masked(mask: int, bits: Program) -> Program:
    return step("BitwiseAnd", (), [bits, number(mask)])


_BITS, _SIGNED = (step("BitCast", (int(to),), [SOURCE]) for to in (_U32, DataType.INT32))
_LOW = masked(0xFFF, _BITS)
_ZERO = number(0, F)
_DECIDED = {
    "a narrow cast": (cast(SOURCE, H), F, True),
    "a cast to bfloat16": (cast(SOURCE, DataType.BFLOAT16), F, True),
    "a cast to bool": (cast(SOURCE, BOOL), F, True),
    "a wide cast": (cast(SOURCE, _D), F, False),
    "a cast to an integer": (cast(SOURCE, I8), F, False),
    "a cast of an integer": (cast(SOURCE, H), _U32, False),
    "two casts": (cast(cast(SOURCE, H), I8), F, True),
    "the source": (SOURCE, F, False),
    "its bits": (_BITS, F, False),
    "its bits as two": (step("BitCast", (int(DataType.INT16),), [SOURCE]), F, False),
    "a constant added": (cast(step("Add", (), [SOURCE, _ZERO]), H), F, True),
    "another constant added": (cast(step("Add", (), [SOURCE, number(1, F)]), H), F, False),
    "NaN": (step("IsNaN", (), [SOURCE]), F, True),
    "a comparison": (step("Greater", (), [SOURCE, number(1, F)]), F, True),
    "a comparison with a number of more bits": (step("Greater", (), [SOURCE, number(0.1, F)]), F, False),
    "a comparison with itself": (step("Greater", (), [SOURCE, SOURCE]), F, False),
    **{f"shifted by {by}": (step("BitShift", ("RIGHT",), [_BITS, number(by)]), F, decided)
       for by, decided in ((11, False), (12, True), (31, True), (32, False))},
    "shifted to the left": (step("BitShift", ("LEFT",), [_BITS, number(12)]), F, False),
    "shifted with its sign": (step("BitShift", ("RIGHT",), [_SIGNED, number(12)]), F, False),
    "an integer shifted": (step("BitShift", ("RIGHT",), [SOURCE, number(12)]), _U32, True),
    "the upper bits": (masked(0xFFFFF000, _BITS), F, True),
    "one of the lower bits": (masked(0xFFFFF001, _BITS), F, False),
    "the lower bits": (_LOW, F, False),
    "any of the lower bits": (step("Min", (), [_LOW, number(1)]), F, True),
    "two of the lower bits": (step("Min", (), [_LOW, number(2)]), F, False),
    "some of the lower bits": (step("Min", (), [masked(0x7FF, _BITS), number(1)]), F, False),
    "no lower bit": (step("Equal", (), [_LOW, number(0)]), F, True),
    "one lower bit": (step("Equal", (), [_LOW, number(1)]), F, False),
    "more than no lower bit": (step("Greater", (), [_LOW, number(0)]), F, True),
    "whether there are lower bits": (cast(_LOW, BOOL), F, True),
    "the number of the lower bits": (cast(_LOW, H), F, False),
    "64 bits": (cast(SOURCE, H), _D, False),
}  # fmt: skip


def test_the_elements_that_decide_a_program() -> None:
    for name, (program, source, decided) in _DECIDED.items():
        assert domain_of(program, source) is (classes_of(source) if decided else None), name
    assert domain_of(SOURCE, H) is every(H)
    assert [len(every(each)) for each in (H, I8, BOOL)] == [1 << 16, 1 << 8, 2]
    assert every(BOOL).tolist() == [False, True]
