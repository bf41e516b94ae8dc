"""Inputs and outputs of two graphs: which correspond, and how they differ."""

from __future__ import annotations

from typing import Any

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.verification.diff.interface import (
    Change,
    interface_changes,
    pair_by_index,
    pair_by_name,
    types_differ,
)

FLOAT, INT64 = DataType.FLOAT, DataType.INT64


def _values(*names: str, dtype: DataType | None = FLOAT, shape: Any = (2,)) -> list[onnx_ir.Value]:
    kind = None if dtype is None else onnx_ir.TensorType(dtype)
    return [
        onnx_ir.Value(name=name, type=kind, shape=None if shape is None else onnx_ir.Shape(shape)) for name in names
    ]


def _changes(a: list[onnx_ir.Value], b: list[onnx_ir.Value], named: bool = True) -> list[Change]:
    pairs = (pair_by_name if named else pair_by_index)(a, b)
    return list(interface_changes("input", "g", pairs, a, b))


def _change(kind: str, subject: str, before: str, after: str) -> Change:
    return Change(f"input-{kind}", "g", subject, before, after)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("xy", "xy", []),
        ("xy", "yx", [_change("order-changed", "order of inputs", "x, y", "y, x")]),
        ("xy", "x", [_change("removed", "input y", "float[2]", "")]),
        ("x", "xy", [_change("added", "input y", "", "float[2]")]),
        ("xy", "xz", [_change("renamed", "name of input y", "y", "z")]),
        ("xyz", "zab", [  # x stands in the place of z, which has its partner, and z in that of b
            _change("removed", "input x", "float[2]", ""), _change("added", "input b", "", "float[2]"),
            _change("renamed", "name of input y", "y", "a"),
            _change("order-changed", "order of inputs", "x, y, z", "z, a, b")]),
    ],
)  # fmt: skip
def test_inputs_by_name(a: str, b: str, expected: list[Change]) -> None:
    assert _changes(_values(*a), _values(*b)) == expected


def test_inputs_of_other_types() -> None:
    (x,), (y,), (z,) = _values("x"), _values("x", dtype=INT64), _values("z", dtype=INT64)
    assert _changes([x], [y]) == [_change("type-changed", "input x", "float[2]", "int64[2]")]
    assert _changes([x], [z]) == [
        _change("removed", "input x", "float[2]", ""),
        _change("added", "input z", "", "int64[2]"),
    ]
    (renamed,) = _values("w", shape=(3,))
    assert _changes([x], [renamed]) == [
        _change("renamed", "name of input x", "x", "w"),
        _change("type-changed", "input x", "float[2]", "float[3]"),
    ]


def test_inputs_by_position() -> None:
    """Neither names nor the order are part of the interface."""
    a, b = _values("x", "y", "z"), _values("p", "q")
    assert _changes(a[:2], b, named=False) == []
    assert _changes(a, b, named=False) == [_change("removed", "input z", "float[2]", "")]
    assert _changes(b, a, named=False) == [_change("added", "input z", "", "float[2]")]
    (other,) = _values("x", dtype=INT64)
    assert _changes(a[:1], [other], named=False) == [_change("type-changed", "input x", "float[2]", "int64[2]")]
    assert _changes(a[:1], _values("x", dtype=None), named=False) == []


@pytest.mark.parametrize(
    ("a", "b", "strictly", "loosely"),
    [
        ((FLOAT, (2, 3)), (FLOAT, (2, 3)), False, False),
        ((FLOAT, (2, 3)), (INT64, (2, 3)), True, True),
        ((FLOAT, (2, 3)), (None, (2, 3)), True, False),
        ((FLOAT, (2, 3)), (None, (2, 4)), True, True),
        ((FLOAT, (2, 3)), (FLOAT, None), True, False),
        ((FLOAT, (2, 3)), (FLOAT, (2,)), True, True),
        ((FLOAT, (2, 3)), (FLOAT, (2, 4)), True, True),
        ((FLOAT, (2, "N")), (FLOAT, (2, 4)), True, False),
        ((FLOAT, ("N", 3)), (FLOAT, ("M", 3)), True, False),
        ((FLOAT, ("N", 3)), (FLOAT, ("M", 4)), True, True),
        ((FLOAT, ()), (FLOAT, (1,)), True, True),
    ],
)
def test_types_that_differ(a: Any, b: Any, strictly: bool, loosely: bool) -> None:
    """A type that only one side declares differs only strictly."""
    (x,), (y,) = _values("x", dtype=a[0], shape=a[1]), _values("x", dtype=b[0], shape=b[1])
    for pair in ((x, y), (y, x)):
        assert (types_differ(*pair, strict=True), types_differ(*pair, strict=False)) == (strictly, loosely)
