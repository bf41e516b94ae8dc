"""Values of every class of a type."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.numerics.types import Kind, element_type
from castsmith.verification.inputs.drawn import MILD_SETS
from castsmith.verification.inputs.values import neighbourhood
from tests.verification.inputs.test_drawn import made, maker


def test_kinds_of_sets() -> None:
    finite = made("float[640] x", "finite", 1)
    assert np.isfinite(finite).all()
    assert np.abs(finite).max() < 30
    sparse = made("float[640] x", "sparse", 1)
    assert 0 < (np.abs(sparse) > 30).sum() + np.isnan(sparse).sum() <= 640 // 32
    mild = made("int32[640] x", "mild", 1, output="int32[N] y")
    assert set(mild.tolist()) == {0, 1}
    last = made("int32[640] x", "mild", MILD_SETS, output="int32[N] y")
    assert set(last.tolist()) == {1, 2}
    whole = made("int32[640] x", "finite", 1, output="int32[N] y")
    assert set(whole.tolist()) == set(range(17))
    uniform = made("float[5] x", "uniform", 1)
    assert len(set(uniform.tolist())) == 1


@pytest.mark.parametrize(
    ("numbers", "dtype", "expected"),
    [
        ((5, -3), DataType.INT8, [5, 6, 4, -3, -2, -4]),
        ((127, -128, 200), DataType.INT8, [127, 126, -128, -127]),
        ((2.75, float("inf"), float("nan")), DataType.UINT8, [2, 3, 1]),
        ((1.0,), DataType.BFLOAT16, [0.99609375, 1.0, 1.0078125]),
        ((1.0, "text"), DataType.FLOAT8E4M3FN, [0.9375, 1.0, 1.125]),
    ],
)
def test_a_number_has_two_neighbours_in_its_type(
    numbers: tuple[float | str, ...], dtype: DataType, expected: list[float]
) -> None:
    near = neighbourhood(numbers, dtype).astype(np.float64).tolist()
    assert (near if element_type(dtype).kind is Kind.INTEGER else sorted(near)) == expected


def test_a_wanted_number_and_its_neighbours_come_first() -> None:
    inputs = maker("float[64] x")
    inputs.needs["x"].wanted[0.3] = None
    fed = np.asarray(inputs.make("adversarial", 1)["x"])
    near = np.float32(0.3)
    assert {float(near), float(np.nextafter(near, np.float32(1))), float(np.nextafter(near, np.float32(0)))} <= set(
        fed.tolist()
    )
