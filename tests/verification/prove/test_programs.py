"""Parts of proofs: types of expressions, elements that decide a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.verification.prove.classes import classes_of, domain_of, every
from castsmith.verification.prove.programs import SOURCE, Program, constant, step
from castsmith.verification.prove.types import bound_together, result_type

_F, _D, _H, _I8, _I64, _U32, _BOOL = (
    *(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT8, DataType.INT64, DataType.UINT32),
    DataType.BOOL,
)


def graph(*outputs: int) -> tuple[Any, ...]:
    return "graph", 0, outputs


_TO_HALF = (("to", ("INT", "10")),)
_IF = (("else_branch", graph(5)), ("then_branch", graph(6)))
_LOOP = (("body", graph(4, 5, 6)),)
_SCAN = (("body", graph(5, 6)), ("num_scan_inputs", ("INT", "1")))


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "index", "types", "expected"),
    [
        (("Add", 14), (), (0, 1), 0, {0: _F, 1: _F}, _F),
        (("Add", 14), (), (0, 1), 0, {0: _F, 1: _I8}, None),
        (("Add", 14), (), (0, 1), 0, {0: _F}, None),
        (("Add", 14), (), (0, 1), 1, {0: _F, 1: _F}, None),
        (("Add", 13), (), (0, 1), 0, {0: _I8, 1: _I8}, None),
        (("Pow", 15), (), (0, 1), 0, {0: _F, 1: _F}, None),
        (("Shape", 15), (), (0,), 0, {0: _F}, _I64),
        (("Equal", 13), (), (0, 1), 0, {}, _BOOL),
        (("Nothing", 13), (), (0, 1), 0, {0: _F, 1: _F}, None),
        (("Cast", 13), _TO_HALF, (0,), 0, {0: _F}, _H),
        (("Cast", 1), (("to", ("STRING", "b'FLOAT16'")),), (0,), 0, {0: _F}, _H),
        (("CastLike", 19), (), (0, 1), 0, {0: _F, 1: _I8}, _I8),
        (("CastLike", 19), (), (0, None), 0, {0: _F}, None),
        (("TopK", 11), (), (0, 1), 0, {0: _F, 1: _I64}, _F),
        (("TopK", 11), (), (0, 1), 1, {0: _F, 1: _I64}, _I64),
        (("Concat", 13), (), (0, 1, 2), 0, {0: _I8, 1: _I8, 2: _I8}, _I8),
        (("Concat", 13), (), (0, 1, 2), 0, {0: _I8, 1: _I8, 2: _F}, None),
        (("Where", 16), (), (0, 1, 2), 0, {0: _BOOL, 1: _I8, 2: _I8}, _I8),
        (("If", 16), _IF, (0,), 0, {5: _F, 6: _F}, _F),
        (("If", 16), _IF, (0,), 0, {5: _F, 6: _I8}, None),
        (("Loop", 16), _LOOP, (0, None, 2), 0, {2: _F, 4: _BOOL, 5: _F, 6: _I8}, _F),
        (("Loop", 16), _LOOP, (0, None, 2), 1, {2: _F, 4: _BOOL, 5: _F, 6: _I8}, _I8),
        (("Loop", 16), _LOOP, (0, None, 2), 0, {2: _I8, 5: _F}, None),
        (("Loop", 16), _LOOP, (0, None, 2), 2, {2: _F, 5: _F, 6: _F}, None),
        (("Scan", 16), _SCAN, (2, 3), 0, {2: _F, 3: _I8, 5: _F, 6: _I8}, _F),
        (("Scan", 16), _SCAN, (2, 3), 1, {2: _F, 3: _F, 5: _F, 6: _I8}, _I8),
        (("Scan", 8), _SCAN, (2, 3), 0, {2: _F, 3: _I8, 5: _F, 6: _I8}, None),
    ],
)
def test_types_of_results(
    op: tuple[str, int], attributes: Any, inputs: Any, index: int, types: dict[int, DataType], expected: DataType | None
) -> None:
    assert result_type(("", *op), attributes, inputs, index, types) == expected


def test_inputs_that_one_type_variable_binds() -> None:
    for op_type, version, count, expected in (
        ("Add", 14, 2, [[0, 1]]), ("Where", 16, 3, [[1, 2]]), ("Concat", 13, 3, [[0, 1, 2]]), ("Gather", 13, 2, []),
        ("Loop", 16, 4, []), ("Nothing", 13, 2, []), ("Clip", 13, 3, [[0, 1, 2]]), ("Clip", 13, 1, []),
    ):  # fmt: skip
        assert bound_together(("", op_type, version), count) == expected, op_type


def number(value: Any, dtype: DataType = _U32) -> Program:
    return constant(np.array(value, dtype.numpy()), dtype)


def cast(program: Program, to: DataType) -> Program:
    return step("Cast", (int(to), True, "up", 23), [program])


def masked(mask: int, bits: Program) -> Program:
    return step("BitwiseAnd", (), [bits, number(mask)])


_BITS, _SIGNED = (step("BitCast", (int(to),), [SOURCE]) for to in (_U32, DataType.INT32))
_LOW = masked(0xFFF, _BITS)
_ZERO = number(0, _F)
_DECIDED = {
    "a narrow cast": (cast(SOURCE, _H), _F, True),
    "a cast to bfloat16": (cast(SOURCE, DataType.BFLOAT16), _F, True),
    "a cast to bool": (cast(SOURCE, _BOOL), _F, True),
    "a wide cast": (cast(SOURCE, _D), _F, False),
    "a cast to an integer": (cast(SOURCE, _I8), _F, False),
    "a cast of an integer": (cast(SOURCE, _H), _U32, False),
    "two casts": (cast(cast(SOURCE, _H), _I8), _F, True),
    "the source": (SOURCE, _F, False),
    "its bits": (_BITS, _F, False),
    "its bits as two": (step("BitCast", (int(DataType.INT16),), [SOURCE]), _F, False),
    "a constant added": (cast(step("Add", (), [SOURCE, _ZERO]), _H), _F, True),
    "another constant added": (cast(step("Add", (), [SOURCE, number(1, _F)]), _H), _F, False),
    "NaN": (step("IsNaN", (), [SOURCE]), _F, True),
    "a comparison": (step("Greater", (), [SOURCE, number(1, _F)]), _F, True),
    "a comparison with a number of more bits": (step("Greater", (), [SOURCE, number(0.1, _F)]), _F, False),
    "a comparison with itself": (step("Greater", (), [SOURCE, SOURCE]), _F, False),
    **{f"shifted by {by}": (step("BitShift", ("RIGHT",), [_BITS, number(by)]), _F, decided)
       for by, decided in ((11, False), (12, True), (31, True), (32, False))},
    "shifted to the left": (step("BitShift", ("LEFT",), [_BITS, number(12)]), _F, False),
    "shifted with its sign": (step("BitShift", ("RIGHT",), [_SIGNED, number(12)]), _F, False),
    "an integer shifted": (step("BitShift", ("RIGHT",), [SOURCE, number(12)]), _U32, True),
    "the upper bits": (masked(0xFFFFF000, _BITS), _F, True),
    "one of the lower bits": (masked(0xFFFFF001, _BITS), _F, False),
    "the lower bits": (_LOW, _F, False),
    "any of the lower bits": (step("Min", (), [_LOW, number(1)]), _F, True),
    "two of the lower bits": (step("Min", (), [_LOW, number(2)]), _F, False),
    "some of the lower bits": (step("Min", (), [masked(0x7FF, _BITS), number(1)]), _F, False),
    "no lower bit": (step("Equal", (), [_LOW, number(0)]), _F, True),
    "one lower bit": (step("Equal", (), [_LOW, number(1)]), _F, False),
    "more than no lower bit": (step("Greater", (), [_LOW, number(0)]), _F, True),
    "whether there are lower bits": (cast(_LOW, _BOOL), _F, True),
    "the number of the lower bits": (cast(_LOW, _H), _F, False),
    "64 bits": (cast(SOURCE, _H), _D, False),
}  # fmt: skip


def test_the_elements_that_decide_a_program() -> None:
    for name, (program, source, decided) in _DECIDED.items():
        assert domain_of(program, source) is (classes_of(source) if decided else None), name
    assert domain_of(SOURCE, _H) is every(_H)
    assert [len(every(each)) for each in (_H, _I8, _BOOL)] == [1 << 16, 1 << 8, 2]
    assert every(_BOOL).tolist() == [False, True]
