"""What is judged of an output: each element that the standard fixes, and what is said of the first wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from castsmith.conformance.exporting import raw_bytes
from castsmith.conformance.judging import Outcome, judge
from castsmith.conformance.vectors import Operand, Span, Vector
from castsmith.numerics.status import Definedness

Array = np.ndarray[Any, Any]


def vector(output: Array, *inputs: Array, op: str = "Cast", spans: Sequence[Span] = ()) -> Vector:
    names = ("x", "scale", "zero")
    operands = [Operand(name, array, "") for name, array in zip(names, inputs, strict=False)]
    return Vector("v", op, 25, 25, {}, operands, output, spans, "")


def outcome_of(of: Vector, given: Array) -> Outcome:
    return judge(of, raw_bytes(given))


TEXTS: list[tuple[Array, Array, tuple[str, str]]] = [
    (np.array([1.5, -0.0], np.float32), np.array([1.5, 0.0], np.float32), ("-0.0 (0x80000000)", "0.0 (0x00000000)")),
    (np.array([1, 2], np.float16), np.array([1, 2.002], np.float16), ("2.0 (0x4000)", "2.001953125 (0x4001)")),
    (
        np.array([1, 2], ml_dtypes.float8_e4m3fn),
        np.array([1, np.nan], ml_dtypes.float8_e4m3fn),
        ("2.0 (0x40)", "nan (0x7f)"),
    ),
    (np.array([1, 200], np.uint8), np.array([1, 201], np.uint8), ("200", "201")),
    (np.array([1, -3], ml_dtypes.int4), np.array([1, 5], ml_dtypes.int4), ("-3", "5")),
    (np.array([True, True]), np.array([True, False]), ("True", "False")),
    (np.array(["1", "2"], object), np.array(["1", "nan"], object), ("'2'", "'nan'")),
]


@pytest.mark.parametrize(("right", "wrong", "texts"), TEXTS, ids=lambda value: str(getattr(value, "dtype", "")))
def test_one_wrong_element_is_named_with_its_code(right: Array, wrong: Array, texts: tuple[str, str]) -> None:
    x = np.array([0.5, 0.25], np.float32)
    assert outcome_of(vector(right, x), right) == Outcome("v", "right", 2)
    found = outcome_of(vector(right, x), wrong)
    assert (found.status, found.elements, found.wrong) == ("wrong", 2, 1)
    assert found.first is not None
    assert (found.first.index, found.first.input) == (1, "0.25 (0x3e800000)")
    assert (found.first.expected, found.first.got) == texts


def test_what_the_standard_leaves_open_is_counted_and_not_wrong() -> None:
    right = np.arange(6, dtype=np.float32)
    spans = [Span(0, 1, Definedness.DISPUTED, ""), Span(3, 6, Definedness.UNDEFINED, "")]
    of = vector(right, right, spans=spans)
    assert outcome_of(of, right - 1) == Outcome("v", "wrong", 6, 2, 1, 3, first=outcome_of(of, right - 1).first)
    first = outcome_of(of, right - 1).first
    assert first is not None
    assert first.index == 1
    other = np.where(of.defined(), right, -1).astype(np.float32)
    assert outcome_of(of, other) == Outcome("v", "right", 6, 0, 1, 3)


def test_another_nan_is_right_and_counted_where_a_type_has_one() -> None:
    nan = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    other = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)
    assert outcome_of(vector(nan, nan), other) == Outcome("v", "right", 2, nan_bits=1)
    assert outcome_of(vector(nan, nan), nan) == Outcome("v", "right", 2)
    number = np.array([1, 1], np.float32)
    assert (outcome_of(vector(number, number), nan).wrong, outcome_of(vector(nan, nan), number).wrong) == (1, 1)


def test_an_output_of_another_size_is_no_answer() -> None:
    right = np.arange(3, dtype=np.float32)
    found = judge(vector(right, right), raw_bytes(right)[:-4])
    assert (found.status, found.reason) == ("refuses", "the output has 8 bytes, which are not 3 elements")


@pytest.mark.parametrize(
    ("scale", "at", "text"),
    [
        (np.float32(2), 7, "2.0 (0x40000000)"),
        (np.array([1, 2, 4], np.float32), 7, "2.0 (0x40000000)"),
        (np.array([[1, 2], [4, 8], [16, 32]], np.float32), 7, "8.0 (0x41000000)"),
        (np.array([[1, 2], [4, 8], [16, 32]], np.float32), 9, "16.0 (0x41800000)"),
    ],
    ids=["one", "rows", "blocks", "blocks"],
)
def test_a_quantization_is_named_with_the_scale_of_its_element(scale: Array, at: int, text: str) -> None:
    """Of three rows of four, with one scale, one of each row, or one of each two columns."""
    x, right = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(12, dtype=np.uint8).reshape(3, 4)
    wrong = right.copy()
    wrong.reshape(-1)[at] += 1
    zero = np.zeros(np.shape(scale), np.uint8)
    found = outcome_of(vector(right, x, np.asarray(scale), zero, op="QuantizeLinear"), wrong)
    assert found.first is not None
    assert found.first.index == at
    assert found.first.input.split(", ")[1:] == [f"scale {text}", "zero 0"]
    for op in ("CastLike", "Trunc"):
        alone = outcome_of(vector(right, x, zero, op=op), wrong).first
        assert alone is not None
        assert alone.input == found.first.input.split(", ")[0]
