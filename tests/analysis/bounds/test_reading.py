"""Constants that are read in parts."""

from __future__ import annotations

from itertools import accumulate, product

import ml_dtypes
import numpy as np
import onnx_ir

from castsmith.analysis.bounds.interval import MINUS, NAN, PLUS
from castsmith.analysis.bounds.reading import has_rows, interval_of_tensor, is_read_in_parts, read


def test_the_ends_of_large_constants_of_float16_are_those_in_float() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    columns = np.tile(every, (3, 1)).reshape(-1, 64)
    for array in (columns, np.where(np.isfinite(columns), columns, np.float16(0)), columns.T, columns[:, ::2]):
        found, expected = (interval_of_tensor(onnx_ir.tensor(each)) for each in (array, array.astype(np.float32)))
        assert np.array_equal(found.low, expected.low)
        assert np.array_equal(found.high, expected.high)
        assert np.array_equal(found.special, expected.special)


def test_what_is_read_in_parts_and_what_by_rows() -> None:
    cases = [
        (np.zeros((256, 256), np.float32), False, False),
        (np.zeros((257, 256), np.float32), True, True),
        (np.zeros((257, 256), np.float32).T, True, False),
        (np.zeros((2, 257, 256), np.float32), True, False),
        (np.zeros((1 << 16) + 1, np.float32), True, False),
        (np.zeros((1, 1 << 20), np.int8), True, True),
        (np.zeros((1, (1 << 20) + 1), np.int8), True, False),
        (np.zeros((257, 256), np.complex64), False, False),
    ]
    for array, in_parts, by_rows in cases:
        tensor = onnx_ir.tensor(array)
        assert (is_read_in_parts(tensor), has_rows(tensor)) == (in_parts, by_rows), (array.shape, array.dtype)


def test_small_constants_are_followed_one_by_one_and_large_ones_by_column() -> None:
    for rows in (4, 256, 257):
        array = np.tile(np.array([1, np.nan, np.inf, -3], np.float32), (rows, 64))
        array[0, :4] = 7, 2, 5, np.nan
        array[-1, 4:6] = -np.inf, 9
        finite, columns = np.isfinite(array), rows * 256 > 1 << 16
        low, high = (np.where(finite, array, fill).astype(np.float64) for fill in (np.inf, -np.inf))
        parts = [np.isnan(array) * NAN, np.isposinf(array) * PLUS, np.isneginf(array) * MINUS]
        special = np.bitwise_or.reduce(parts).astype(np.uint8)
        if columns:
            low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
            special = np.bitwise_or.reduce(special, axis=0, keepdims=True)
        empty = low > high
        found = interval_of_tensor(onnx_ir.tensor(array))
        assert np.array_equal(found.low, np.where(empty, 0, low))
        assert np.array_equal(found.high, np.where(empty, 0, high))
        assert np.array_equal(found.special, special)


def test_one_infinity_or_nan_anywhere_in_a_large_constant_is_seen() -> None:
    for dtype, (spoilt, bit) in product(
        (np.float32, np.float16, ml_dtypes.bfloat16), ((np.inf, PLUS), (-np.inf, MINUS), (np.nan, NAN))
    ):
        for row in (0, -1):
            array = np.ones((1 << 13, 64), dtype)
            array[row, 3] = spoilt
            found = interval_of_tensor(onnx_ir.tensor(array))
            assert (found.least, found.greatest, found.special.reshape(-1).tolist()) == (
                1,
                1,
                [0, 0, 0, bit, *[0] * 60],
            )
    empty = interval_of_tensor(onnx_ir.tensor(np.zeros((0, 3), np.float32)))
    assert (empty.least, empty.greatest, empty.finite, empty.dims) == (0, 0, True, (0, 3))


def test_parts_are_numbered_by_their_first_row() -> None:
    tensor = onnx_ir.tensor(np.arange(1 << 22, dtype=np.float32).reshape(-1, 64))
    parts = [*read(tensor, lambda first, rows: (first, len(rows), float(rows[0, 0])))]
    assert len(parts) > 1
    assert [first for first, _, _ in parts] == [0, *accumulate(count for _, count, _ in parts[:-1])]
    assert all(number == 64 * first for first, _, number in parts)


def test_ends_that_float64_does_not_hold_are_moved_outward() -> None:
    exact, least, most = 2**53 - 1, -(2**63), 2**63 - 1
    for rows in (1, 1 << 15):
        array = np.tile(np.array([exact, -exact, 2**53 + 1, -(2**53) - 1, least, most], np.int64), (rows, 1))
        found = interval_of_tensor(onnx_ir.tensor(array))
        low, high = (np.broadcast_to(ends, array.shape)[0].tolist() for ends in (found.low, found.high))
        assert (low[:2], high[:2]) == ([exact, -exact], [exact, -exact])
        assert all(a < int(n) < b for a, n, b in zip(low[2:], array[0, 2:], high[2:], strict=True))
