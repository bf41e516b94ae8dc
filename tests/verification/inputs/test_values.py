"""Values of every class of a type."""

from __future__ import annotations

import numpy as np

from castsmith.verification.inputs.drawn import MILD_SETS
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


def test_a_wanted_number_and_its_neighbours_come_first() -> None:
    inputs = maker("float[64] x")
    inputs.needs["x"].wanted[0.3] = None
    fed = np.asarray(inputs.make("adversarial", 1)["x"])
    near = np.float32(0.3)
    assert {float(near), float(np.nextafter(near, np.float32(1))), float(np.nextafter(near, np.float32(0)))} <= set(
        fed.tolist()
    )
