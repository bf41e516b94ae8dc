"""What is known of the elements of arrays: which a type holds, which constants are read, how many."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.shapes.elements import Derived, Operation, array_of, fitted, holds, of_tensor
from castsmith.numerics.symbols import UNKNOWN, Element, high_of, low_of, symbol

FLOAT, HALF, BRAIN, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE
INT64, UINT64, INT32, INT8, UINT8, BOOL = (
    DataType[name] for name in ("INT64", "UINT64", "INT32", "INT8", "UINT8", "BOOL")
)
SIZE, FEW, SIGNED = symbol("N"), symbol("P", 2, 5), symbol("Z", None, None)
BELOW, ABOVE = symbol("B", None, 5), symbol("A", -3, None)
HELD: list[tuple[Element, DataType, bool]] = [
    *((127, INT8, True), (128, INT8, False), (-128, INT8, True), (-129, INT8, False), (-1, UINT8, False)),
    *((255, UINT8, True), (256, UINT8, False), (1, BOOL, True), (2, BOOL, False)),
    *((1 << 24, FLOAT, True), ((1 << 24) + 1, FLOAT, False), ((1 << 24) + 2, FLOAT, True), (10**400, DOUBLE, False)),
    *(
        (2048, HALF, True),
        (2049, HALF, False),
        (65504, HALF, True),
        (65536, HALF, False),
        ((1 << 53) + 1, DOUBLE, False),
    ),
    *((Fraction(1, 2), FLOAT, True), (Fraction(1, 3), FLOAT, False), (Fraction(1, 3), DOUBLE, False)),
    *((Fraction(1, 512), BRAIN, True), (Fraction(257, 256), BRAIN, False), (Fraction(257, 256), HALF, True)),
    *((Fraction((1 << 54) + 1, 2), DOUBLE, False), (Fraction(10**400, 3), DOUBLE, False)),
    *((FEW, INT8, True), (FEW, UINT8, True), (-FEW, UINT8, False), (FEW, FLOAT, True), (FEW * 1000, HALF, False)),
    *((FEW * 400, HALF, True), (-FEW * 400, HALF, True), (-FEW * 1000, HALF, False), (SIZE, FLOAT, False)),
    *((SIZE, INT64, True), (SIZE, UINT64, True), (SIZE, INT32, False), (-SIZE, INT64, True), (-SIZE, UINT64, False)),
    *((SIZE * (1 << 31), INT64, True), (SIZE * ((1 << 31) + 1), INT64, False), (-SIZE * (1 << 32), INT64, False)),
    *((SIGNED, INT64, True), (SIGNED, UINT64, False), (SIGNED, INT32, False), (SIGNED, FLOAT, False)),
    *((BELOW, INT32, False), (ABOVE, INT32, False), (BELOW, FLOAT, False), (ABOVE, FLOAT, False)),
    *(
        (ABOVE + 3, UINT64, True),
        (ABOVE, UINT64, False),
        (FEW * (1 << 40), INT64, True),
        (FEW * (1 << 62), INT64, False),
    ),
    *((symbol("E", 0, 1 << 11), HALF, True), (symbol("F", 0, (1 << 11) + 1), HALF, False)),
    *((UNKNOWN, INT64, False), (UNKNOWN, FLOAT, False)),
]


def test_numbers_and_sizes_that_a_type_holds() -> None:
    assert [(element, dtype) for element, dtype, held in HELD if holds(element, dtype) is not held] == []


CONSTANTS: list[tuple[Any, list[Any] | None]] = [
    (np.array([1.0, 0.5], np.float32), [1, Fraction(1, 2)]),
    (np.array([0.0], np.float32), [0]),
    (np.array([-0.0], np.float32), None),
    (np.array([-1.5, 0.0], np.float32), [Fraction(-3, 2), 0]),
    (np.array([2**53 + 1, 0, -5], np.int64), [2**53 + 1, 0, -5]),
    (np.array([np.inf], np.float32), None),
    (np.array([np.nan, 1], np.float32), None),
    (np.array([0.5], np.float16), [Fraction(1, 2)]),
    (np.array([0.5], ml_dtypes.bfloat16), [Fraction(1, 2)]),
    (np.array([0.5], ml_dtypes.float8_e5m2), None),
    (np.array([True, False]), [1, 0]),
    (np.array([3], np.int8), [3]),
    (np.array([1 + 2j], np.complex64), None),
    (np.array(["a"], object), None),
    *((np.zeros(count, dtype), [0] * count if known else None)
      for dtype, count, known in (
          (np.float32, 64, True), (np.float32, 65, False), (np.int16, 64, True), (np.int16, 65, False),
          *((dtype, 1024, True) for dtype in (np.int32, np.uint32, np.bool_, np.int64)),
          *((dtype, 1025, False) for dtype in (np.int32, np.uint32, np.bool_, np.int64)))),
]  # fmt: skip


def test_constants_that_are_read() -> None:
    for array, expected in CONSTANTS:
        content = of_tensor(onnx_ir.tensor(array, dtype=DataType.STRING if array.dtype == object else None))
        assert (None if content is None else content.tolist()) == expected, (array.dtype, array.size)
        assert content is None or all(
            type(one) is type(other) for one, other in zip(content, expected or (), strict=True)
        )


@pytest.mark.parametrize(
    ("elements", "dtype", "expected"),
    [
        ([300, 1, SIZE], INT8, [UNKNOWN, 1, UNKNOWN]),
        ([300, 1, SIZE], INT64, [300, 1, SIZE]),
        ([1], None, None),
        ([1], DataType.STRING, None),
        ([1], DataType.COMPLEX64, None),
        ([1], DataType.FLOAT8E5M2, None),
        ([1], BRAIN, [1]),
        ([1] * 64, FLOAT, [1] * 64),
        ([1] * 65, FLOAT, None),
        ([1] * 1024, INT64, [1] * 1024),
        ([1] * 1025, INT64, None),
        ([1] * 65, INT64, [1] * 65),
    ],
)
def test_elements_that_do_not_fit_are_unknown(elements: list[Element], dtype: DataType | None, expected: Any) -> None:
    content = fitted(array_of(elements, (len(elements),)), dtype)
    assert (None if content is None else content.tolist()) == expected


def test_what_a_rule_reads_of_its_node() -> None:
    node = onnx_ir.Node("", "Slice", [onnx_ir.val("x"), None], [onnx_ir.AttrInt64s("axes", [3])])
    vector, matrix, open_ = array_of([1, 2], (2,)), array_of([1, 2], (1, 2)), array_of([1, SIZE], (2,))
    read = Operation(node, 21, [FLOAT], None, [None] * 4, [vector, matrix, open_, None], Derived())
    assert [read.integers(index) for index in range(5)] == [(1, 2), None, None, None, None]
    lists = [read.operands([]).elements(index) for index in range(5)]
    assert lists == [[1, 2], None, [1, SIZE], None, None]
    assert read.operands([]).opset == 21
    assert [read.has(index) for index in range(3)] == [True, False, False]
    assert (read.parameter("axes", 0), read.parameter("starts", 0), read.parameter("starts", 1)) == ((3,), (1, 2), None)
    assert (read.integer("fmod", 1), read.floats) == (1, True)
    for types in ([], [None], [INT64]):
        assert not Operation(node, 21, types, None, [], [], Derived()).floats


def test_the_symbol_of_an_operation_and_its_operands_is_one() -> None:
    derived = Derived()
    assert derived.cast(SIZE, INT8) == derived.cast(SIZE, INT8)
    assert derived.cast(SIZE, INT8) != derived.cast(FEW, INT8)
    assert derived.cast(SIZE, INT8) != derived.cast(SIZE, UINT8)
    assert [(low_of(end), high_of(end)) for end in (derived.cast(SIZE, INT8), derived.cast(SIZE, UINT8))] == [
        (-128, 127),
        (0, 255),
    ]
