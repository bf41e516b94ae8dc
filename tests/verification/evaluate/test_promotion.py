"""The rule of promotion at one operator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from castsmith.numerics.errors import PromotionError
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
