"""The rule of promotion at one operator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.promotion import (
    _groups,  # pyright: ignore[reportPrivateUsage]
    _meant_to_promote,  # pyright: ignore[reportPrivateUsage]
    _stand_in,  # pyright: ignore[reportPrivateUsage]
    dtype_of,
    promote,
    promote_operands,
)
from tests.verification.evaluate.test_operators import run


@pytest.mark.parametrize(
    ("text", "opset", "feeds", "dtype", "expected"),
    [
        ("g (float16[1] a, float[1] b) => (float[1] y) { y = Add (a, b) }", 21,
         (np.array([1], np.float16), np.array([0.1], np.float32)), np.float32, [1.100000023841858]),
        ("g (int8[1] a, int64[1] b) => (int64[1] y) { y = Mul (a, b) }", 21,
         (np.array([-100], np.int8), np.array([100])), np.int64, [-10000]),
        ("g (float16[1] a, float[1] b) => (float[1] y) { y = Pow (a, b) }", 21,
         (np.array([2], np.float16), np.array([0.5], np.float32)), np.float32, [1.4142135381698608]),
        ("g (float16[1] a, float[1] b) => (float16[1] y) { y = Pow (a, b) }", 21,
         (np.array([2], np.float16), np.array([0.5], np.float32)), np.float16, [1.4140625]),
        # Sin has no bfloat16: the result is of its type, unless the model declares another
        ("g (bfloat16[1] a) => (float[1] y) { y = Sin (a) }", 21,
         (np.array([1], ml_dtypes.bfloat16),), np.float32, [float(np.sin(np.float32(1)))]),
        ("g (bfloat16[1] a) => (bfloat16[1] y) { y = Sin (a) }", 21,
         (np.array([1], ml_dtypes.bfloat16),), ml_dtypes.bfloat16, [0.83984375]),
        # Sum has no integers, and Max no bool: computed as they are meant
        ("g (int32[1] a, int32[1] b) => (int32[1] y) { y = Sum (a, b, b) }", 21,
         (np.array([2**30], np.int32), np.array([5], np.int32)), np.int32, [2**30 + 10]),
        ("g (bool[2] a, bool[2] b) => (bool[2] y) { y = Max (a, b) }", 21,
         (np.array([True, False]), np.array([False, False])), np.bool_, [True, False]),
        ("g (bool[2] a) => (int8[2] y) { y = Abs (a) }", 21, (np.array([True, False]),), np.int8, [1, 0]),
        ("g (bool[2] a) => (y) { y = Abs (a) }", 21, (np.array([True, False]),), np.int8, [1, 0]),
        # a type that the model declares, bfloat16 before opset 13, and another operator of integers
        ("g (int32[1] a, int32[1] b) => (double[1] y) { y = Sum (a, b) }", 21,
         (np.array([2**30], np.int32), np.array([2**30], np.int32)), np.float64, [2**31]),
        ("g (bfloat16[1] a, bfloat16[1] b) => (bfloat16[1] y) { y = Sum (a, b, b) }", 12,
         (np.array([1], ml_dtypes.bfloat16), np.array([2**-8], ml_dtypes.bfloat16)), ml_dtypes.bfloat16, [1.0078125]),
        ("g (int32[1] a, int32[1] b) => (double[1] y) { y = Mean (a, b) }", 21,
         (np.array([4], np.int32), np.array([8], np.int32)), np.float64, [6]),
        ("g (int32[1] a, int32[1] b) => (y) { y = Mean (a, b) }", 21,
         (np.array([4], np.int32), np.array([8], np.int32)), np.float64, [6]),
        ("g (bool[2] a, bool[2] b) => (bool[2] y) { y = Min (a, b) }", 21,
         (np.array([True, True]), np.array([False, True])), np.bool_, [False, True]),
    ],
)  # fmt: skip
def test_operands_are_promoted(text: str, opset: int, feeds: tuple[Any, ...], dtype: Any, expected: list[Any]) -> None:
    (found,) = run(text, opset, **dict(zip("ab", feeds, strict=False)))
    assert (found.array.dtype, found.array.tolist()) == (dtype, expected)


def test_a_refused_promotion() -> None:
    with pytest.raises(PromotionError, match="int64 with float could lose precision"):
        run("g (int64[1] a, float[1] b) => (float[1] y) { y = Add (a, b) }", a=np.array([1]), b=np.ones(1, np.float32))


@pytest.mark.parametrize(
    ("dtype", "supported", "declared", "expected"),
    [
        ("INT8", "INT8 INT16", None, "INT8"), ("INT8", "", None, "INT8"), ("INT8", "UINT8", None, None),
        ("INT8", "INT32 INT16 DOUBLE", None, "INT16"), ("INT8", "INT32 INT16 DOUBLE", "DOUBLE", "DOUBLE"),
        ("INT8", "INT32 INT16", "UINT8", "INT16"), ("INT8", "INT32 INT16", "INT8", "INT16"),
        ("UINT8", "INT16 UINT16", None, "UINT16"), ("INT4", "INT8 UINT8", None, "INT8"),
        ("BOOL", "INT8 UINT8", None, "INT8"), ("BFLOAT16", "FLOAT16 FLOAT DOUBLE", None, "FLOAT"),
        ("FLOAT", "INT64 FLOAT16", None, None), ("INT8", "DOUBLE FLOAT16 FLOAT", None, "FLOAT16"),
    ],
)  # fmt: skip
def test_the_type_that_stands_in(dtype: str, supported: str, declared: str | None, expected: str | None) -> None:
    """The declared one if it holds all numbers, otherwise the narrowest of the lowest kind, of the same sign."""
    found = _stand_in(
        DataType[dtype],
        {DataType[name] for name in supported.split()},
        None if declared is None else DataType[declared],
    )
    assert found == (None if expected is None else DataType[expected])


def test_a_declared_type_that_is_supported_is_not_cast_back() -> None:
    """bfloat16 before opset 13 is computed in float: the result is cast back unless it is declared so."""
    schema, x = onnx.defs.get_schema("Sin", 7), np.ones(1, ml_dtypes.bfloat16)
    for declared, back in ((None, {"T": DataType.BFLOAT16}), ("BFLOAT16", {"T": DataType.BFLOAT16}), ("FLOAT", {})):
        node = onnx_ir.node("Sin", [onnx_ir.Value(name="x")], outputs=[onnx_ir.Value(name="y")])
        if declared is not None:
            node.outputs[0].dtype = DataType[declared]
        found = promote_operands(node, [x], schema, PromotionRules())
        assert ([dtype_of(a) for a in found.operands if a is not None], found.back) == ([DataType.FLOAT], back)


def test_a_bool_that_stands_for_a_number_is_not_cast_back() -> None:
    node = onnx_ir.node("Abs", [onnx_ir.Value(name="x")])
    found = promote_operands(node, [np.ones(1, np.bool_)], onnx.defs.get_schema("Abs", 13), PromotionRules())
    assert ([dtype_of(a) for a in found.operands if a is not None], found.back) == ([DataType.INT8], {})


@pytest.mark.parametrize(
    ("base", "exponent", "declared", "expected"),
    [
        ("float16", "float32", "FLOAT", True), ("float16", "float32", "DOUBLE", False),
        ("float16", "float32", "FLOAT16", False), ("float16", "float32", None, False),
        ("float16", "float32", "UNDEFINED", False), (None, "float32", "FLOAT", False),
        ("float16", None, "FLOAT", False), ("int64", "float32", "FLOAT", True),
    ],
)  # fmt: skip
def test_a_pow_that_is_meant_to_promote(
    base: str | None, exponent: str | None, declared: str | None, expected: bool
) -> None:
    """Its declared type says so; an operand that is left out promotes nothing."""
    node = onnx_ir.node("Pow", [onnx_ir.Value(name="x"), onnx_ir.Value(name="z")])
    if declared is not None:
        node.outputs[0].dtype = DataType[declared]
    operands = [None if name is None else np.ones(1, name) for name in (base, exponent)]
    assert _meant_to_promote(node, operands, PromotionRules()) is expected


@pytest.mark.parametrize(
    ("op_type", "count", "expected"),
    [
        ("Add", 2, {"T": [0, 1]}), ("Pow", 2, {"T": [0], "T1": [1]}), ("Concat", 3, {"T": [0, 1, 2]}),
        ("Loop", 4, {"I": [0], "B": [1]}),  # its states may have several types
        ("Where", 3, {"B": [0], "T": [1, 2]}), ("Gather", 2, {"T": [0], "Tind": [1]}),
    ],
)  # fmt: skip
def test_operands_of_one_type_by_the_schema(op_type: str, count: int, expected: dict[str, list[int]]) -> None:
    assert _groups(onnx.defs.get_schema(op_type, 16), count) == expected


@pytest.mark.parametrize(
    ("other", "constant", "expected"),
    [(np.array(1), True, "int8"), (np.array(1), False, "int64"), (np.array(300), True, "int64"),
     (np.array([1]), True, "int64")],
)  # fmt: skip
def test_only_constants_without_dimensions_are_weak(other: Any, constant: bool, expected: str) -> None:
    operands, rules = [np.ones(2, np.int8), other], PromotionRules(weak_scalars=True)
    assert [array.dtype.name for array in promote(operands, rules, [False, constant])] == [expected] * 2


@pytest.mark.parametrize(("constant", "expected"), [(True, "int8"), (False, "int64")])
def test_a_node_says_which_of_its_operands_are_constants(constant: bool, expected: str) -> None:
    one = onnx_ir.Value(name="one", const_value=onnx_ir.tensor(np.array(1)) if constant else None)
    node = onnx_ir.node("Add", [onnx_ir.Value(name="x"), one])
    operands, rules = [np.ones(2, np.int8), np.array(1)], PromotionRules(weak_scalars=True)
    found = promote_operands(node, operands, onnx.defs.get_schema("Add", 14), rules).operands
    assert [array.dtype.name for array in found if array is not None] == [expected] * 2


def test_types_of_text() -> None:
    for array in (np.array(["a"]), np.array(["a"], object), np.array([b"a"])):
        assert dtype_of(array) is DataType.STRING
    assert dtype_of(np.ones(1, ml_dtypes.bfloat16)) is DataType.BFLOAT16
