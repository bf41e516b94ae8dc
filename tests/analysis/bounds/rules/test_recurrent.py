"""Recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import NAN
from tests.analysis.bounds.rules.grids import box, ruled, step_of


@pytest.mark.parametrize(("hidden", "terms"), [(4, 10), (2, 8)])
@pytest.mark.parametrize(("more", "overflow"), [(-0.5, True), (0.5, False)])
def test_a_gate_overflows_by_its_roundings(hidden: int, terms: int, more: float, *, overflow: bool) -> None:
    """A product for each of 3 inputs and of the states, two biases and a peephole, with two roundings to spare."""
    most = 65504 / 3 / (1 + (terms + 2 + more) * 2.0**-11)
    x = box(np.full((1, 1, 3), -most), np.full((1, 1, 3), most), dtype=DataType.FLOAT16)
    weights = np.ones((1, 4 * hidden, 3), np.float16), np.zeros((1, 4 * hidden, hidden), np.float16)
    (y,) = ruled(step_of("LSTM", [x, *weights], {"hidden_size": hidden}, dtypes=[DataType.FLOAT16]))
    assert bool(y.bits & NAN) == overflow
