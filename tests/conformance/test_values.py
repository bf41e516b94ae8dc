"""The inputs of the vectors: each number next to which a result changes is there, with its neighbours."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.conformance.values import TEXTS, boundaries, scaled, values_for
from castsmith.numerics.cast.convert import cast

FLOAT, HALF, INT32 = DataType.FLOAT, DataType.FLOAT16, DataType.INT32


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (DataType.INT4, np.arange(-9, 8.5, 0.5)),
        (DataType.UINT8, np.arange(-1, 256.5, 0.5)),
        (DataType.INT8, np.arange(-129, 128.5, 0.5)),
        (DataType.INT16, np.arange(-32769, 32769)),
        (DataType.UINT16, np.arange(-1, 65537)),
        (
            DataType.FLOAT4E2M1,
            [
                sign * n
                for sign in (-1, 1)
                for n in (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
            ],
        ),
    ],
)
def test_numbers_of_a_type_and_what_is_between_them(target: DataType, expected: Any) -> None:
    assert boundaries(target).tolist() == sorted({*map(float, expected)})


def test_boundaries_of_floats_are_numbers_and_midpoints_in_turn() -> None:
    for target, largest in ((DataType.FLOAT8E4M3FN, 448), (DataType.FLOAT8E5M2, 57344), (HALF, 65504)):
        points = boundaries(target)
        numbers, middles = points[::2], points[1::2]
        assert np.array_equal(middles, (numbers[:-1] + numbers[1:]) / 2)
        assert numbers[-2] == -numbers[1] == largest
        assert numbers[-1] == -numbers[0] == 2 * largest - numbers[-3]
        inner = numbers[1:-1]
        assert np.array_equal(cast(inner, target).astype(np.float64), inner)
        assert (cast(middles[1:-1], target).astype(np.float64) != middles[1:-1]).all()


def _codes(array: Any) -> set[int]:
    return {*array.view(f"u{array.itemsize}").tolist()}


def _near(points: Any, source: DataType) -> set[int]:
    """The codes of the points in a float type, and those before and after them."""
    middle = cast(np.asarray(points, np.float64), source)
    codes = middle.view(f"u{middle.itemsize}").astype(np.int64)
    steps = [codes, codes + 1, codes[middle != 0] - 1]
    return {*np.concatenate(steps).tolist()}


def _specials(source: DataType) -> set[int]:
    largest, least = (65504.0, 2.0**-24) if source == HALF else (float(np.finfo(np.float32).max), 2.0**-149)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, largest, -largest, least, -least]
    return _codes(cast(np.array(numbers), source))


@pytest.mark.parametrize(("source", "scale", "zero"), [(FLOAT, 0.5, 3.0), (FLOAT, 0.125, 0.0), (HALF, 0.5, 1.0)])
@pytest.mark.parametrize("target", [DataType.UINT8, DataType.INT4])
def test_quantized_floats(source: DataType, target: DataType, scale: float, zero: float) -> None:
    values = scaled(source, target, scale, zero)
    assert _codes(values) == _near((boundaries(target) - zero) * scale, source) | _specials(source)
    codes = values.view(f"u{values.itemsize}").astype(np.int64)
    assert (np.diff(codes) > 0).all()


def test_quantized_to_16_bits_are_some_and_those_at_the_ends() -> None:
    points = boundaries(DataType.INT16)
    kept = np.concatenate([points[:64], points[64:-64][:0], points[-64:], points[::16]])
    assert _codes(scaled(FLOAT, DataType.INT16, 0.5)) == _near(kept * 0.5, FLOAT) | _specials(FLOAT)


def test_quantized_integers() -> None:
    values = scaled(INT32, DataType.INT4, 3.0, 1.0)
    points = [int(np.floor((point - 1) * 3)) for point in boundaries(DataType.INT4)]
    assert values.tolist() == sorted({point + step for point in points for step in (-1, 0, 1)})
    assert values.dtype == np.int32
    wide = scaled(INT32, DataType.INT4, 2.0**29)  # beyond int32
    assert (wide.min(), wide.max()) == (-(2**31) + 2**28 - 1, 2**31 - 2**28 + 1) == (wide[0], wide[-1])


def test_types_of_up_to_16_bits_are_whole() -> None:
    for source in (DataType.INT4, DataType.UINT8, DataType.FLOAT8E5M2, HALF, DataType.INT16):
        values = values_for(source, FLOAT)
        bits = {DataType.INT4: 4, HALF: 16, DataType.INT16: 16}.get(source, 8)
        assert len(values) == len({value.tobytes() for value in values}) == 2**bits
        assert values.dtype == source.numpy()
        few = values_for(source, FLOAT, whole_bits=8)
        assert (len(few) == len(values)) is (bits <= 8)
    assert values_for(DataType.BOOL, FLOAT).tolist() == [False, True]
    assert values_for(DataType.STRING, FLOAT).tolist() == list(TEXTS)


def test_wide_types_reach_each_result_of_a_narrow_one() -> None:
    """Of float8 and integers each number and midpoint, of 16 bits the midpoints; and random bits."""
    for target in (DataType.FLOAT8E4M3FN, DataType.INT8, HALF, DataType.INT16):
        values = values_for(FLOAT, target)
        codes, points = _codes(values), boundaries(target)
        assert _near(points[1::2] if target == HALF else points, FLOAT) <= codes
        name = f"float_to_{target.name.lower()}".replace("_to_", " to ")
        random = np.frombuffer(hashlib.shake_256(name.encode()).digest(2048 * 4), "<u4")
        assert {*random.tolist()} <= codes
        assert np.array_equal(values.view(np.uint32), np.unique(values.view(np.uint32)))
    integers = {*values_for(INT32, DataType.INT8).tolist()}
    assert {point + step for point, step in itertools.product(range(-129, 129), (-1, 0, 1))} <= integers
    assert {-(2**31), 2**31 - 1} <= integers
    assert len(values_for(FLOAT, DataType.STRING)) < len(values_for(FLOAT, DataType.FLOAT8E4M3FN)) + 1
    assert len(values_for(HALF, DataType.STRING)) < 2**16
