"""Large arrays are cast a chunk at a time, in memory that does not grow."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from tests.numerics import oracle
from tests.sampling import sampled

SIZE = 2**21
LIMIT = 4 * 2**20


def extra(work: Callable[[], np.ndarray]) -> int:
    """The most bytes that numpy held at one time while at work, without the result; tables are made beforehand."""
    work()
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("source", ["float", "double", "int64", "float16", "bfloat16", "float8e4m3fn", "bool"])
def test_cast(source: str) -> None:
    array = cast(np.arange(SIZE, dtype=np.float32) % 100, source)
    targets = [target for target in oracle.TYPES if target != source]
    for target in sampled(f"memory of casts [from {source}]", targets, 3):
        assert extra(lambda to=target: cast(array, to)) < LIMIT, target
    for layout in (array[::-1], array.reshape(2, -1).T, array.reshape(2, -1)[:, ::-1]):
        assert extra(lambda turned=layout: cast(turned, targets[0])) < LIMIT, layout.strides


@pytest.mark.parametrize("granularity", ["tensor", "axis", "block"])
def test_quantize_and_dequantize(granularity: str) -> None:
    x = np.ones((64, SIZE // 64), np.float32)
    scale = {"tensor": np.ones(()), "axis": np.ones(64), "block": np.ones((64, SIZE // 64 // 32))}[granularity]
    scale, axis, block = scale.astype(np.float32), {"axis": 0}.get(granularity, 1), {"block": 32}.get(granularity, 0)
    for output in ("uint8", "int4", "float8e4m3fn"):
        work = lambda to=output: quantize_linear(x, scale, output_dtype=to, axis=axis, block_size=block)  # noqa: E731
        assert extra(work) < LIMIT, output
        y = work()
        assert extra(lambda y=y: dequantize_linear(y, scale, axis=axis, block_size=block)) < LIMIT, output
