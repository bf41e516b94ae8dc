"""Constants that are read in parts."""

from __future__ import annotations

import numpy as np
import onnx_ir

from castsmith.analysis.bounds.reading import interval_of_tensor


def test_the_ends_of_large_constants_of_float16_are_those_in_float() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    columns = np.tile(every, (3, 1)).reshape(-1, 64)
    for array in (columns, np.where(np.isfinite(columns), columns, np.float16(0)), columns.T, columns[:, ::2]):
        found, expected = (interval_of_tensor(onnx_ir.tensor(each)) for each in (array, array.astype(np.float32)))
        assert np.array_equal(found.low, expected.low)
        assert np.array_equal(found.high, expected.high)
        assert np.array_equal(found.special, expected.special)
